"""ReadableClassifier: classes and their weights, calibration on folds, decisions, probabilities.

A method derives from `ReadableClassifier`, or from the class of its family, and brings ``_learn``, which makes a model
of merged rows. A search overrides ``_fit_rows``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tamis.arrays import beside, is_tensor, to_numpy
from tamis.base.calibration import Calibrator, Tests, calibrated, each_fold, warn_in_sample
from tamis.base.estimator import ReadableEstimator, blockwise
from tamis.base.memory import Size, fitting
from tamis.base.model import FitContext, Fitted, Model, decide
from tamis.errors import check_integer
from tamis.table.folds import folds
from tamis.table.rows import (
    Rows,
    check_class_weight,
    check_groups,
    check_weights,
    class_factors,
    encode_classes,
    merge_rows,
    some_of_each_class,
    spread,
    weight_unit,
)
from tamis.table.sources.source import blocks_of
from tamis.table.table import Table, TableReader

MAX_OTHER_ROWS = 20_000  # that are predicted to measure the error
MIN_CLASS_ROWS = 2


def _has_probabilities(self: ReadableClassifier) -> bool:
    if hasattr(self, "model_") and self._calibrates and not hasattr(self, "calibrator_"):
        raise AttributeError(
            "probabilities are calibrated on rows, and this model was fitted from statistics alone: give X and y to "
            "fit_statistics too"
        )
    return self._calibrates


class ReadableClassifier(ClassifierMixin, ReadableEstimator):
    """Base of the classifiers."""

    _keeps_nothing = "separates the classes under these parameters, and every row gets the same score"
    _has_margin: ClassVar[bool] = False  # whether the method's own intercept is where it would decide
    _pools: ClassVar[bool] = False  # whether it may learn from a part of the rows

    # of a method: (merged rows, context) -> (model, learned attributes that only the method has)
    _learn: Callable[[Rows, FitContext], tuple[Model, Mapping[str, Any]]]

    class_weight: Any  # parameters, set by the constructors of those that have them
    calibration: int | None = 3
    pool: int | None = None

    classes_: np.ndarray
    calibrator_: Calibrator

    def check_parameters(self) -> None:
        """Raise ValueError for parameters that no data could make right; `fit` does this too."""
        super().check_parameters()
        check_class_weight(self.class_weight)
        if self.calibration is not None:
            check_integer("calibration", self.calibration, 2)

    @property
    def _calibrates(self) -> bool:
        """Whether the estimator has probabilities."""
        return self.calibration is not None

    @property
    def _outputs(self) -> list[Any]:
        """The classes that the decisions are about: the second of two, or all of several."""
        classes = self.classes_.tolist()
        return classes[1:] if len(classes) == 2 else classes

    @property
    def _in_words(self) -> tuple[str, str]:
        classes = self.classes_.tolist()
        if len(classes) > 2:
            return f"Decides between {len(classes)} classes", ""
        return f"Decides between {classes[0]} and {classes[1]}", f"Above zero favours {classes[1]}."

    # ------------------------------------------------------------------ fitting

    def _rows(self, table: Table, y: Any, sample_weight: Any, groups: Any) -> Rows:
        codes, classes = encode_classes(y, len(table))
        if len(table) < 2:
            raise ValueError(f"X has n_samples={len(table)}: at least two rows are needed, one of each class")
        if len(classes) < 2:
            only = classes.tolist()[0]
            raise ValueError(f"y has one class only ({only!r}): a classifier needs rows of at least two classes")
        mass = check_weights(sample_weight, codes, classes)
        weight = mass * class_factors(self.class_weight, mass, codes, classes)
        unit = weight_unit(sample_weight, mass)
        return Rows(table, codes, classes, weight, mass, check_groups(groups, len(codes)), np.arange(len(codes)), unit)

    def _draw_pool(self, rows: Rows, seed: int) -> tuple[Rows, Rows | None]:
        return draw_pool(rows, self.pool, seed)

    def _finish(self, rows: Rows, others: Rows | None) -> None:
        if others is not None:
            wrong = decide(self.model_.decision(others.table)) != others.codes
            self.pool_error_ = float(np.average(wrong, weights=others.mass))
        super()._finish(rows, others)

    def _less_memory(self, size: Size, room: float) -> str:
        most = fitting(size, self._all_memory, room) if self._pools else 0
        return f"use pool={most}, so many rows to learn from" if most else super()._less_memory(size, room)

    def summary(self) -> dict[str, Any]:
        """Return the choices of the fit in words, {what: value}; empty where there is nothing to report."""
        error = getattr(self, "pool_error_", None)
        if error is None:
            return {}
        return {"pool": f"{self.pool} training rows; of the others {100 * error:.3g}% are wrong"}

    def _fit_rows(self, rows: Rows, context: FitContext) -> Fitted:
        merged = merge_rows(rows)
        model, attributes = self._learn(merged, context)
        if self.calibration is None:
            return Fitted(model, None, attributes)
        decision, tests = self._out_of_fold(rows, merged, self.calibration, replace(context, rough=True))
        return Fitted(*calibrated(model, decision, tests), attributes)

    def _out_of_fold(self, rows: Rows, merged: Rows, n_folds: int, context: FitContext) -> tuple[np.ndarray, Tests]:
        """Decisions on rows that the model did not see."""
        splits = folds(rows, n_folds, context.seed)
        parts = each_fold(partial(_decide_fold, self, context), splits, self.n_jobs)
        if not parts:
            warn_in_sample()
            parts, splits = [_decide_fold(self, context, merged, merged)], [(merged, merged)]
        return np.concatenate(parts), Tests.of(splits, placed=self._has_margin)

    def _publish(
        self, classes: np.ndarray, fitted: Fitted, reader: TableReader, seed: int, measured: Mapping[str, np.ndarray]
    ) -> None:
        """Set the learned attributes, and what there is for each class."""
        self.classes_ = classes
        if fitted.calibrator is not None:
            self.calibrator_ = fitted.calibrator
        self.instances_per_class_ = [fitted.model.instances[owned] for owned in fitted.model.owned]
        super()._publish(classes, fitted, reader, seed, measured)

    # ------------------------------------------------------------------ prediction

    @blockwise
    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values: (n_samples,) for two classes, positive for ``classes_[1]``; else (n_samples, n_classes)."""
        decision = self._decision(X)
        return decision[:, 0] if decision.shape[1] == 1 else decision

    @blockwise
    def predict(self, X: Any) -> np.ndarray:
        """Class labels; a decision value of zero goes to ``classes_[1]``."""
        decision = self._decision(X)
        if is_tensor(X):
            codes = decide(to_numpy(decision))
            return self.classes_[codes] if self.classes_.dtype.kind not in "biuf" else beside(self.classes_[codes], X)
        return self.classes_[decide(decision)]

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]  # it is scikit-learn's
    @blockwise
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities (n_samples, n_classes).

        A sigmoid of the decision value (a softmax for several classes), fitted to decisions on held-out training folds
        unless decisions are log-odds by themselves, and never decreasing in the decision. Probabilities are those of
        the population that `sample_weight` describes: `class_weight` moves the boundary of `predict`, not the
        probabilities (both in `TamisClassifier` with several classes). Without class weights `predict` gives the more
        probable class.
        """
        decision = self._decision(X)
        return beside(self.calibrator_.probabilities(to_numpy(decision)), decision)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the rows that `predict` gets right.

        Parameters
        ----------
        X, y, sample_weight : rows and labels; or a file, or a Dask dataframe, and the names of columns
        """
        if not isinstance(y, str):
            return float(super().score(X, y, sample_weight))
        right = total = 0.0
        for rows, labels, weight in blocks_of(X, y, sample_weight):
            right += float(weight @ (self.predict(rows) == labels))
            total += float(weight.sum())
        return right / total

    def oriented(self, positive: Any) -> Self:
        """Return the same two-class classifier, its decisions and explanations seen from the class `positive`.

        `classes_` ends with that class, and every sign follows; predictions and probabilities stay.
        """
        check_is_fitted(self)
        if len(self.classes_) != 2 or positive not in self.classes_.tolist():
            raise ValueError(f"positive={positive!r} is not one of two classes: {self.classes_.tolist()}")
        if positive == self.classes_[1]:
            return self
        other = copy(self)
        other.classes_ = self.classes_[::-1]
        other.model_ = self.model_.negated()
        if hasattr(self, "calibrator_"):
            other.calibrator_ = self.calibrator_.negated()
        other.intercept_ = other.model_.base_value
        other._turn_signs()
        return other

    def _turn_signs(self) -> None:
        """Turn the signs of learned attributes, in a copy whose model is that of the opposite decision."""
        for name in ("dual_coef_", "instance_importance_"):
            if hasattr(self, name):
                setattr(self, name, -getattr(self, name))


def _decide_fold(classifier: ReadableClassifier, context: FitContext, train: Rows, test: Rows) -> np.ndarray:
    model, _ = classifier._learn(train, context)
    return model.decision(test.table)


def draw_pool(rows: Rows, size: int | None, seed: int) -> tuple[Rows, Rows | None]:
    """About `size` rows, of every class in proportion, whatever their order; and some of the others."""
    if size is None:
        return rows, None
    rows = rows.take(np.flatnonzero(rows.mass > 0))
    if len(rows) <= size:
        return rows, None
    drawn = some_of_each_class(rows, size, MIN_CLASS_ROWS, seed)
    others = np.setdiff1d(np.arange(len(rows)), drawn)
    return rows.take(drawn), rows.take(others[spread(len(others), MAX_OTHER_ROWS)])
