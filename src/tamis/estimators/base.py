"""The shared shell of all classifiers: validation, classes, weights, calibration, prediction, explanation.

A method derives from `DirectClassifier` (`direct.py`) and adds its parameters and ``_learn(rows) -> Model``;
everything a user sees comes from the model. An estimator that chooses among models derives from `KernelClassifier` and
adds ``_select``.
"""

from __future__ import annotations

import logging
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from tamis.estimators.calibration import Calibrator
from tamis.estimators.checks import check_choice, encode_classes, resolve_columns
from tamis.estimators.encoding import Nominal, Position
from tamis.estimators.keeping import Keeping
from tamis.estimators.model import Model, decide
from tamis.estimators.rows import Rows, check_groups, check_weights, class_factors, weight_unit
from tamis.estimators.table import Table, checked_input, read_columns, read_table, row_labels
from tamis.explain import Explanation, signed_percentages, variation
from tamis.optim.driver import Iterate, Status
from tamis.parallel import blas_threads

logger = logging.getLogger("tamis")


VARIATION_ROWS = 2000  # most training rows that measure the variation of contributions
SHAPE_POINTS, SURFACE_POINTS = 200, 40  # of a number in a shape, and in each direction of a surface


def _has_probabilities(self: KernelClassifier) -> bool:
    if hasattr(self, "model_") and self._calibrates and not hasattr(self, "calibrator_"):
        raise AttributeError(
            "probabilities are calibrated on rows, and this model was fitted from statistics alone: give X and y to "
            "fit_statistics too"
        )
    return self._calibrates


