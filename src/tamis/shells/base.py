"""The shared shell of all estimators: validation, weights, what was learned, prediction, explanation.

A classifier derives from `KernelClassifier` (`classifying.py`), most of them through `DirectClassifier` (`direct.py`),
a regressor from `KernelRegressor` (`regressing.py`); everything a user sees comes from the model.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from tamis.arrays import check_device
from tamis.data.checks import (
    check_choice,
    check_columns,
    check_integer,
    check_jobs,
    check_number,
    check_seed,
    resolve_columns,
)
from tamis.data.rows import Rows, merge_rows
from tamis.data.table import Table, checked_input, columns_by_name, read_columns, read_table, row_labels
from tamis.errors import warn
from tamis.explain import signed_percentages
from tamis.kernels.recipes import Recipe, per_feature
from tamis.models.bill import Bill, Size, check_bill, check_memory, jobs_of, ordered, size_of
from tamis.models.calibration import Calibrator
from tamis.models.model import Model, check_source
from tamis.optim.driver import Iterate, Status
from tamis.parallel import blas_threads
from tamis.progress import Remaining, heard, listening
from tamis.shells.explaining import Explaining, measured_variation
from tamis.shells.keeping import Keeping
from tamis.shells.parameters import parameters
from tamis.sources.opening import check_in_memory

logger = logging.getLogger("tamis")

SHARED: dict[str, Callable[[Any], None]] = {  # what is asked of parameters that mean the same in many estimators
    "C": lambda value: check_number("C", value, 0.0, strict=True),
    "tol": lambda value: check_number("tol", value, 0.0, strict=True),
    "max_iter": lambda value: check_integer("max_iter", value, 1),
    "categorical_features": check_columns,
    "random_state": check_seed,
    "n_jobs": check_jobs,
    "device": lambda value: check_device("device", value),
    "memory_limit": check_memory,
}
COPIES = 6  # of the table, as numbers, at the peak of a fit
BLOCKS = 1 << 25  # bytes that any fit takes
FEW = 500  # up to so many rows nobody has to count bytes


@parameters
class KernelEstimator(Explaining, Keeping, BaseEstimator):
    """Base of the estimators that end in a kernel expansion.

    Parameters
    ----------
    scaling : {"standard", "rank", None}
        Numbers with mean zero and variance one, as ranks, which suits columns with long tails, or as they are.
    missing : {"absent", "median", None}
        "absent": a missing cell contributes nothing (in a kernel on several features it counts as the mean, or as zero
        with ``scaling=None``, one unit aside); "median": filled with the training median (the most frequent category);
        None: refused.
    categorical_features : "auto" or list of names, positions or booleans
        "auto" takes text, boolean and categorical columns; name codes that come as numbers.
    random_state : int, RandomState or None
        For the folds and all else that is drawn at random. None is as good as 0.
    n_jobs : int or None
        Processes for the folds.
    memory_limit : int, float, str or None
        Bytes that a fit may take, as a number or as text such as "2GB"; None: what the machine has to give. A fit that
        would take more (see `memory_bill`) is refused before it begins.
    verbose : int
        Log every round of the fit.

    Attributes
    ----------
    instances_ : training rows with a coefficient, as positions
    instance_labels_ : the same as index labels
    features_ : kept features, as positions in X
    kernels_ : kept kernels
    kernel_names_ : their names
    intercept_ : of each output
    instance_variation_ : shares of the instances in the variation of the decision over training rows, in per cent
    kernel_variation_ : shares of the kernels in it
    feature_variation_ : shares of the features in it, where every kernel stands on one
    pairs_ : pairs of features that have a `surface`, by name, those that matter most first
    history_ : objective, violation and seconds of every round; a list where several problems were solved
    n_iter_ : rounds, the most of all problems
    objective_ : at the end, summed over all problems
    status_ : how the fit ended
    n_features_in_ : columns of X
    feature_names_in_ : their names, where X has them
    """

    citation: ClassVar[str] = ""  # of the paper behind the method
    _told_by_nothing: ClassVar[str] = ""  # what a model without cases means

    _: KW_ONLY
    scaling: str | None = "standard"
    missing: str | None = "absent"
    categorical_features: Any = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    memory_limit: Any = None
    verbose: int = 0

    _recipe: ClassVar[Recipe] = per_feature()  # the kernels where none are given

    def check_parameters(self) -> None:
        """Raise ValueError for parameters that no data could make right; `fit` does this too."""
        self._check_parameters()

    def _check_parameters(self) -> None:
        """What `check_parameters` checks."""
        check_choice("scaling", self.scaling, ("standard", "rank", None))
        check_choice("missing", self.missing, ("absent", "median", None))
        for name, value in self.get_params(deep=False).items():
            if name in SHARED:
                SHARED[name](value)
        for choice in self._choices.values():
            check_source(choice)
        if not isinstance(self.verbose, int | np.integer):
            raise ValueError(f"verbose={self.verbose!r} must be an integer: 0 for silence")

    @property
    def _choices(self) -> dict[str, Any]:
        """The kernels that may be used, by name."""
        return {"kernels": getattr(self, "kernels", None)}

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, DataFrame, Arrow table or dict of columns of shape (n_samples, n_features); NaN or None are missing
            cells. Where rows are predicted or explained, a dict of the kept features is enough.
        y : class labels, or for regressors numbers, of shape (n_samples,)
        sample_weight : weights of shape (n_samples,), at least 0; only their ratios matter, except where a
            method has a cost `C`: there a weight multiplies C, as in scikit-learn's SVC. Folds do not depend on them,
            but rows of weight zero are left out first
        groups : labels of shape (n_samples,); rows of one group never stand on both sides of a fold

        Returns
        -------
        self
        """
        self._check_parameters()
        check_in_memory(X, type(self).__name__)
        with self._afresh(), blas_threads(1):
            self._seed = draw_seed(self.random_state)
            rows = self._rows(X, y, sample_weight, groups)
            self._check_memory(rows)
            model, calibrator = self._select(rows)
            self._publish(rows.classes, model, calibrator, measured_variation(model, rows))
            self.instance_labels_ = self._labels_in(X)
        return self

    @abstractmethod
    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        """Make the model, and the calibrator if there is one, from the rows of the input."""

    # ------------------------------------------------------------------ memory

    def memory_bill(self, X: Any, y: Any, sample_weight: Any = None) -> dict[str, int]:
        """What a fit to these rows takes at its peak beside X itself, in bytes, the largest part first.

        Estimated from the numbers of distinct rows, columns, kernels and classes, before any kernel is evaluated; right
        to about a factor of two. `fit` compares the sum with `memory_limit`.

        Parameters
        ----------
        X, y, sample_weight : rows as in `fit`
        """
        check_in_memory(X, f"{type(self).__name__}.memory_bill", "")
        other = clone(self)
        other._check_parameters()
        other._seed = draw_seed(self.random_state)
        rows = merge_rows(other._rows(X, y, sample_weight, None))
        return {what: int(size) for what, size in ordered(other._whole_bill(other._extent(rows))).items()}

    def _check_memory(self, rows: Rows) -> None:
        """Refuse a fit that would not find the memory it needs."""
        if self.memory_limit is None and len(rows) <= FEW:
            return
        try:
            self._check_bill(self._extent(rows))
        except ValueError:  # equal rows count once
            self._check_bill(self._extent(merge_rows(rows)))

    def _check_bill(self, size: Size) -> None:
        check_bill(type(self).__name__, size, self._whole_bill, self.memory_limit, self._instead)

    def _extent(self, rows: Rows) -> Size:
        """What the bill depends on."""
        settings = {"scaling": self.scaling, "missing": self.missing}
        return size_of(rows, self._choices, self._recipe, settings)

    def _whole_bill(self, size: Size) -> Bill:
        """The bill of all processes."""
        bill = self._bill(size)
        jobs = jobs_of(self.n_jobs)
        return bill if jobs == 1 else {**bill, f"{jobs - 1} more processes": (jobs - 1) * sum(bill.values())}

    def _bill(self, size: Size) -> Bill:
        """What one fit takes, in bytes."""
        return {"rows, merged and encoded": COPIES * size.table, "working blocks": BLOCKS}

    def _instead(self, size: Size, room: float) -> str:
        """What to do where a fit does not find its memory in the `room` that there is."""
        return "use EM2NOLCClassifier or TamisClassifier, which are linear in the rows"

    def _labels_in(self, X: Any) -> np.ndarray:
        """Labels of the instances in the input."""
        return row_labels(X, self.instances_)

    # ------------------------------------------------------------------ reading

    @abstractmethod
    def _rows(self, X: Any, y: Any, sample_weight: Any, groups: Any, *, reset: bool = True) -> Rows:
        """Validate everything that is as long as the data."""

    def _read(self, X: Any, *, reset: bool) -> Table:
        columns = columns_by_name(X)
        if columns is not None:
            return self._read_columns(columns, reset=reset)
        checked, names = checked_input(X)
        validate_data(self, checked, reset=reset, skip_check_array=True)
        names = list(getattr(self, "feature_names_in_", names))
        if reset:
            self._categorical = resolve_columns(self.categorical_features, names)
            self._allow_missing = self.missing is not None
        return read_table(checked, names, self._categorical, self._allow_missing)

    def _read_columns(self, X: Mapping[str, Any], *, reset: bool) -> Table:
        """Read a dict of columns; after the fit it needs the kept ones only."""
        if not reset and hasattr(self, "model_"):
            encoder = self.model_.encoder
            kept = [c for c in self._categorical or () if c in self.features_]
            places = None if self._categorical is None else [self.features_.tolist().index(c) for c in kept]
            return read_columns(X, encoder.names, places, self._allow_missing)
        names = list(X)
        if reset:
            self._expect(names, named=True)
            self._categorical = resolve_columns(self.categorical_features, names)
            self._allow_missing = self.missing is not None
        return read_columns(X, list(getattr(self, "feature_names_in_", names)), self._categorical, self._allow_missing)

    def _expect(self, names: list[str], *, named: bool) -> None:
        """Learn the number of columns, and their names if they are `named`."""
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
        self.model_ = model
        self.instances_, self.kernels_, self.features_ = model.instances, model.kernels, model.columns
        self.kernel_names_ = np.array(model.expansion.bank.names, dtype=object)
        self.intercept_ = model.expansion.intercept
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
            warn(f"{name}: {told}", ConvergenceWarning)
        elif not len(self.instances_):
            warn(
                f"{name} kept no instance: nothing in X {self._told_by_nothing}",
            )

    def fixed(self) -> Self:
        """An unfitted copy that would fit the same kind of model without choosing anything again."""
        return clone(self)

    def chosen(self) -> dict[str, Any]:
        """What a fit settled on, in words: {what: value}; empty where there is nothing to tell."""
        return {}

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

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Log how far passes over rows have come, when verbose and nobody else listens."""
        if self._progress() is None or heard():
            yield
            return
        with listening(Remaining(logger.info)):
            yield

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing is not None
        return tags


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
