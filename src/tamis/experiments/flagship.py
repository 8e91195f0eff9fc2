"""The classifier of this package that people should start with, in every comparison."""

from __future__ import annotations

from tamis.experiments.method import Fitted, Method, as_it_is
from tamis.experiments.problem import Problem
from tamis.flagship.classifier import TamisClassifier


def tamis(problem: Problem, quick: bool) -> Fitted:
    """`TamisClassifier` with its budgets of twenty, its blend chosen on the folds; series as long rows."""
    model = TamisClassifier(categorical_features=problem.categorical, cv=problem.inner, random_state=problem.seed)
    return as_it_is(problem.flat, model)


FLAGSHIP = {"tamis": Method(tamis, protocols=("honest",))}
