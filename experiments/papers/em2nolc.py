"""EM2NOLC: the comparison of [Zhang2022]."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from experiments import figures
from experiments.cells import Cell, Row
from experiments.datasets import Dataset, load
from experiments.figure_data import bars, correlations, curves
from experiments.flagship import FLAGSHIP
from experiments.method import (
    Fitted,
    Method,
    as_it_is,
    chosen_by_itself,
    decision,
    measured,
    on_kernels,
    points,
    scores,
    searched,
)
from experiments.paper import Paper, plain_trial
from experiments.peers import ALL_COSTS, ALWAYS, BOOSTED
from experiments.problem import Problem, holdout, limited
from tamis import (
    EasyMKLClassifier,
    EM2NOLCClassifier,
    EM2NOLCClassifierCV,
    FeatureScalingSVC,
    LassoADMM,
    LinearSVMADMM,
    SimpleMKLClassifier,
    bandwidths,
    per_feature,
)

TEST_SHARE = 0.3
FOLDS = {("honest", "quick"): 3, ("honest", "full"): 5, ("paper", "quick"): 5, ("paper", "full"): 5}
MAX_ROWS = {"quick": (500, 1000), "full": (1300, 6000)}  # training and test rows
CLASS_SIZES = {  # rows of the larger class in the training part of the article
    "pima": 370,
    "heart_statlog": 100,
    "german_numeric": 470,
    "ckd": 175,
    "wdbc": 250,
    "spectf": 150,
    "praf": 85,
    "splice_binary": 550,
    "musk2": 550,
    "madelon": 650,
}
PRINTED_BUDGETS = {  # instances and features of the article's models, its Table 7
    "pima": (17, 5),
    "heart_statlog": (9, 10),
    "german_numeric": (20, 10),
    "ckd": (1, 4),
    "wdbc": (17, 2),
    "spectf": (8, 19),
    "praf": (11, 1),
    "splice_binary": (15, 4),
    "musk2": (3, 16),
    "madelon": (14, 14),
}
WIDTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
MAX_THREE_WIDTHS = 60  # columns; weak kernels of more columns have one width


def _problem(cell: Cell) -> Problem:
    data, seed = load(cell.dataset), cell.split
    folds = FOLDS[cell.protocol, cell.size]
    if cell.protocol == "paper":
        train, test = _balanced(data, seed)
        train = train if cell.size == "full" else _fewer(train, data.y, MAX_ROWS["quick"][0], seed)
        problem = Problem.of(data, train, limited(test, data.y, MAX_ROWS[cell.size][1], seed), folds, seed)
        return replace(problem, groups=None)
    train, test = holdout(data.y, data.groups, TEST_SHARE, seed)
    most = MAX_ROWS[cell.size]
    return Problem.of(data, limited(train, data.y, most[0], seed), limited(test, data.y, most[1], seed), folds, seed)


def _balanced(data: Dataset, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw as many rows of the smaller class, with replacement, as of the larger; the rest are test rows."""
    rng = np.random.default_rng(seed)
    larger = int(np.argmax(np.bincount(data.y)))
    first = rng.permutation(np.flatnonzero(data.y == larger))[: CLASS_SIZES[data.name]]
    second = rng.choice(np.flatnonzero(data.y != larger), size=CLASS_SIZES[data.name])
    train = np.concatenate([first, second])
    return train, np.setdiff1d(np.arange(len(data.y)), train)