class KernelClassifier(Keeping, ClassifierMixin, BaseEstimator):
    """Base of the classifiers that end in a kernel expansion.

    Subclasses have at least the parameters `scaling`, `missing`, `categorical_features`,
    `class_weight`, `random_state`, `n_jobs` and `verbose`.
    """

    citation: ClassVar[str] = ""  # of the paper behind the method

    scaling: str | None
    missing: str | None
    categorical_features: Any
    class_weight: Any
    random_state: Any
    n_jobs: int | None
    verbose: int
    _allow_missing: bool

    @abstractmethod
    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        """Make the model and its calibrator from the rows of the input."""

    @property
    def _calibrates(self) -> bool:
        """Whether the estimator has probabilities."""
        return True

    def check_parameters(self) -> None:
        """Raise ValueError for parameters that no data could make right; `fit` does this too."""
        self._check_parameters()

    def _check_parameters(self) -> None:
        """What `check_parameters` checks."""
        check_choice("scaling", self.scaling, ("standard", "rank", None))
        check_choice("missing", self.missing, ("absent", "median", None))

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> KernelClassifier:
        """Fit the model.

        Parameters
        ----------
        X : array, DataFrame or dict of columns of shape (n_samples, n_features); NaN or None are missing
            cells. Where rows are predicted or explained, a dict of the kept features is enough.
        y : class labels of shape (n_samples,)
        sample_weight : weights of shape (n_samples,), at least 0; only their ratios matter, except where a
            method has a cost `C`: there a weight multiplies C, as in scikit-learn's SVC
        groups : labels of shape (n_samples,); rows of one group never stand on both sides of a fold

        Returns
        -------
        self
        """
        self._check_parameters()
        self._seed = draw_seed(self.random_state)
        self.__dict__.pop("outside_", None)  # of an earlier fit from statistics
        rows = self._rows(X, y, sample_weight, groups)
        with blas_threads(1):
            model, calibrator = self._select(rows)
        shares = model.variation
        if shares is None:
            some = rows.take(np.arange(0, len(rows), -(-len(rows) // VARIATION_ROWS)))
            shares = variation_shares(model, model.encode(some.table), some.mass)
        self._publish(rows.classes, model, calibrator, shares)
        self.instance_labels_ = row_labels(X, self.instances_)
        return self

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

    def _read(self, X: Any, *, reset: bool) -> Table:
        if isinstance(X, Mapping) and not hasattr(X, "shape"):  # scipy has sparse arrays that are dicts
            return self._read_columns(X, reset=reset)
        checked, names = checked_input(X)
        validate_data(self, checked, reset=reset, skip_check_array=True)
        names = list(getattr(self, "feature_names_in_", names))
        if reset:
            self._categorical = resolve_columns(self.categorical_features, names)
            self._allow_missing = self.missing is not None
        return read_table(checked, names, self._categorical, self._allow_missing)

    def _read_columns(self, X: Mapping[str, Any], *, reset: bool) -> Table:
        """Read a dict of columns; after the fit it needs the kept ones only."""
        if not reset:
            encoder = self.model_.encoder
            kept = [c for c in self._categorical or () if c in self.features_]
            places = None if self._categorical is None else [self.features_.tolist().index(c) for c in kept]
            return read_columns(X, encoder.names, places, self._allow_missing)
        names = list(X)
        self._expect(names, named=True)
        self._categorical = resolve_columns(self.categorical_features, names)
        self._allow_missing = self.missing is not None
        return read_columns(X, names, self._categorical, self._allow_missing)

    def _expect(self, names: list[str], *, named: bool) -> None:
        """Learn the number of columns, and their names if they are `named`."""
        self.__dict__.pop("feature_names_in_", None)
        validate_data(self, np.zeros((1, len(names))), reset=True, skip_check_array=True)
        if named:
            self.feature_names_in_ = np.array(names, dtype=object)

    # ------------------------------------------------------------------ what was learned

    def _publish(
        self,
        classes: np.ndarray,
        model: Model,
        calibrator: Calibrator | None,
        shares: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """Set the learned attributes; only kept rows and columns are stored.

        `shares` are those of instances and of kernels in the variation of the decision.
        """
        self.classes_ = classes
        self.model_ = model
        self.__dict__.pop("calibrator_", None)
        if calibrator is not None:
            self.calibrator_ = calibrator
        self.instances_, self.kernels_, self.features_ = model.instances, model.kernels, model.columns
        self.kernel_names_ = np.array(model.expansion.bank.names, dtype=object)
        self.intercept_ = model.expansion.intercept
        self.instances_per_class_ = [self.instances_[owned] for owned in model.expansion.owned]
        if model.dual_coef is not None and model.kernel_weights is not None:
            self.dual_coef_, self.kernel_weights_ = _squeeze(model.dual_coef), _squeeze(model.kernel_weights)
            self.instance_importance_ = signed_percentages(self.dual_coef_)
            self.kernel_importance_ = signed_percentages(self.kernel_weights_)
        self.instance_variation_, self.kernel_variation_ = map(_squeeze, shares)
        histories = [s.history for s in model.solutions]
        self.history_ = histories[0] if len(histories) == 1 else histories
        self.n_iter_ = max((s.n_iter for s in model.solutions), default=0)
        self.objective_ = sum(s.objective for s in model.solutions)
        self.status_ = _worst_status([s.status for s in model.solutions])
        self._warn()

    def _warn(self) -> None:
        """Say what a user would not see otherwise."""
        name = type(self).__name__
        if not self.status_.converged:
            reason = getattr(self, "reason_", "")
            told = f"{self.status_.value} ({reason})" if reason else self.status_.value
            warnings.warn(f"{name}: {told}", ConvergenceWarning, stacklevel=4)
        elif not len(self.instances_):
            warnings.warn(
                f"{name} kept no instance: nothing in X separates the classes under these parameters, and every row "
                "gets the same score",
                UserWarning,
                stacklevel=4,
            )

    @property
    def feature_importance_(self) -> np.ndarray:
        """The paper's FI, one signed percentage per kept feature (the moduli add up to 100)."""
        return self._per_feature("kernel_importance_")

    @property
    def feature_variation_(self) -> np.ndarray:
        """Share of each kept feature in the variation of the decision over training rows, in per cent."""
        return self._per_feature("kernel_variation_")

    def _per_feature(self, name: str) -> np.ndarray:
        check_is_fitted(self)
        channels = self.model_.expansion.bank.channels
        if any(len(set(c.columns)) > 1 for c in channels):
            raise AttributeError(
                f"a kernel on several features has no {name.split('_')[1]} per feature: use {name} with kernel_names_"
            )
        values = getattr(self, name)
        total = np.zeros((*values.shape[:-1], len(self.features_)))
        np.add.at(total.T, np.array([c.columns[0] for c in channels], dtype=int), values.T)
        return total

    # ------------------------------------------------------------------ using it

    def _seen(self, X: Any) -> tuple[Model, Table]:
        """The fitted model, and rows that it can decide about."""
        check_is_fitted(self)
        return self.model_, self._read(X, reset=False)

    def _decision(self, X: Any) -> np.ndarray:
        model, table = self._seen(X)
        return model.decision(table)

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values: (n_samples,) for two classes, positive for ``classes_[1]``; else (n_samples, n_classes)."""
        decision = self._decision(X)
        return decision[:, 0] if decision.shape[1] == 1 else decision

    def predict(self, X: Any) -> np.ndarray:
        """Class labels; a decision value of zero goes to ``classes_[1]``."""
        codes = decide(self._decision(X))
        return self.classes_[codes]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities (n_samples, n_classes).

        A sigmoid of the decision value (a softmax for several classes), fitted to decisions on held-out
        training folds and never decreasing in the decision. It speaks of the population that
        `sample_weight` describes: `class_weight` moves the boundary of `predict`, not the probabilities.
        Without class weights `predict` gives the more probable class.
        """
        decision = self._decision(X)
        return self.calibrator_.probabilities(decision)

    def explain(self, X: Any) -> Explanation:
        """Split decisions into the contributions of kept instances and kernels; the parts add up exactly."""
        model, table = self._seen(X)
        expansion, Z = model.expansion, model.encode(table)
        contributions = expansion.contributions(Z)
        names = model.encoder.names
        return Explanation(
            contributions=contributions,
            base_value=expansion.intercept,
            decision=expansion.intercept + contributions.sum(axis=(2, 3)),
            rows=list(row_labels(X, np.arange(len(Z)))),
            outputs=list(self.classes_[1:] if len(self.classes_) == 2 else self.classes_),
            instances=list(self.instance_labels_),
            kernels=expansion.bank.names,
            features=[tuple(names[c] for c in channel.columns) for channel in expansion.bank.channels],
        )

    def shape_function(self, feature: int | str, grid: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """What the kernels on one feature alone add to the decision, as a function of its value.

        What a feature adds together with others is not in it: for a pair see `surface`, for the rest `explain`.

        Parameters
        ----------
        feature : name, or position in the input
        grid : values in the feature's own units; default: 200 points over the training range, or
            the levels of a category

        Returns
        -------
        grid, values : values of shape (len(grid),), or (len(grid), n_classes)
        """
        place = self._shaped_place(feature)
        if not self.model_.own_kernels({place}):
            raise ValueError(
                f"feature {feature!r} acts through kernels on several features only: it has no shape of its own; "
                "use surface for the pairs in pairs_, and explain(X) for the rest"
            )
        grid = _grid(self.model_.encoder.columns[place], grid, SHAPE_POINTS)
        values = self.model_.shape(place, grid)
        return grid, values[:, 0] if values.shape[1] == 1 else values

    def surface(
        self, first: int | str, second: int | str, grids: Any = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the kernels on exactly two features add to the decision, as a function of both values.

        What each of the two adds alone is not in it: see `shape_function`.

        Parameters
        ----------
        first, second : names, or positions in the input, in any order
        grids : values of the first and of the second feature in their own units, None for the default of one or
            both: 40 points over the training range, or the levels of a category

        Returns
        -------
        grid_first, grid_second, values : values of shape (len(grid_first), len(grid_second)), or (..., n_classes)
        """
        places = self._shaped_place(first), self._shaped_place(second)
        if not self.model_.own_kernels(set(places)) or places[0] == places[1]:
            raise ValueError(
                f"features {first!r} and {second!r} have no surface: no kernel stands on exactly these two; use one of "
                f"the pairs_ {self.pairs_}, or explain(X)"
            )
        given = (None, None) if grids is None else tuple(grids)
        if len(given) != 2:
            raise ValueError(f"grids has {len(given)} entries: give one for each of the two features, or None")
        columns = self.model_.encoder.columns
        a, b = (_grid(columns[place], grid, SURFACE_POINTS) for place, grid in zip(places, given, strict=True))
        values = self.model_.surface(places, (a, b))
        return a, b, values[:, :, 0] if values.shape[2] == 1 else values

    @property
    def pairs_(self) -> list[tuple[str, str]]:
        """The pairs of kept features that have a `surface`, the largest share of variation first."""
        check_is_fitted(self)
        model, share = self.model_, dict[tuple[int, ...], float]()
        sizes = np.atleast_2d(self.kernel_variation_).sum(axis=0)
        for channel, size in zip(model.expansion.bank.channels, sizes, strict=True):
            pair = tuple(sorted(set(channel.columns)))
            if len(pair) == 2 and not model.expansion.row_dependent:
                share[pair] = share.get(pair, 0.0) + float(size)
        names = model.encoder.names
        return [(names[a], names[b]) for a, b in sorted(share, key=lambda pair: -share[pair])]

    def _shaped_place(self, feature: int | str) -> int:
        """The place of a kept feature that kernels may give a shape."""
        check_is_fitted(self)
        place = self._kept_place(feature)
        if isinstance(self.model_.encoder.columns[place], Position):
            raise ValueError(f"feature {feature!r} holds positions in precomputed kernels: it has no shape")
        if self.model_.expansion.row_dependent:
            raise ValueError(
                f"feature {feature!r} has no shape of its own: which prototypes decide about a row, and so what the "
                "feature adds, depends on all kept features; use explain(X)"
            )
        return place

    def _kept_place(self, feature: int | str) -> int:
        names = list(self.model_.encoder.names)
        if isinstance(feature, str) and feature in names:
            return names.index(feature)
        kept = self.features_.tolist()
        if not isinstance(feature, str) and feature in kept:
            return kept.index(feature)
        raise ValueError(f"feature {feature!r} is not among the kept ones: {names}")

    def fixed(self) -> KernelClassifier:
        """An unfitted copy that would fit the same kind of model without choosing anything again."""
        return clone(self)

    def chosen(self) -> dict[str, Any]:
        """What a fit settled on, in words: {what: value}; empty where there is nothing to tell."""
        return {}

    def oriented(self, positive: Any) -> KernelClassifier:
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

    def _progress(self) -> Callable[[int, Iterate], None] | None:
        """A callback that logs iterates when verbose."""
        if not self.verbose:
            return None
        if not logger.handlers:
            logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)

        def report(step: int, iterate: Iterate) -> None:
            logger.info("round %d  objective %.6g  violation %.2g", step, iterate.objective, iterate.violation)

        return report

    # ------------------------------------------------------------------ notebooks

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing is not None
        return tags


def variation_shares(model: Model, Z: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of instances and of kernels in the variation of the decision over encoded rows.

    Kernels on the same features share what their sum varies.
    """
    by_instance, by_kernel = model.expansion.split(Z)
    features = [frozenset(channel.columns) for channel in model.expansion.bank.channels]
    return variation(by_instance, mass), variation(by_kernel, mass, features)


def _grid(column: Any, grid: Any, points: int) -> np.ndarray:
    """Values of an encoded column: those given, the levels of a category, or `points` over the training range."""
    if isinstance(column, Nominal):
        return np.array(list(column.levels) if grid is None else list(grid), dtype=object)
    return np.linspace(column.low, column.high, points) if grid is None else np.asarray(grid, dtype=float)


def _worst_status(statuses: list[Status]) -> Status:
    """The first that did not converge, else the first that says more than that it did."""
    telling = [s for s in statuses if not s.converged] + [s for s in statuses if s is not Status.CONVERGED]
    return telling[0] if telling else Status.CONVERGED


def _squeeze(values: np.ndarray) -> np.ndarray:
    """Without the axis of outputs if there is only one."""
    return values[0] if len(values) == 1 else values


def draw_seed(random_state: Any) -> int:
    """One integer from `random_state`, on which every part of a fit agrees; None is as good as 0."""
    if random_state is None or isinstance(random_state, int | np.integer):
        return int(random_state or 0)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
