"""ReadableEstimator: what all estimators do that is not their method, for any kind of model.

`fit` reads X, checks the memory, calls `_fit_rows`, which every kind of estimator brings, and sets what was learned.
A classifier derives from `ReadableClassifier` (`classifier.py`), a regressor from `ReadableRegressor` (`regressor.py`).
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from numbers import Integral
from typing import Any, ClassVar, Self, SupportsIndex

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tamis.arrays import check_device, is_tensor
from tamis.base import explaining
from tamis.base.explaining import notebook_html
from tamis.base.kernel_space import KernelSpace, check_source, size_of
from tamis.base.memory import MemoryEstimate, Size, check_estimate, jobs_of, ordered, to_bytes
from tamis.base.model import FitContext, Fitted, Model
from tamis.codec import plain_labels
from tamis.errors import check_choice, check_integer, check_jobs, check_number, check_seed, warn
from tamis.explain import Explanation
from tamis.kernels.recipes import Recipe, per_feature
from tamis.optim.driver import Iterate
from tamis.parallel import blas_threads
from tamis.progress import Remaining, heard, listening
from tamis.table.rows import Rows, merge_rows
from tamis.table.sources.source import each_block
from tamis.table.table import (
    Table,
    TableReader,
    check_columns,
    check_in_memory,
    checked_input,
    columns_by_name,
    row_labels,
    source_kind,
)

logger = logging.getLogger("tamis")
SHARED_CHECKS: dict[str, Callable[[Any], object]] = {  # of parameters that mean the same in many estimators
    "scaling": lambda value: check_choice("scaling", value, ("standard", "rank", None)),
    "missing": lambda value: check_choice("missing", value, ("absent", "median", None)),
    "C": lambda value: check_number("C", value, 0.0, strict=True),
    "tol": lambda value: check_number("tol", value, 0.0, strict=True),
    "max_iter": lambda value: check_integer("max_iter", value, 1),
    "categorical_features": check_columns,
    "random_state": check_seed,
    "n_jobs": check_jobs,
    "device": check_device,
    "landmarks": lambda value: None if value is None else check_integer("landmarks", value, 1),
    "pool": lambda value: None if value is None else check_integer("pool", value, 2),
    "memory_limit": lambda value: None if value is None else to_bytes(value),
}
TABLE_COPIES = 6  # of the encoded table at the peak of a fit
WORKING_BYTES = 1 << 25  # that any fit takes
UNCHECKED_ROWS = 500  # up to which the memory of a fit is not estimated


def blockwise(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a method of a fitted estimator, which gives one entry per row of X, also take rows in blocks.

    The path of a Parquet file or folder (of which only the kept features are read) and a large memory map give one
    array, a Dask array or dataframe gives a lazy one.
    """

    @wraps(method)
    def over_blocks(self: Any, X: Any) -> Any:
        check_is_fitted(self)
        if source_kind(X) is None:
            return method(self, X)
        return each_block(partial(method, self), X, self.model_.encoder.names)

    return over_blocks


