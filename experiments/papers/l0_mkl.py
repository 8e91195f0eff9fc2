"""l0-MKL: the comparison of [XueSong2020]."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from experiments import figures
from experiments.cells import Cell
from experiments.datasets import load
from experiments.figure_data import curves, history
from experiments.flagship import FLAGSHIP
from experiments.method import Fitted, Method, as_it_is, chosen_by_itself, searched
from experiments.paper import Paper
from experiments.peers import ALWAYS, BOOSTED, LINEAR
from experiments.problem import Problem
from tamis import L0MKLClassifier, L0MKLClassifierCV, LinearL0SVC, Sigmoid, per_feature

ARTICLE = {  # a, r, lambda1, lambda2, theta
    "allaml": (10, 0.01, 10, 0.1, 1),
    "colon": (0.01, 1, 0.01, 10, 1),
    "prostate_ge": (0.1, 0.01, 0.1, 0.1, 1),
    "cns": (0.01, 1, 0.1, 0.1, 1),
    "lung_cancer": (0.01, 1, 0.01, 10, 0.01),
    "leukemia": (0.01, 0.1, 0.01, 0.01, 0.01),
    "dbworld": (0.1, 0.1, 1, 1, 0.1),
    "isolet": (0.1, 1, 10, 1, 0.1),
    "glioma": (1, 10, 10, 1, 1),
}
FOLDS = {"quick": 3, "full": 5}


def _problem(cell: Cell) -> Problem:
    """Return halves of the first two classes; the smaller half of each is tested."""
    data, seed = load(cell.dataset), cell.split
    rng = np.random.default_rng(seed)
    parts = [rng.permutation(np.flatnonzero(data.y == c)) for c in (0, 1)]
    test = np.sort(np.concatenate([part[: len(part) // 2] for part in parts]))
    train = np.sort(np.concatenate([part[len(part) // 2 :] for part in parts]))
    return Problem.of(data, train, test, FOLDS[cell.size], seed)


def _l0(problem: Problem, quick: bool, **options: Any) -> Fitted:
    small: dict[str, Any] = {"lambda2s": (0.05, 0.1, 0.2), "kernels": per_feature(Sigmoid(0.1, 0.1))} if quick else {}
    thetas: dict[str, Any] = (
        {"thetas": (1.0,)} if options.get("penalty") == "l1" else {"thetas": (3.0, 10.0)} if quick else {}
    )
    return chosen_by_itself(problem, L0MKLClassifierCV(**small, **thetas, **options))


def _as_published(problem: Problem, quick: bool) -> Fitted:
    """Fit the article's algorithm with its parameters, without scaling."""
    a, r, lambda1, lambda2, theta = ARTICLE[problem.name]
    model = L0MKLClassifier(
        lambda2,
        lambda1,
        theta=theta,
        units="published",
        beta_step="paper",
        rounds=5 if quick else 10,
        kernels=per_feature(Sigmoid(a, r)),
        scaling=None,
        calibration=None,
    )
    return as_it_is(problem, model, {"a": a, "r": r, "lambda1": lambda1, "lambda2": lambda2, "theta": theta})


def _linear(problem: Problem, quick: bool, penalty: str) -> Fitted:
    grid = {"C": (0.1, 1.0), "theta": (1.0, 10.0)} if quick else {"C": (0.1, 1.0, 10.0), "theta": (1.0, 3.0, 10.0)}
    return searched(problem, LinearL0SVC(penalty, calibration=None), grid)


def _figure_data(cell: Cell, problem: Problem, found: Fitted) -> dict[str, Any]:
    data = curves(problem, found)
    if cell.method.startswith("l0-MKL"):
        data |= history(found)
    if cell.method == "l0-MKL":
        data["path"] = {k: found.model.lambda2_path_[k] for k in ("lambda2", "n_features", "accuracy")}
    return data


L0_MKL = Paper(
    name="l0-mkl",
    title="l0-MKL: feature selection with indefinite kernels, by DC programming",
    citation=L0MKLClassifier.citation,
    datasets={
        "allaml": "ALLAML",
        "colon": "Colon",
        "prostate_ge": "Prostate_GE",
        "cns": "CNS",
        "lung_cancer": "Lung_Cancer",
        "leukemia": "Leukemia",
        "dbworld": "Dbworld",
        "isolet": "Isolet",
        "glioma": "Glioma",
    },
    absent=("gli_85", "carcinom"),
    methods={
        "l0-MKL": Method(_l0, protocols=("honest",)),
        "MIK-FS": Method(partial(_l0, penalty="l1"), protocols=("honest",)),
        "l0-MKL as published": Method(_as_published, protocols=("paper",)),
        "PIE-SVM": Method(partial(_linear, penalty="exp"), cases=False),
        "CAP-SVM": Method(partial(_linear, penalty="capped_l1"), cases=False),
        "EP-SVM": Method(partial(_linear, penalty="exact"), cases=False),
        **FLAGSHIP,
        **LINEAR,
        **ALWAYS,
        **BOOSTED,
        "EBM": replace(BOOSTED["EBM"], sizes=("full",)),
    },
    main="l0-MKL",
    same_splits=True,
    splits={("honest", "quick"): 3, ("honest", "full"): 10, ("paper", "quick"): 3, ("paper", "full"): 10},
    problem=_problem,
    measures={
        "accuracy": "Accuracy (%)",
        "n_features": "Features",
        "f1": "F1 (%)",
        "auc": "AUC (%)",
        "seconds": "Seconds",
    },
    figure_data=_figure_data,
    figures={
        "Accuracy against features": figures.features_path("l0-MKL"),
        "Convergence": figures.convergence("l0-MKL", "l0-MKL as published"),
        "ROC curves": figures.roc(("l0-MKL", "linear SVM", "SVC")),
    },
    aliases={"l0-MKL as published": "l0-MKL"},
    ratio=1.0,
)
