"""The default classifier of tamis as a method of every comparison."""

from __future__ import annotations

from experiments.method import Fitted, Method, as_it_is
from experiments.problem import Problem
from tamis import TamisClassifier


def tamis(problem: Problem, quick: bool) -> Fitted:
    """Fit `TamisClassifier` with its default budgets; time series are flattened to rows."""
    model = TamisClassifier(categorical_features=problem.categorical, cv=problem.inner, random_state=problem.seed)
    return as_it_is(problem.flat, model)


FLAGSHIP = {"tamis": Method(tamis, protocols=("honest",))}