class ReadableEstimator(BaseEstimator):
    """Base of the estimators whose decisions are sums of parts that people can look at.

    What the parts are is up to the model: see `tamis.base.model`.
    """

    citation: ClassVar[str] = ""  # of the paper behind the method
    _recipe: ClassVar[Recipe] = per_feature()  # the kernels where none are given
    _keeps_nothing: ClassVar[str] = ""  # what a model that decides alike about all rows means

    kernels: Any = None  # parameters of all estimators, set by the constructor of each
    scaling: str | None = "standard"
    missing: str | None
    categorical_features: Any
    random_state: Any
    n_jobs: int | None
    memory_limit: Any
    verbose: int

    model_: Model  # set by `fit`
    reader_: TableReader
    seed_: int
    instances_: np.ndarray
    instance_labels_: np.ndarray
    features_: np.ndarray
    n_features_in_: int

    # ------------------------------------------------------------------ parameters

    def check_parameters(self) -> None:
        """Raise ValueError for parameters that no data could make right; `fit` does this too."""
        for name, value in self.get_params(deep=False).items():
            if name in SHARED_CHECKS:
                SHARED_CHECKS[name](value)
        for choice in self._kernel_choices().values():
            check_source(choice)
        if not isinstance(self.verbose, int | np.integer):
            raise ValueError(f"verbose={self.verbose!r} must be an integer: 0 for silence")

    def _kernel_choices(self) -> Mapping[str, Any]:
        """The kernels that may be used, by name."""
        return {"kernels": self.kernels}

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, DataFrame, Arrow table or dict of columns of shape (n_samples, n_features)
            NaN or None are missing cells. Where rows are predicted or explained, a dict of the kept features is enough.
        y : class labels, or for regressors numbers, of shape (n_samples,)
        sample_weight : weights of shape (n_samples,), at least 0
            Only their ratios matter, except where a method has a cost `C`, or `lambda1`, which is 1 / C: there a
            weight multiplies C, as in scikit-learn's SVC. Folds do not depend on them, but rows of weight zero are
            left out first.
        groups : labels of shape (n_samples,)
            Rows of one group never stand on both sides of a fold.

        Returns
        -------
        self
        """
        self.check_parameters()
        check_in_memory(X, type(self).__name__)
        with self._forgetting(), blas_threads(1):
            seed = draw_seed(self.random_state)
            table, reader, kernels = self._read_training(X)
            rows, others = self._draw_pool(self._rows(table, y, sample_weight, groups), seed)
            self._check_memory(rows, kernels)
            fitted = self._fit_rows(rows, FitContext(seed, kernels))
            self._publish(rows.classes, fitted, reader, seed, fitted.model.measured(rows))
            self.instance_labels_ = self._labels_in(X)
            self._finish(rows, others)
        return self

    @abstractmethod
    def _fit_rows(self, rows: Rows, context: FitContext) -> Fitted:
        """Make the model from the rows of the input."""

    def _labels_in(self, X: Any) -> np.ndarray:
        """Labels of the kept instances in the input."""
        return row_labels(X, self.instances_)

    def _draw_pool(self, rows: Rows, seed: int) -> tuple[Rows, Rows | None]:
        """The rows to learn from, and some of the others if there are any."""
        return rows, None

    def _finish(self, rows: Rows, others: Rows | None) -> None:
        """Set what is learned from the fitted model, and warn of what a user would not see otherwise."""
        self._warn()

    def _publish(
        self, classes: np.ndarray, fitted: Fitted, reader: TableReader, seed: int, measured: Mapping[str, np.ndarray]
    ) -> None:
        """Set the learned attributes, among them those `measured` on training rows; only kept rows are stored."""
        model = fitted.model
        self.model_, self.reader_, self.seed_ = model, reader, seed
        self.instances_, self.features_, self.intercept_ = model.instances, model.columns, model.base_value
        for name, value in {**model.attributes(), **measured, **fitted.attributes}.items():
            setattr(self, name, value)

    def _warn(self) -> None:
        """Warn of a fit that did not converge, or that kept nothing."""
        name, status = type(self).__name__, self.model_.status
        if not status.converged:
            reason = getattr(self, "reason_", "")
            text = f"{status.value} ({reason})" if reason else status.value
            warn(f"{name}: {text}", ConvergenceWarning)
        elif self.model_.is_constant:
            warn(f"{name} kept no {self.model_.needs}: nothing in X {self._keeps_nothing}")

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """A context without what an earlier fit has learned; if it fails, that is restored."""
        before = dict(self.__dict__)
        for name in filter(_is_learned, before):
            delattr(self, name)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def without_search(self) -> Self:
        """Return an unfitted copy that would fit the same kind of model without choosing anything again."""
        return clone(self)

    def summary(self) -> dict[str, Any]:
        """Return the choices of the fit in words, {what: value}; empty where there is nothing to report."""
        return {}

    # ------------------------------------------------------------------ memory

    def memory_estimate(self, X: Any, y: Any, sample_weight: Any = None) -> dict[str, int]:
        """Estimate what a fit to these rows takes at its peak besides X itself, in bytes, the largest part first.

        The estimate follows from the numbers of distinct rows, columns, kernels and classes, before any kernel is
        evaluated, and is right to about a factor of two. `fit` compares its sum with `memory_limit`.

        Parameters
        ----------
        X, y, sample_weight : rows as in `fit`
        """
        check_in_memory(X, f"{type(self).__name__}.memory_estimate", "")
        other = clone(self)
        other.check_parameters()
        table, _, kernels = other._read_training(X)
        rows, _ = other._draw_pool(other._rows(table, y, sample_weight, None), draw_seed(self.random_state))
        return ordered(other._all_memory(other._size(merge_rows(rows), kernels)))

    def _check_memory(self, rows: Rows, kernels: Mapping[str, Any]) -> None:
        """Refuse a fit that would not find the memory it needs."""
        if self.memory_limit is None and len(rows) <= UNCHECKED_ROWS:
            return
        check = partial(check_estimate, type(self).__name__, self._all_memory, self.memory_limit, self._less_memory)
        try:
            check(self._size(rows, kernels))
        except ValueError:  # equal rows count once
            check(self._size(merge_rows(rows), kernels))

    def _size(self, rows: Rows, kernels: Mapping[str, Any]) -> Size:
        """What the estimate depends on."""
        return size_of(rows, kernels, KernelSpace(self._recipe, "streaming", self.scaling, self.missing))

    def _all_memory(self, size: Size) -> MemoryEstimate:
        """The estimate of all processes."""
        one, jobs = self._memory(size), jobs_of(self.n_jobs)
        return one if jobs == 1 else {**one, f"{jobs - 1} more processes": (jobs - 1) * sum(one.values())}

    def _memory(self, size: Size) -> MemoryEstimate:
        """What one fit takes, in bytes."""
        return {"rows, merged and encoded": TABLE_COPIES * size.table, "working blocks": WORKING_BYTES}

    def _less_memory(self, size: Size, room: float) -> str:
        """What to do where a fit does not find its memory in the `room` that there is."""
        return "use TamisClassifier or EM2NOLCClassifier, which take any number of rows"

    # ------------------------------------------------------------------ reading

    @abstractmethod
    def _rows(self, table: Table, y: Any, sample_weight: Any, groups: Any) -> Rows:
        """Validate everything that is as long as the table."""

    def _read_training(self, X: Any) -> tuple[Table, TableReader, Mapping[str, Any]]:
        """The cells of X, how its columns are read from now on, and the kernels to choose among."""
        X, names = checked_input(X)
        if isinstance(X, Mapping):
            self._expect_columns(names, named=True)
        else:
            validate_data(self, X, reset=True, skip_check_array=True)
        names = list(getattr(self, "feature_names_in_", names))
        reader = TableReader.of(names, self.categorical_features, self.missing)
        return reader.read(X, names), reader, self._kernel_choices()

    def _read(self, X: Any, reader: TableReader) -> Table:
        """The cells of further rows with the columns of the training table."""
        X, names = checked_input(X)
        if not isinstance(X, Mapping):
            validate_data(self, X, reset=False, skip_check_array=True)
        return reader.read(X, list(getattr(self, "feature_names_in_", names)))

    def _table(self, X: Any) -> Table:
        """The cells of rows to predict; of a dict of columns the kept ones are enough."""
        columns = columns_by_name(X)
        if columns is None:
            return self._read(X, self.reader_)
        return self.reader_.read_kept(columns, self.model_.columns, self.model_.encoder.names)

    def _expect_columns(self, names: list[str], *, named: bool) -> None:
        """Set the number of columns, and their names if they are `named`."""
        validate_data(self, np.zeros((1, len(names))), reset=True, skip_check_array=True)
        if named:
            self.feature_names_in_ = np.array(names, dtype=object)

    # ------------------------------------------------------------------ explanations

    @property
    @abstractmethod
    def _outputs(self) -> list[Any]:
        """What the decisions are about, one entry for each output."""

    @property
    @abstractmethod
    def _in_words(self) -> tuple[str, str]:
        """What the estimator does, and what the sign of a decision means, if anything."""

    def _seen(self, X: Any) -> tuple[Model, Table]:
        """The fitted model, and rows that it can decide about."""
        check_is_fitted(self)
        return self.model_, self._table(X)

    def _decision(self, X: Any) -> np.ndarray:
        """Decision values (rows, outputs)."""
        if is_tensor(X):
            return self.model_.device_decision(explaining.checked_tensor(self, X))
        model, table = self._seen(X)
        return model.decision(table)

    def explain(self, X: Any) -> Explanation:
        """Split decisions into contributions, which add up exactly.

        For a Dask array or dataframe the contributions are lazy arrays; for a tensor they are tensors on its device.
        """
        return explaining.explanation(self, X, self._summands(X))

    @blockwise
    def _summands(self, X: Any) -> np.ndarray:
        if is_tensor(X):
            return self.model_.device_summands(explaining.checked_tensor(self, X))
        model, table = self._seen(X)
        return model.summands(model.encode(table))

    def curve(self, feature: int | str, grid: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return what one feature alone adds to the decision, as a function of its value.

        What a feature adds together with others is not included: for a pair see `surface`, for the rest `explain`.

        Parameters
        ----------
        feature : name, or position in the input
        grid : values in the feature's own units
            By default points over the training range (of a model of tables the ends of all cells, so that steps are
            seen), or the levels of a category.

        Returns
        -------
        grid, values : values of shape (len(grid),), or (len(grid), n_classes)
        """
        return explaining.curve(self, feature, grid)

    def surface(
        self, first: int | str, second: int | str, grids: Any = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what two features add together to the decision, as a function of both values.

        What each of the two adds alone is not included: see `curve`.

        Parameters
        ----------
        first, second : names, or positions in the input, in any order
        grids : values of the first and of the second feature in their own units
            None for the default of one or both: as in `curve`.

        Returns
        -------
        grid_first, grid_second, values : values of shape (len(grid_first), len(grid_second)), or (..., n_classes)
        """
        return explaining.surface(self, first, second, grids)

    @property
    def pairs_(self) -> list[tuple[str, str]]:
        """The pairs of kept features that have a `surface`, the largest share of variation first."""
        return explaining.pairs_with_surface(self)

    @property
    def feature_importance_(self) -> np.ndarray:
        """The paper's FI, one signed percentage per kept feature (the moduli add up to 100)."""
        return explaining.per_feature(self, "importance")

    @property
    def feature_variation_(self) -> np.ndarray:
        """Share of each kept feature in the variation of the decision over training rows, in per cent."""
        return explaining.per_feature(self, "variation")

    # ------------------------------------------------------------------ logging

    def _log_callback(self) -> Callable[[int, Iterate], None] | None:
        """A callback that logs iterates when verbose."""
        if not self.verbose:
            return None
        if not logger.handlers:
            logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)

        def log(step: int, iterate: Iterate) -> None:
            logger.info("round %d  objective %.6g  violation %.2g", step, iterate.objective, iterate.violation)

        return log

    @contextmanager
    def _logging_progress(self) -> Iterator[None]:
        """Log how far long passes have come, when verbose and nobody else listens."""
        if self._log_callback() is None or heard():
            yield
            return
        with listening(Remaining(logger.info)):
            yield

    # ------------------------------------------------------------------ scikit-learn, files and notebooks

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing is not None
        return tags

    def to_stored(self) -> dict[str, Any]:
        """Return what a file holds: parameters, and what was learned."""
        check_is_fitted(self)
        params = {**self.get_params(deep=False), "random_state": self.seed_}
        if not isinstance(params.get("cv"), Integral | None):  # positions of rows, which no file has
            params["cv"] = max(2, getattr(self, "n_splits_", 0))
        learned = {name: value for name, value in vars(self).items() if _is_learned(name)}
        return {"params": params, "learned": {**learned, "instance_labels_": plain_labels(self.instance_labels_)}}

    @classmethod
    def from_stored(cls, parts: dict[str, Any]) -> ReadableEstimator:
        """Return the fitted estimator of a file."""
        out = cls(**parts["params"])
        if not isinstance(parts["learned"].get("model_"), Model):
            raise ValueError(f"this {cls.__name__} has no model in it")
        for name, value in parts["learned"].items():
            if not _is_learned(name):
                raise ValueError(f"{name!r} is not something that a {cls.__name__} learns")
            setattr(out, name, value)
        out.model_.check_parts()
        return out

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # for skops: labels as in a file
        labels = state.get("instance_labels_")
        return state if labels is None else {**state, "instance_labels_": plain_labels(labels)}

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        make, args, state, *rest = super().__reduce_ex__(protocol)  # for pickle: labels as they are
        own = {name: self.__dict__[name] for name in ("instance_labels_",) if name in state}
        return (make, args, {**state, **own}, *rest)

    @property
    def _repr_html_(self) -> Callable[[], str]:
        if get_config()["display"] != "diagram":
            raise AttributeError("_repr_html_ is only there with sklearn.set_config(display='diagram')")
        return lambda: notebook_html(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        return bundle | ({"text/html": notebook_html(self)} if get_config()["display"] == "diagram" else {})


def draw_seed(random_state: Any) -> int:
    """One integer from `random_state`, on which every step of a fit agrees; None is the same as 0."""
    if random_state is None or isinstance(random_state, int | np.integer):
        return int(random_state or 0)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _is_learned(name: str) -> bool:
    """Whether an attribute belongs into a file."""
    return name.endswith("_") and not name.startswith("_")
