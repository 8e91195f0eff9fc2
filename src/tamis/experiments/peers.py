"""What people use today, tuned on the folds of a split: the majority class, support vector machines, boosting, EBM."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from tamis.experiments.method import Fitted, Method, as_it_is, searched
from tamis.experiments.problem import Problem

COSTS = (0.1, 1.0, 10.0, 100.0)
ALL_COSTS = (*COSTS, 1e3, 1e4)  # the papers' grid
BAGS = {True: 1, False: 14}  # of an EBM, in quick and full runs


def encoded(nominal: np.ndarray) -> Any:
    """Numbers with mean zero and variance one, missing ones filled; an indicator for each level of a category."""
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    if not nominal.any():
        return numbers
    codes = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    parts = [("numbers", numbers, np.flatnonzero(~nominal)), ("codes", codes, np.flatnonzero(nominal))]
    return ColumnTransformer([part for part in parts if len(part[2])], sparse_threshold=0.0)


def majority(problem: Problem, quick: bool) -> Fitted:
    """The larger class, whatever the row."""
    return as_it_is(problem, DummyClassifier())


def svc(problem: Problem, quick: bool) -> Fitted:
    """A support vector machine with a Gaussian kernel on all features."""
    widths = ["scale", 0.01, 0.1] if quick else ["scale", 0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
    grid = {"svc__C": COSTS if quick else ALL_COSTS, "svc__gamma": widths}
    return searched(problem.flat, make_pipeline(encoded(problem.flat.nominal), SVC()), grid)


def linear_svc(problem: Problem, quick: bool) -> Fitted:
    """A linear support vector machine on all features."""
    grid = {"linearsvc__C": [1e-4, 1e-3, 1e-2, 0.1, 1.0]}
    return searched(problem, make_pipeline(encoded(problem.nominal), LinearSVC()), grid)


def boosting(problem: Problem, quick: bool) -> Fitted:
    """Histogram gradient boosting."""
    model = HistGradientBoostingClassifier(categorical_features=problem.nominal, random_state=problem.seed)
    grid = {"learning_rate": [0.1] if quick else [0.03, 0.1], "max_leaf_nodes": [4, 15]}
    if problem.n_train < 60:  # leaves of twenty rows would say nothing
        model.set_params(min_samples_leaf=5)
    return searched(problem, model, grid)


def xgb(problem: Problem, quick: bool) -> Fitted:
    """XGBoost, with histograms."""
    from xgboost import XGBClassifier

    model = XGBClassifier(tree_method="hist", n_jobs=1, random_state=problem.seed, verbosity=0, n_estimators=100)
    return searched(problem.flat, model, {"max_depth": [2, 4], "learning_rate": [0.1] if quick else [0.03, 0.1, 0.3]})


def ebm(problem: Problem, quick: bool) -> Fitted:
    """An explainable boosting machine, as it comes but for the bags of quick runs."""
    from interpret.glassbox import ExplainableBoostingClassifier

    kinds = ["nominal" if nominal else "continuous" for nominal in problem.nominal]
    model = ExplainableBoostingClassifier(
        feature_types=kinds, outer_bags=BAGS[quick], n_jobs=1, random_state=problem.seed
    )
    return as_it_is(problem, model, {"outer_bags": BAGS[quick]})


ALWAYS = {
    "majority": Method(majority, cases=False),
    "SVC": Method(svc),
}
BOOSTED = {
    "boosting": Method(boosting, cases=False, protocols=("honest",)),
    "XGBoost": Method(xgb, cases=False, needs="xgboost", protocols=("honest",)),
    "EBM": Method(ebm, cases=False, needs="interpret", protocols=("honest",)),
}
LINEAR = {"linear SVM": Method(linear_svc, cases=False)}


def installed(method: Method) -> bool:
    """Whether the package that a method needs is there."""
    return not method.needs or find_spec(method.needs) is not None
