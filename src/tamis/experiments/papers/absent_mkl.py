"""Absent MKL: the comparison of [Liu2015]."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from tamis.base.citations import LIU2015
from tamis.experiments import figures
from tamis.experiments.cells import Cell
from tamis.experiments.datasets import load
from tamis.experiments.flagship import FLAGSHIP
from tamis.experiments.method import Fitted, Method, on_kernels, points, searched
from tamis.experiments.paper import Paper
from tamis.experiments.peers import majority, xgb
from tamis.experiments.problem import Problem, holdout, limited
from tamis.kernels.base import Polynomial
from tamis.kernels.normalised import Normalised
from tamis.kernels.recipes import per_group
from tamis.methods.absent.estimator import AbsentMKLClassifier
from tamis.methods.baselines.channels_estimator import ChannelBaselineClassifier
from tamis.methods.baselines.imputing import GaussianImputer
from tamis.methods.baselines.mkl_estimators import SimpleMKLClassifier

RATIOS = {"quick": (0.0, 0.5, 0.8), "full": tuple(k / 10 for k in range(10))}
COSTS = {"quick": (0.1, 10.0), "full": (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)}
FOLDS = {("honest", "quick"): 2, ("honest", "full"): 5, ("paper", "quick"): 2, ("paper", "full"): 5}
MOST = {"quick": (300, 700), "full": (600, 1000)}
PARTS = {"sonar": 10, "ionosphere": 11}  # groups of neighbouring columns
MANY = 30  # channels of six columns of sonar each, drawn at random
KEY = "channels"


def _views(name: str) -> tuple[np.ndarray, np.ndarray, dict[str, list[int]], np.ndarray | None]:
    """Rows, classes, the columns of each channel, and the split of the source."""
    data = load("sonar" if name == "sonar_30" else name)
    X, d = data.X, data.X.shape[1]
    if name == "sonar_30":
        rng = np.random.default_rng(0)  # channels share features, so that each has its own copy of them
        X = np.hstack([X[:, np.sort(rng.permutation(d)[:6])] for _ in range(MANY)])
        return X, data.y, {f"channel {k}": list(range(6 * k, 6 * k + 6)) for k in range(MANY)}, None
    if data.views:
        return X, data.y, data.views, data.split
    parts = np.array_split(np.arange(d), PARTS[name])
    return X, data.y, {f"columns {part[0]} to {part[-1]}": part.tolist() for part in parts}, None


def _problem(cell: Cell) -> Problem:
    X, y, views, split = _views(cell.dataset)
    seed, ratio = cell.split, float(cell.setting)
    if split is not None:
        train, test = np.flatnonzero(split == 0), np.flatnonzero(split == 1)
    else:
        train, test = holdout(y, None, 0.5, seed)
        train, test = (limited(rows, y, most, seed) for rows, most in zip((train, test), MOST[cell.size], strict=True))
    order = np.concatenate([train, test])
    rng = np.random.default_rng([seed, round(10 * ratio)])
    X = _blanked(X[order], list(views.values()), ratio, rng)
    nominal = np.zeros(X.shape[1], dtype=bool)
    return Problem(
        X, y[order], len(train), nominal, None, FOLDS[cell.protocol, cell.size], seed, cell.dataset, dict(views)
    )


def _blanked(X: np.ndarray, views: list[list[int]], ratio: float, rng: np.random.Generator) -> np.ndarray:
    """Every row without the same number of channels, drawn at random."""
    m = len(views)
    place = np.argsort(np.argsort(rng.random((len(X), m)), axis=1), axis=1)
    X = X.copy()
    for k, columns in enumerate(views):
        lacking = np.flatnonzero(place[:, k] < int(np.floor(ratio * m + 0.5)))
        X[lacking[:, None], columns] = np.nan
    return X


def _kernels(problem: Problem) -> Any:
    """Polynomials for the protein channels, inner products for its alignment scores, else Gaussians."""
    if problem.name != "protein_fold":
        return per_group(problem.views)
    return [
        (key, Normalised(Polynomial(1, 0.0) if key.startswith("SW") else Polynomial(2, 1.0)), columns)
        for key, columns in problem.views.items()
    ]


def _grid(quick: bool) -> list[dict[str, Any]]:
    return points(C=COSTS["quick" if quick else "full"])


def _absent(problem: Problem, quick: bool, **options: Any) -> Fitted:
    make = partial(AbsentMKLClassifier, calibration=None, tol=1e-2 if quick else 1e-3, **options)
    return on_kernels(problem, make, _grid(quick), KEY, _kernels(problem), whole=True)


def _other(problem: Problem, quick: bool, method: str) -> Fitted:
    make = partial(ChannelBaselineClassifier, method, calibration=None, tol=1e-2 if quick else 1e-3)
    return on_kernels(problem, make, _grid(quick), KEY, _kernels(problem), whole=True)


def _expected(problem: Problem, quick: bool) -> Fitted:
    """Conditional means of one Gaussian on all features, then multiple kernel learning."""
    imputer = GaussianImputer(max_iter=5 if problem.X.shape[1] > 300 else 20)
    model = make_pipeline(imputer, SimpleMKLClassifier(kernels=_kernels(problem), tol=1e-2, calibration=None))
    return searched(problem, model, {"simplemklclassifier__C": [10.0] if quick else COSTS["full"]})


def _filled(problem: Problem, quick: bool) -> Fitted:
    """A machine on features filled with their means."""
    filled = SimpleImputer(keep_empty_features=True)
    model = make_pipeline(filled, MinMaxScaler(clip=True), StandardScaler(), SVC())
    return searched(problem, model, {"svc__C": COSTS["full"][:5]})


ABSENT_MKL = Paper(
    name="absent-mkl",
    title="Absent MKL: samples that lack channels",
    citation=LIU2015,
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
