"""MKL-L0/1-SVM: the comparison of [Zhu2023]."""

from __future__ import annotations

from functools import partial
from typing import Any

from experiments import figures
from experiments.cells import Cell
from experiments.datasets import load
from experiments.figure_data import curves, grid_of, history
from experiments.flagship import FLAGSHIP
from experiments.method import Fitted, Method, on_kernels, points
from experiments.paper import Paper
from experiments.peers import ALWAYS, BOOSTED, COSTS
from experiments.problem import Problem, holdout
from tamis import AverageMKLClassifier, EasyMKLClassifier, SimpleMKLClassifier, ZeroOneMKLClassifier, bandwidths

TEST_SHARE = 0.3
FOLDS = {"quick": 3, "full": 10}
TEN, BOTH = ("ten Gaussians", bandwidths()), ("Gaussians on all and on each", bandwidths(on="both"))
STEPS = points(ratio=(2.0, 8.0, 64.0), rho1=(0.25, 1.0, 4.0))  # C = ratio rho1: below two a run never starts


def _zero_one(problem: Problem, quick: bool, **options: Any) -> Fitted:
    def make(ratio: float, rho1: float, kernels: Any) -> ZeroOneMKLClassifier:
        return ZeroOneMKLClassifier(
            C=ratio * rho1, rho1=rho1, kernels=kernels, max_iter=150 if quick else 300, calibration=None, **options
        )

    return on_kernels(problem, make, STEPS, *TEN)


def _simple(problem: Problem, quick: bool, kernels: tuple[str, Any]) -> Fitted:
    make = partial(SimpleMKLClassifier, tol=1e-2, calibration=None)
    return on_kernels(problem, make, points(C=COSTS), *kernels)


def _easy(problem: Problem, quick: bool) -> Fitted:
    make = partial(EasyMKLClassifier, calibration=None)
    return on_kernels(problem, make, points(C=COSTS, lam=(0.5,) if quick else (0.1, 0.9)), *BOTH)


def _average(problem: Problem, quick: bool) -> Fitted:
    return on_kernels(problem, partial(AverageMKLClassifier, calibration=None), points(C=COSTS), *TEN)


def _printed(problem: Problem, quick: bool) -> Fitted:
    return _zero_one(problem, quick, solver="admm", d_step="paper")


def _problem(cell: Cell) -> Problem:
    data = load(cell.dataset)
    train, test = holdout(data.y, data.groups, TEST_SHARE, cell.split)
    return Problem.of(data, train, test, FOLDS[cell.size], cell.split)


def _figure_data(cell: Cell, problem: Problem, found: Fitted) -> dict[str, Any]:
    data = {**curves(problem, found), **history(found)}
    if cell.dataset == "quadrants" and cell.method in ("MKL-L0/1-SVM", "SVC"):
        data |= grid_of(problem, found, {"MKL-L0/1-SVM": TEN}.get(cell.method))
    return data


L01_SVM = Paper(
    name="l01-svm",
    title="MKL-L0/1-SVM: the zero-one loss with multiple kernels, by ADMM",
    citation=ZeroOneMKLClassifier.citation,
    datasets={
        "ilpd_579": "Liver",
        "wpbc": "Wpbc",
        "pima": "Pima",
        "ionosphere": "Ionosphere",
        "sonar": "Sonar",
        "haberman": "Haberman",
        "quadrants": "Synthetic 2-d",
    },
    absent=(),
    methods={
        "MKL-L0/1-SVM": Method(_zero_one, TEN[0], protocols=("honest",)),
        "MKL-L0/1-SVM as printed": Method(_printed, TEN[0]),
        "SimpleMKL": Method(partial(_simple, kernels=TEN), TEN[0], protocols=("honest",)),
        "SimpleMKL on 10 (d + 1) kernels": Method(partial(_simple, kernels=BOTH), BOTH[0]),
        "EasyMKL": Method(_easy, BOTH[0], protocols=("honest",)),
        "mean kernel": Method(_average, TEN[0], protocols=("honest",)),
        **FLAGSHIP,
        **ALWAYS,
        **BOOSTED,
    },
    main="MKL-L0/1-SVM",
    same_splits=True,
    splits={("honest", "quick"): 3, ("honest", "full"): 20, ("paper", "quick"): 3, ("paper", "full"): 20},
    problem=_problem,
    measures={"accuracy": "Accuracy (%)", "auc": "AUC (%)", "n_instances": "Support vectors", "seconds": "Seconds"},
    figure_data=_figure_data,
    aliases={"MKL-L0/1-SVM as printed": "MKL-L0/1-SVM"},
    figures={
        "Convergence of the printed algorithm": figures.convergence("MKL-L0/1-SVM as printed"),
        "Weights of the kernels by round": figures.weights("MKL-L0/1-SVM"),
        "Decision boundary on the synthetic set": figures.boundary("quadrants", ("MKL-L0/1-SVM", "SVC")),
        "ROC curves": figures.roc(("MKL-L0/1-SVM", "SimpleMKL", "SVC")),
    },
)
