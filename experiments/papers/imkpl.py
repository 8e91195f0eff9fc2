"""IMKPL: the comparison of [Hosseini2019]."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from experiments import figures
from experiments.cells import Cell
from experiments.datasets import cache_folder, load
from experiments.figure_data import history, per_class, prototype_map
from experiments.flagship import FLAGSHIP
from experiments.method import Fitted, Method, as_it_is, chosen_by_itself, searched
from experiments.paper import Paper
from experiments.peers import COSTS, majority, svc, xgb
from experiments.problem import Problem, holdout, limited
from tamis import IMKPLClassifier, IMKPLClassifierCV, KernelGLVQClassifier, PrototypeSelectionClassifier, alignment

TEST_SHARE = 0.3
FOLDS = {"quick": 3, "full": 5}
MAX_ROWS = {"quick": 400, "full": 1560}
SETTINGS = {"tox_171": (18, 0.1, 0.3, 0.1), "isolet": (20, 0.2, 0.2, 0.3), "utkinect": (5, 0.1, 0.1, 0.2)}


def _problem(cell: Cell) -> Problem:
    data, seed = load(cell.dataset), cell.split
    train, test = holdout(data.y, data.groups, TEST_SHARE, seed)
    train, test = (limited(rows, data.y, MAX_ROWS[cell.size], seed) for rows in (train, test))
    return Problem.of(data, train, test, FOLDS[cell.size], seed)


def _kernels(problem: Problem) -> Any:
    """Return alignment kernels with a cache for time series, None (a Gaussian on each feature) for tables."""
    if problem.X.ndim != 3:
        return None
    folder = cache_folder() / "alignments"
    folder.mkdir(parents=True, exist_ok=True)
    return alignment(cache=folder)


def _ours(problem: Problem, quick: bool, **options: Any) -> Fitted:
    grid: dict[str, Any] = {"prototype_sizes": (3, 8), "kappas": (0.1,)} if quick else {"taus": (0.1, 0.3)}
    return chosen_by_itself(problem, IMKPLClassifierCV(kernels=_kernels(problem), **grid, **options))


def _with_article_settings(problem: Problem, quick: bool, **options: Any) -> Fitted:
    """Fit with the settings of the article."""
    settings = SETTINGS.get(problem.name, (5, 0.2, 0.2, 0.2))
    names = ("prototype_size", "lam", "mu", "tau")
    model = IMKPLClassifier(*settings, kernels=_kernels(problem), calibration=None, **options)
    return as_it_is(problem, model, dict(zip(names, settings, strict=True)))


def _cover(problem: Problem, quick: bool) -> Fitted:
    model = PrototypeSelectionClassifier(kernels=_kernels(problem), calibration=None)
    return searched(problem, model, {"radius": [0.05, 0.2] if quick else [0.02, 0.05, 0.1, 0.2, 0.4]})


def _glvq(problem: Problem, quick: bool) -> Fitted:
    model = KernelGLVQClassifier(kernels=_kernels(problem), calibration=None, max_iter=20 if quick else 100)
    return searched(problem, model, {"n_prototypes": [1, 3] if quick else [1, 3, 5]})


def _on_learned(problem: Problem, quick: bool, weight_step: str) -> Fitted:
    """Tune a support vector classifier on the kernel that IMKPL learned, or on the mean kernel."""
    X, y = problem.train
    size = 5 if quick else 8
    source = IMKPLClassifier(
        min(size, int(np.bincount(y).min())), kernels=_kernels(problem), weight_step=weight_step, calibration=None
    ).fit(X, y)
    K, K_new = source.kernel_matrix(X), source.kernel_matrix(problem.test[0], X)
    search = GridSearchCV(SVC(kernel="precomputed"), {"C": COSTS}, cv=problem.inner).fit(K, y)
    return Fitted(
        search.best_estimator_,
        clone(search.best_estimator_),
        K,
        K_new,
        search.best_params_,
        [frozenset(source.features_[list(c.columns)].tolist()) for c in source.model_.expansion.bank.channels]
        if X.ndim == 2
        else [frozenset([k]) for k in source.kernels_.tolist()],
    )


def _figure_data(cell: Cell, problem: Problem, found: Fitted) -> dict[str, Any]:
    if not cell.method.startswith("IMKPL"):
        return {}
    return history(found) | per_class(found) | prototype_map(problem, found)


IMKPL = Paper(
    name="imkpl",
    title="IMKPL: prototypes in a learned combination of kernels",
    citation=IMKPLClassifier.citation,
    datasets={
        "tox_171": "TOX_171",
        "isolet": "Isolet",
        "utkinect": "UTKinect",
        "japanese_vowels": "",
        "wine": "",
        "digits": "",
    },
    absent=("cll_sub_111", "rcv1_subset1", "pems", "auslan"),
    methods={
        "IMKPL": Method(_ours, protocols=("honest",)),
        "ISKPL": Method(partial(_ours, weight_step="uniform"), protocols=("honest",)),
        "IMKPL as published": Method(_with_article_settings, protocols=("paper",)),
        "ISKPL as published": Method(partial(_with_article_settings, weight_step="uniform"), protocols=("paper",)),
        "IMKPL with graph weights": Method(partial(_ours, weight_step="graph"), protocols=("honest",)),
        "set cover": Method(_cover),
        "AKGLVQ": Method(_glvq),
        "SVC on the learned kernel": Method(partial(_on_learned, weight_step="align"), protocols=("honest",)),
        "SVC on the mean kernel": Method(partial(_on_learned, weight_step="uniform"), protocols=("honest",)),
        **FLAGSHIP,
        "majority": Method(majority, cases=False),
        "SVC": Method(svc),
        "XGBoost": Method(xgb, cases=False, needs="xgboost", protocols=("honest",)),
    },
    main="IMKPL",
    same_splits=True,
    splits={("honest", "quick"): 3, ("honest", "full"): 10, ("paper", "quick"): 3, ("paper", "full"): 10},
    problem=_problem,
    measures={
        "accuracy": "Accuracy (%)",
        "ip": "Interpretability, IP (%)",
        "dr": "Discriminative representation, DR (%)",
        "n_kernels": "Kernels",
        "n_instances": "Training samples in prototypes",
        "seconds": "Seconds",
    },
    figure_data=_figure_data,
    figures={
        "Map of the rows and prototypes": figures.atlas(),
        "Prototypes for each class": figures.per_class(),
        "Convergence": figures.convergence("IMKPL", "IMKPL as published"),
        "Accuracy and interpretability": figures.trade("ip"),
    },
    aliases={
        "IMKPL as published": "IMKPL",
        "ISKPL as published": "ISKPL",
    },
)
