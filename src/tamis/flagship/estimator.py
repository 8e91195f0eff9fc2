"""The common part of `TamisClassifier` and `TamisRegressor`: parameters, budgets, and what is shown of a fit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from tamis.arrays import is_tensor
from tamis.base.estimator import WORKING_BYTES, ReadableEstimator, draw_seed, logger
from tamis.base.explaining import kept_values
from tamis.base.memory import NUMBER, MemoryEstimate, Size, check_estimate
from tamis.base.model import FitContext, Fitted
from tamis.codec import digest
from tamis.errors import check_integer
from tamis.explain import AdditiveExplanation
from tamis.flagship.all_rows import SAMPLE_ROWS, Coder, fit_to_all, select_on_sample
from tamis.flagship.cases import MAX_POOL
from tamis.flagship.coded import check_of, weight_of
from tamis.flagship.design import MANY
from tamis.flagship.fit import MAX_AUTO, Outcome, Settings, fit_additive, fit_path
from tamis.flagship.model import AdditiveModel
from tamis.flagship.reading import Population, Reading, check_modulus
from tamis.parallel import blas_threads
from tamis.table.folds import check_cv, resolve_cv
from tamis.table.rows import Rows, sampled
from tamis.table.sources.checkpoint import Checkpoint
from tamis.table.sources.source import BLOCK_CELLS, FirstBlocks, Source, check_unchanged, source_of, table_source
from tamis.table.table import check_in_memory, count_rows, is_frame, source_kind

AUTO = "auto"
# Numbers for each row that are in memory at a time: for each column, for pairs, for each output, for each candidate.
BASIS_NUMBERS, PAIR_NUMBERS, SCORE_NUMBERS, SIMILARITY_ARRAYS = 15, 700, 80, 4
# Of many rows: the same for the sample, bytes of each row besides those of columns, and blocks in memory at a time.
SAMPLE_NUMBERS, ROW_BYTES, BLOCK_COPIES = 30, 16, 4


class AdditiveEstimator(ReadableEstimator):
    """Base of the estimators that fit an `AdditiveModel`."""

    max_features: int | str  # parameters, set by the constructors
    max_pairs: int
    max_instances: int
    cv: Any

    model_: AdditiveModel
    path_: dict[str, np.ndarray]
    loss_: float
    n_splits_: int
    n_rows_used_: int
    importance_: np.ndarray

    def check_parameters(self) -> None:
        """Raise ValueError for parameters that no data could make right; `fit` does this too."""
        super().check_parameters()
        if self.max_features != AUTO:
            if isinstance(self.max_features, str):
                raise ValueError(f"max_features={self.max_features!r} is unknown: use a number of features, or 'auto'")
            check_integer("max_features", self.max_features, 1)
        check_integer("max_pairs", self.max_pairs, 0)
        check_integer("max_instances", self.max_instances, 0)
        check_cv(self.cv)

    # ------------------------------------------------------------------ fitting

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, *, checkpoint: Any = None
    ) -> Self:
        """Fit the model to rows in memory, or to more rows than memory holds.

        More than 20 000 rows are read twice: first for a sample of at most 50 000 on which columns, pairs and cases are
        chosen, then to keep two bytes of each row for each chosen column. Curves and surfaces are fitted to all rows.
        If no row is repeated, the model depends neither on the kind of X nor on how rows are cut into blocks, but of an
        iterator the first 131 072 rows decide.

        Parameters
        ----------
        X : array, DataFrame, Arrow table or dict of columns of shape (n_samples, n_features); NaN or None are missing
            cells.
            Or rows in blocks: the path of a Parquet file or of a folder of them; a pyarrow dataset; a `numpy.memmap`
            of more than 256 MiB; a Dask array or dataframe; a function that returns an iterable of tuples (X, y),
            (X, y, sample_weight) or (X, y, sample_weight, groups), or a list of such tuples.
        y : class labels, or for regressors numbers, of shape (n_samples,); the name of a column of a file or dataframe;
            None with blocks
        sample_weight : weights of shape (n_samples,), or the name of a column, at least 0; only their ratios matter.
            Folds do not depend on them, but rows of weight zero are left out first
        groups : labels of shape (n_samples,), or the name of a column; rows of one group never stand on both sides of
            a fold
        checkpoint : for rows in blocks, the file to which the first reading saves its state twice a minute; the second
            reading appends its bytes to a file of the same name with `.rows`. A stopped fit continues from them, and
            deletes both when it ends

        Returns
        -------
        self
        """
        source = self._source(X, y, sample_weight, groups)
        path = None if checkpoint is None else Path(checkpoint)
        if source is None:
            if path is not None:
                raise ValueError(f"checkpoint={str(path)!r} is for rows in blocks, and X is a table in memory")
            return super().fit(X, y, sample_weight, groups)
        self.check_parameters()
        if path is not None and not source.resumes:
            raise ValueError(
                f"checkpoint={str(path)!r} is for blocks that this process reads one after another: leave it out "
                "with clusters and iterators (give a function that returns one)"
            )
        with self._forgetting(), blas_threads(1), self._logging_progress():
            seed = draw_seed(self.random_state)
            fingerprint = source.fingerprint
            first = FirstBlocks(source) if source.once else source
            key = "" if path is None else self._key_of(source)
            reading = self._first_reading(first, path, key)
            rows = reading.rows(self._weights_of_classes)
            self._expect(X, reading)
            complete = not isinstance(first, FirstBlocks) or first.complete
            if reading.count <= MANY and complete:
                self._check_memory(rows, {})
                fitted = self._fit_rows(rows, FitContext(seed, {}))
            else:
                self._check_size(Size(reading.count, len(reading.low), 0, 0, _outputs_of(rows)))
                again = first.everything() if isinstance(first, FirstBlocks) else first
                fitted = self._fit_all(again, reading, rows, seed, path, key)
                check_unchanged(source, fingerprint)
            self._publish(reading.classes, fitted, reading.table_reader(), seed, fitted.model.measured(rows))
            self.instance_labels_ = self._labels_in(X) if source_kind(X) is None else self.instances_
            self._finish(rows, None)
        for file in [] if path is None else [path, _rows_file(path)]:
            file.unlink(missing_ok=True)
        return self

    def _source(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Source | None:
        """The rows as blocks, if they are many or come in blocks."""
        counted = isinstance(resolve_cv(self.cv), Integral)
        source = table_source(X, y, sample_weight, groups) if is_tensor(X) else source_of(X, y, sample_weight, groups)
        if source is not None:
            if not counted:
                raise ValueError(
                    f"cv={self.cv!r:.60} must be a number where rows come in blocks or tensors: folds follow values"
                )
            return source
        many = counted and y is not None and not issparse(X) and count_rows(X) > MANY
        return table_source(X, y, sample_weight, groups) if many else None

    @property
    def _weights_of_classes(self) -> Any:
        """The weights of classes, if there are classes."""
        return getattr(self, "class_weight", None)

    @property
    @abstractmethod
    def _is_numeric(self) -> bool:
        """Whether the targets are numbers."""

    def _reading_of(self, source: Source) -> Callable[[], Reading]:
        """What makes an empty reading."""
        categorical = self.categorical_features
        if source.categorical is not None and isinstance(categorical, str):
            categorical = list(source.categorical)
        return partial(Reading, categorical, self.missing, self._is_numeric, SAMPLE_ROWS)

    def _key_of(self, source: Source) -> str:
        """Text that is another one for other parameters, and for other rows as far as their first block tells."""
        reading = self._reading_of(source)()
        for block in source.blocks():
            reading.update(block)
            break
        return f"{source.fingerprint} {digest(reading)}"

    def _first_reading(self, source: Source, path: Path | None, key: str) -> Reading:
        """Read all rows once; with a path, from where a stopped reading has saved itself there under the same key."""
        keeper = None if path is None else Checkpoint(path, Reading, key)
        reading = source.total(self._reading_of(source), Reading.update, "reading rows", keeper=keeper)
        if keeper is not None:
            keeper.save(reading, max(reading.lengths, default=-1) + 1)
        check_modulus(reading)
        return reading

    def _expect(self, X: Any, reading: Reading) -> None:
        """Expect the columns that were read."""
        assert reading.reader.names is not None
        if is_frame(X) and source_kind(X) is None:
            validate_data(self, X, reset=True, skip_check_array=True)
        else:
            self._expect_columns(reading.reader.names, named=reading.reader.named)

    def _fit_all(self, source: Source, reading: Reading, rows: Rows, seed: int, path: Path | None, key: str) -> Fitted:
        """Choose on the sample, and fit to all rows."""
        settings = self._settings()
        population = Population.of(reading, rows, self._weights_of_classes)
        selected = select_on_sample(rows, population, settings, seed)
        file = None if path is None else _rows_file(path)
        kept = Coder.of(selected, population, reading).read(source, reading.n_rows, file, key)
        n_rows = kept.total(len)
        if n_rows != reading.count and not source.once:
            raise ValueError(
                f"X gave {reading.count} rows (of positive weight) when it was first read and {n_rows} when it was "
                "read again: a function must return a new iterator over the same rows whenever it is called"
            )
        if not source.once:
            again, first = kept.total(check_of).values, reading.check[[*selected.columns.tolist(), -2, -1]]
            if not np.array_equal(again, first if len(selected.columns) else again):
                raise ValueError(
                    "X gave other rows when it was read again: give the same rows each time, and delete the "
                    "checkpoint of an earlier fit if there is one"
                )
        population = replace(population, n_rows=n_rows, weight=kept.total(weight_of))
        return self._fitted(fit_to_all(selected, kept, population, settings, seed), rows)

    def _fit_rows(self, rows: Rows, context: FitContext) -> Fitted:
        return self._fitted(fit_additive(rows, self._settings(), context.seed), rows)

    def _fitted(self, outcome: Outcome, rows: Rows) -> Fitted:
        attributes: dict[str, Any] = {
            "loss_": outcome.loss,
            "n_splits_": outcome.n_splits,
            "n_rows_used_": outcome.n_rows,
        }
        if outcome.path is not None:
            attributes["path_"] = outcome.path
        return Fitted(outcome.model, None, attributes)

    def _finish(self, rows: Rows, others: Rows | None) -> None:
        super()._finish(rows, others)
        if self._log_callback() is not None:
            kept = ", ".join(f"{what} {how}" for what, how in self.summary().items())
            logger.info("%s: %s", type(self).__name__, kept)

    def _settings(self) -> Settings:
        return Settings(self.max_features, self.max_pairs, self.max_instances, self.cv, self.missing, self.n_jobs)

    def _size(self, rows: Rows, kernels: Any) -> Size:
        n, d = rows.table.numbers.shape
        return Size(n, d, 0, 0, _outputs_of(rows))

    def _check_size(self, size: Size) -> None:
        """Refuse a fit to so many rows that would not find the memory it needs."""
        check_estimate(type(self).__name__, self._all_memory, self.memory_limit, self._less_memory, size)

    def _memory(self, size: Size) -> MemoryEstimate:
        if size.rows > MANY and isinstance(resolve_cv(self.cv), Integral):
            return self._memory_of_many(size)
        n, d, q = size.rows, size.columns, size.outputs
        kept = d if self.max_features == AUTO else min(d, int(self.max_features))
        steps = {  # one after another, of which the largest counts
            "bases of the columns": BASIS_NUMBERS * (2 * d + kept),
            "surfaces of pairs": PAIR_NUMBERS if self.max_pairs and d > 1 else 0,
            "similarities of candidate cases": SIMILARITY_ARRAYS * min(n, MAX_POOL) if self.max_instances else 0,
        }
        largest = max(steps, key=lambda name: steps[name])
        scores = {"scores of all classes": SCORE_NUMBERS * NUMBER * n * q}
        return {**super()._memory(size), **scores, largest: NUMBER * n * steps[largest]}

    def _memory_of_many(self, size: Size) -> MemoryEstimate:
        """What a fit takes that chooses on a sample and keeps the bytes of all rows."""
        d, sample = size.columns, min(size.rows, SAMPLE_ROWS)
        kept = min(d, MAX_AUTO if self.max_features == AUTO else int(self.max_features))
        return {
            "two bytes of all rows for each chosen column": size.rows * (2.0 * kept + ROW_BYTES),
            "the sample": NUMBER * sample * (SAMPLE_NUMBERS * (d + size.outputs) + SIMILARITY_ARRAYS * MAX_POOL),
            "blocks of rows": WORKING_BYTES + BLOCK_COPIES * NUMBER * BLOCK_CELLS,
        }

    def _all_memory(self, size: Size) -> MemoryEstimate:
        return self._memory(size)  # threads share it

    def _less_memory(self, size: Size, room: float) -> str:
        return "use a sample of the rows, or fewer columns"

    # ------------------------------------------------------------------ budgets

    def path(
        self, X: Any, y: Any, max_features: int | None = None, *, sample_weight: Any = None, groups: Any = None
    ) -> dict[str, np.ndarray]:
        """Return the held-out loss of light models against the number of features; the fit stays as it is.

        Each fold chooses its own features, so that no loss is flattered by the choice. Of more than 50 000 rows as many
        are drawn by their values. Also kept as `path_`, which a fit with ``max_features="auto"`` has by itself.

        Parameters
        ----------
        X, y, sample_weight, groups : rows as in `fit`
        max_features : most features that are tried; None: the budget of the estimator

        Returns
        -------
        dict with `n_features` (s,), increasing; `features` (s,), for each the positions of the columns, which include
        those before; `loss` (s,), the mean log-loss or squared error of held-out rows; `error` (s,), its standard error
        """
        check_in_memory(X, f"{type(self).__name__}.path", "")
        other = clone(self)
        if max_features is not None:
            other.set_params(max_features=max_features)
        other.check_parameters()
        table, _, _ = other._read_training(X)
        rows = other._rows(table, y, sample_weight, groups)
        if isinstance(resolve_cv(self.cv), Integral):
            rows = sampled(rows, SAMPLE_ROWS)
        with blas_threads(1):
            self.path_ = fit_path(rows, other._settings(), draw_seed(self.random_state))
        return self.path_

    def without_search(self) -> Self:
        """Return an unfitted copy whose budgets are what this fit has kept: no fit to other rows will keep more."""
        check_is_fitted(self)
        kept = len(self.features_), len(self.model_.surfaces), len(self.instances_)
        return clone(self).set_params(max_features=max(1, kept[0]), max_pairs=kept[1], max_instances=kept[2])

    def summary(self) -> dict[str, Any]:
        """Return what the fit kept, in words: {what: value}."""
        check_is_fitted(self)
        return {
            "features": f"{len(self.features_)} of {self.n_features_in_}",
            "pairs": ", ".join(f"{a} * {b}" for a, b in self.pairs_) or "none",
            "cases": str(len(self.instances_)),
            "held-out loss": f"{self.loss_:.4g} in {self.n_splits_} fold{'' if self.n_splits_ == 1 else 's'}",
        }

    # ------------------------------------------------------------------ explanations

    def explain(self, X: Any) -> AdditiveExplanation:
        """Split scores into what features, pairs of features and similar cases contribute; the parts add up exactly.

        For a Dask array or dataframe the contributions are lazy arrays; for a tensor they are tensors on its device.
        """
        found = super().explain(X)
        assert isinstance(found, AdditiveExplanation)
        plain = found.is_in_memory and source_kind(X) is None
        return replace(found, values=kept_values(self, X)) if plain else found


def _outputs_of(rows: Rows) -> int:
    """Scores of a row."""
    return 1 if rows.response is not None else rows.targets.shape[1]


def _rows_file(checkpoint: Path) -> Path:
    """The file in which a stopped fit keeps the bytes of rows."""
    return checkpoint.with_name(f"{checkpoint.name}.rows")
