"""Absent MKL: the comparison of [Liu2015]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from experiments import figures
from experiments.cells import Cell
from experiments.datasets import load
from experiments.flagship import FLAGSHIP
from experiments.method import Fitted, Method, on_kernels, points, searched
from experiments.paper import Paper
from experiments.peers import majority, xgb
from experiments.problem import Problem, holdout, limited
from tamis import (
    AbsentMKLClassifier,
    ChannelBaselineClassifier,
    GaussianImputer,
    Polynomial,
    SimpleMKLClassifier,
    per_group,
)
from tamis.kernels.base import Normalised

RATIOS = {"quick": (0.0, 0.5, 0.8), "full": tuple(k / 10 for k in range(10))}
COSTS = {"quick": (0.1, 10.0), "full": (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)}
FOLDS = {("honest", "quick"): 2, ("honest", "full"): 5, ("paper", "quick"): 2, ("paper", "full"): 5}
MAX_ROWS = {"quick": (300, 700), "full": (600, 1000)}
KEY = "channels"


def _problem(cell: Cell) -> Problem:
    data, seed, ratio = load(cell.dataset), cell.split, float(cell.setting)
    if data.split is not None:
        train, test = np.flatnonzero(data.split == 0), np.flatnonzero(data.split == 1)
    else:
        parts = zip(holdout(data.y, None, 0.5, seed), MAX_ROWS[cell.size], strict=True)
        train, test = (limited(rows, data.y, most, seed) for rows, most in parts)
    problem = Problem.of(replace(data, groups=None), train, test, FOLDS[cell.protocol, cell.size], seed)
    rng = np.random.default_rng([seed, round(10 * ratio)])
    return replace(problem, X=_blanked(problem.X, list(data.views.values()), ratio, rng), names=())


def _blanked(X: np.ndarray, views: list[list[int]], ratio: float, rng: np.random.Generator) -> np.ndarray:
    """Return the table where every row lacks the same number of channels, drawn at random."""
    m = len(views)
    place = np.argsort(np.argsort(rng.random((len(X), m)), axis=1), axis=1)
    X = X.copy()
    for k, columns in enumerate(views):
        lacking = np.flatnonzero(place[:, k] < int(np.floor(ratio * m + 0.5)))
        X[lacking[:, None], columns] = np.nan
    return X


def kernels_of(name: str, views: Mapping[str, list[int]]) -> Any:
    """Return Gaussians; for proteins polynomials, and inner products of alignment scores."""
    if name != "protein_fold":
        return per_group(views)
    return [
        (key, Normalised(Polynomial(1, 0.0) if key.startswith("SW") else Polynomial(2, 1.0)), columns)
        for key, columns in views.items()
    ]


def _kernels(problem: Problem) -> Any:
    return kernels_of(problem.name, problem.views)


def _grid(quick: bool) -> list[dict[str, Any]]:
    return points(C=COSTS["quick" if quick else "full"])


def _absent(problem: Problem, quick: bool, **options: Any) -> Fitted:
    make = partial(AbsentMKLClassifier, calibration=None, tol=1e-2 if quick else 1e-3, **options)
    return on_kernels(problem, make, _grid(quick), KEY, _kernels(problem), whole=True)


def _other(problem: Problem, quick: bool, method: str) -> Fitted:
    make = partial(ChannelBaselineClassifier, method, calibration=None, tol=1e-2 if quick else 1e-3)
    return on_kernels(problem, make, _grid(quick), KEY, _kernels(problem), whole=True)


def _expected(problem: Problem, quick: bool) -> Fitted:
    """Impute conditional means of one Gaussian on all features, then learn kernel weights."""
    imputer = GaussianImputer(max_iter=5 if problem.X.shape[1] > 300 else 20)
    model = make_pipeline(imputer, SimpleMKLClassifier(kernels=_kernels(problem), tol=1e-2, calibration=None))
    return searched(problem, model, {"simplemklclassifier__C": [10.0] if quick else COSTS["full"]})


def _filled(problem: Problem, quick: bool) -> Fitted:
    """Tune a support vector classifier on features imputed by their means."""
    filled = SimpleImputer(keep_empty_features=True)
    model = make_pipeline(filled, MinMaxScaler(clip=True), StandardScaler(), SVC())
    return searched(problem, model, {"svc__C": COSTS["full"][:5]})


ABSENT_MKL = Paper(
    name="absent-mkl",
    title="Absent MKL: samples that lack channels",
    citation=AbsentMKLClassifier.citation,
    datasets={
        "protein_fold": "protein fold",
        "sonar": "",
        "sonar_30": "",
        "ionosphere": "",
        "mfeat": "",
    },
    absent=("psort_pos", "psort_neg", "plant", "caltech101"),
    methods={
        "C-AMKL": Method(_absent, KEY),
        "C-AMKL by half of the samples": Method(partial(_absent, pattern_weight="share"), KEY, protocols=("honest",)),
        "MM-MKL": Method(partial(_absent, program="mean_margin"), KEY),
        "ZF-MKL": Method(partial(_absent, program="zero_filling"), KEY),
        "MF-MKL": Method(partial(_other, method="mean_filling"), KEY),
        "CF": Method(partial(_other, method="fusion"), KEY),
        "EM-MKL": Method(_expected),
        "plain sum": Method(partial(_absent, program="sum"), KEY, protocols=("honest",)),
        **FLAGSHIP,
        "majority": Method(majority, cases=False),
        "SVC": Method(_filled),
        "XGBoost": Method(xgb, cases=False, needs="xgboost", protocols=("honest",)),
    },
    main="C-AMKL",
    same_splits=True,
    splits={("honest", "quick"): 3, ("honest", "full"): 10, ("paper", "quick"): 3, ("paper", "full"): 10},
    problem=_problem,
    measures={
        "accuracy": "Accuracy (%)",
        "f1": "F1 (%)",
        "mcc": "MCC (%)",
        "n_kernels": "Channels with a weight",
        "seconds": "Seconds",
    },
    ratio=1.0,
    settings=lambda protocol, size, dataset: [str(ratio) for ratio in RATIOS[size]],
    figures={
        "Accuracy against the share of absent channels": figures.by_setting("accuracy", "share of absent channels"),
    },
)
