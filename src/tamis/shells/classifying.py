"""The shared shell of all classifiers: classes and their weights, calibration, decisions, probabilities.

A method derives from `DirectClassifier` (`direct.py`) and adds its parameters and ``_learn(rows) -> Model``;
everything a user sees comes from the model. An estimator that chooses among models derives from `KernelClassifier` and
adds ``_select``.
"""

from __future__ import annotations

from copy import copy
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tamis.arrays import beside, is_tensor, to_numpy
from tamis.data.checks import encode_classes
from tamis.data.rows import Rows, check_class_weight, check_groups, check_weights, class_factors, weight_unit
from tamis.models.calibration import Calibrator
from tamis.models.model import Model, decide
from tamis.models.on_device import device_decision
from tamis.shells.base import KernelEstimator
from tamis.shells.blockwise import blockwise
from tamis.shells.parameters import parameters


def _has_probabilities(self: KernelClassifier) -> bool:
    if hasattr(self, "model_") and self._calibrates and not hasattr(self, "calibrator_"):
        raise AttributeError(
            "probabilities are calibrated on rows, and this model was fitted from statistics alone: give X and y to "
            "fit_statistics too"
        )
    return self._calibrates


@parameters
class KernelClassifier(ClassifierMixin, KernelEstimator):
    """Base of the classifiers.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        What the rows of a class count; "balanced" gives all classes the same weight.

    Attributes
    ----------
    classes_ : the class labels, sorted; of two the second is the positive one
    instances_per_class_ : the instances of each output
    """

    _told_by_nothing = "separates the classes under these parameters, and every row gets the same score"

    _: KW_ONLY
    class_weight: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_class_weight(self.class_weight)

    @property
    def _calibrates(self) -> bool:
        """Whether the estimator has probabilities."""
        return True

    @property
    def _outputs(self) -> list[Any]:
        """The classes that the decisions speak for: the second of two, or all of several."""
        classes = self.classes_.tolist()
        return classes[1:] if len(classes) == 2 else classes

    @property
    def _in_words(self) -> tuple[str, str]:
        classes = self.classes_.tolist()
        if len(classes) > 2:
            return f"Decides between {len(classes)} classes", ""
        return f"Decides between {classes[0]} and {classes[1]}", f"Above zero speaks for {classes[1]}."

    # ------------------------------------------------------------------ fitting

    def _rows(self, X: Any, y: Any, sample_weight: Any, groups: Any, *, reset: bool = True) -> Rows:
        """Validate everything that is as long as the data."""
        table = self._read(X, reset=reset)
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

    def _publish(
        self,
        classes: np.ndarray,
        model: Model,
        calibrator: Calibrator | None,
        shares: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """Set the learned attributes, and what there is for each class."""
        self.classes_ = classes
        if calibrator is not None:
            self.calibrator_ = calibrator
        self.instances_per_class_ = [model.instances[owned] for owned in model.expansion.owned]
        super()._publish(classes, model, calibrator, shares)

    # ------------------------------------------------------------------ using it

    def _decision(self, X: Any) -> np.ndarray:
        if is_tensor(X):
            return device_decision(self.model_, self._checked_tensor(X))
        model, table = self._seen(X)
        return model.decision(table)

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

        A sigmoid of the decision value (a softmax for several classes), fitted to decisions on held-out
        training folds and never decreasing in the decision. It speaks of the population that
        `sample_weight` describes: `class_weight` moves the boundary of `predict`, not the probabilities.
        Without class weights `predict` gives the more probable class.
        """
        decision = self._decision(X)
        return beside(self.calibrator_.probabilities(to_numpy(decision)), decision)

    def oriented(self, positive: Any) -> Self:
        """The same two-class classifier, its decisions and explanations seen from the class `positive`.

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
        other.intercept_ = other.model_.expansion.intercept
        if hasattr(self, "dual_coef_"):
            other.dual_coef_, other.instance_importance_ = -self.dual_coef_, -self.instance_importance_
        return other