def _fewer(train: np.ndarray, y: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Return at most `most` of the drawn rows, half of each class."""
    rng = np.random.default_rng(seed)
    parts = [rng.permutation(train[y[train] == c])[: most // 2] for c in (0, 1)]
    return train if len(train) <= most else np.concatenate(parts)


def _larger(problem: Problem, quick: bool) -> Fitted:
    """Predict the more frequent class of the complete dataset: training parts may be balanced."""
    larger = int(np.argmax(np.bincount(load(problem.name).y)))
    return as_it_is(problem, DummyClassifier(strategy="constant", constant=larger))


def _weak(problem: Problem) -> tuple[str, Any]:
    """Return the kernels of the MKL baselines, on all features and on each, with their key."""
    if problem.X.shape[1] > MAX_THREE_WIDTHS:
        return "one width on each", per_feature()
    return "three widths on all and on each", bandwidths((0.5, 1.0, 2.0), on="both")


def _ours(problem: Problem, quick: bool) -> Fitted:
    widths, budgets = (WIDTHS[3:6], "grid") if quick else (WIDTHS, "full")
    model = EM2NOLCClassifierCV(bandwidths=widths, budgets=budgets, categorical_features=problem.categorical)
    return chosen_by_itself(problem, model)


def _printed(problem: Problem, quick: bool) -> Fitted:
    """Fit the algorithm as printed: the article's budgets, 50 iterations of ADMM, its own intercept."""
    instances, features = PRINTED_BUDGETS[problem.name]
    most, nominal = 150 if quick else 500, problem.categorical
    model = EM2NOLCClassifier(
        instances, features, solver="paper", alpha=0.1, candidates=most, calibration=None, categorical_features=nominal
    )
    return as_it_is(problem, model)


def _linear(problem: Problem, quick: bool) -> Fitted:
    model = LinearSVMADMM(calibration=None, categorical_features=problem.categorical, max_iter=500)
    return searched(problem, model, {"C": (0.1, 10.0) if quick else ALL_COSTS})


def _lasso(problem: Problem, quick: bool) -> Fitted:
    model = LassoADMM(calibration=None, categorical_features=problem.categorical)
    return searched(problem, model, {"alpha": (0.003, 0.01, 0.03, 0.1)})


def _simple(problem: Problem, quick: bool) -> Fitted:
    make = partial(SimpleMKLClassifier, tol=1e-2, calibration=None, max_iter=50)
    return on_kernels(problem, make, points(C=(1.0, 10.0) if quick else ALL_COSTS), *_weak(problem))


def _easy(problem: Problem, quick: bool) -> Fitted:
    make = partial(EasyMKLClassifier, calibration=None)
    return on_kernels(problem, make, points(C=(1.0, 10.0) if quick else ALL_COSTS, lam=(0.5,)), *_weak(problem))


def _scaled(problem: Problem, quick: bool) -> Fitted:
    model = FeatureScalingSVC(calibration=None, categorical_features=problem.categorical, max_iter=10 if quick else 50)
    budgets = [min(20, problem.X.shape[1])] if quick else [5, 10, 20]
    return searched(problem, model, {"C": (1.0, 10.0), "max_features": budgets})


def _trial(paper: Paper, cell: Cell, problem: Problem) -> Row:
    """Run a cell; in the paper's protocol, test the models of the five folds and average."""
    if cell.protocol == "honest":
        return plain_trial(paper, cell, problem)
    numbers, status, found = measured(problem, paper.methods[cell.method].run, cell.size == "quick")
    y, truth = problem.train[1], problem.test[1]
    parts = []
    for a, _ in problem.inner:
        model = found.finish(clone(found.fresh).fit(found.train[a], y[a]))
        parts.append(scores(truth, model.predict(found.test), decision(model, found.test)))
    names = set.intersection(*(set(part) for part in parts))
    numbers |= {name: float(np.mean([part[name] for part in parts])) for name in names}
    spread = {name: float(np.std([part[name] for part in parts], ddof=1)) for name in names}
    return Row(cell, numbers, status, seed=cell.split, chosen=dict(found.chosen), extra={"spread": spread})


def _figure_data(cell: Cell, problem: Problem, found: Fitted) -> dict[str, Any]:
    data = curves(problem, found)
    if cell.method == "EM2NOLC":
        data |= bars(problem, found) | correlations(problem, found)
        data["path"] = {k: found.model.path_[k] for k in ("max_instances", "max_features", "accuracy")}
    return data


EM2NOLC = Paper(
    name="em2nolc",
    title="EM2NOLC: few instances and few features by least squares",
    citation=EM2NOLCClassifier.citation,
    datasets={
        "pima": "Diabetes",
        "heart_statlog": "HD",
        "german_numeric": "GC",
        "ckd": "CKD",
        "wdbc": "WDBC",
        "spectf": "SPECTFH",
        "praf": "PRAF",
        "splice_binary": "MSJ",
        "musk2": "Musk",
        "madelon": "Madelon",
    },
    absent=(),
    methods={
        "EM2NOLC": Method(_ours),
        "EM2NOLC as printed": Method(_printed),
        **FLAGSHIP,
        "LSVMC": Method(_linear, cases=False),
        "LASSOC": Method(_lasso, cases=False),
        "SimpleMKL": Method(_simple, "weak"),
        "EasyMKL": Method(_easy, "weak"),
        "FS-SVMC": Method(_scaled),
        **ALWAYS,
        "majority": Method(_larger, cases=False),
        **BOOSTED,
    },
    main="EM2NOLC",
    splits={("honest", "quick"): 3, ("honest", "full"): 10, ("paper", "quick"): 3, ("paper", "full"): 10},
    problem=_problem,
    measures={
        "accuracy": "Accuracy (%)",
        "auc": "AUC (%)",
        "ks": "KS (%)",
        "n_instances": "Instances",
        "n_features": "Features",
        "irr": "Instances not needed, IRR (%)",
        "frr": "Features not needed, FRR (%)",
        "seconds": "Seconds of a fit with its tuning",
        "predict_seconds": "Seconds of the test",
    },
    trial=_trial,
    figure_data=_figure_data,
    summary={"paper": "best"},
    figures={
        "KS curves": figures.ks("EM2NOLC"),
        "ROC curves": figures.roc(("EM2NOLC", "SVC", "LASSOC")),
        "Importance of instances and features": figures.importance("EM2NOLC"),
        "Correlation of the kept features": figures.heat("EM2NOLC"),
        "Accuracy against the number of features": figures.path("EM2NOLC"),
    },
    aliases={"EM2NOLC as printed": "EM2NOLC"},
)
