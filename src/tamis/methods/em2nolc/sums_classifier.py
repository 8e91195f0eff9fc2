"""SumsClassifier: fits from sums over rows, for `EM2NOLCClassifier` and its search."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from tamis.arrays import is_tensor
from tamis.base.classifier import ReadableClassifier
from tamis.base.estimator import draw_seed
from tamis.base.kernel_model import KernelModel
from tamis.base.model import FitContext, Fitted
from tamis.errors import warn
from tamis.kernels.recipes import check_bandwidth, per_feature
from tamis.parallel import blas_threads
from tamis.statistics.fit import FoldSums, fold_sums, sum_rows
from tamis.statistics.passes import sum_source, sum_tensor
from tamis.statistics.plan import Plan, SumsRequest
from tamis.statistics.profile import grid_labels, is_grid
from tamis.statistics.statistics import Statistics
from tamis.table.rows import Rows
from tamis.table.sources.source import Source, source_of, table_source
from tamis.table.table import TableReader

OUTSIDE_SHARE = 0.01  # share of a column's cells beyond the plan's range that is worth a warning


class SumsClassifier(ReadableClassifier):
    """Base of the classifiers that can be fitted from sums over rows."""

    kernels: Any  # parameters, set by the constructors
    solver: str
    engine: str
    candidates: int | str | None
    device: str | None
    tol: float
    max_iter: int

    outside_: dict[str, int]

    @property
    @abstractmethod
    def _summed_for(self) -> tuple[Sequence[Any], Sequence[Any], Any]:
        """The kernels to choose among, their bandwidths, and the folds that are summed apart."""

    @abstractmethod
    def _fit_pass(self, one: FoldSums, context: FitContext) -> Fitted:
        """Make the model, and a calibrator where there are rows for one, from a pass over rows."""

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, *, checkpoint: Any = None
    ) -> Self:
        """Fit the model to rows in memory, or to more rows than memory holds.

        Rows that come in blocks are read twice, first for ranges, levels and samples and then for their sums (see
        `Statistics`), and a third time if the polynomials in place of kernels are not accurate enough; memory does not
        grow with them, and `memory_limit` is not used.

        Parameters
        ----------
        X : array, DataFrame, Arrow table or dict of columns of shape (n_samples, n_features); NaN or None are missing
            cells.
            Or rows in blocks: the path of a Parquet file or of a folder of them; a pyarrow dataset; a
            `numpy.memmap` of more than 256 MiB; a Dask array or dataframe; a function that returns an iterable of
            tuples (X, y), (X, y, sample_weight) or (X, y, sample_weight, groups), or a list of such tuples. An
            iterator can be read only once: its first 2^17 rows then decide on ranges, levels and candidates. A
            tensor of torch stays where it is, on a graphics card for example, and is summed there.
        y : class labels of shape (n_samples,); the name of a column of a file or dataframe; None with blocks
        sample_weight : weights of shape (n_samples,), or the name of a column, at least 0; only their ratios matter.
            Folds do not depend on them, but rows of weight zero are left out first
        groups : labels of shape (n_samples,), or the name of a column; rows of one group never stand on both sides of
            a fold
        checkpoint : a file in which a pass over blocks keeps its sums twice a minute; a fit that was stopped goes on
            from there, and removes the file when it is through

        Returns
        -------
        self
        """
        tensor = is_tensor(X)
        source = None if tensor else source_of(X, y, sample_weight, groups)
        in_memory = source is None and not tensor and self.device is not None and y is not None
        if in_memory:
            source = table_source(X, y, sample_weight, groups)
        if source is None and not tensor:
            if checkpoint is not None:
                raise ValueError(f"checkpoint={str(checkpoint)!r} is for rows in blocks, and X is a table in memory")
            return super().fit(X, y, sample_weight, groups)
        self.check_parameters()
        self._check_blocks()
        if checkpoint is not None and (source is None or not source.resumes):
            raise ValueError(
                f"checkpoint={str(checkpoint)!r} is for blocks that this process reads one after another: leave it out "
                "with tensors, clusters and iterators (give a function that returns one)"
            )
        with self._forgetting(), blas_threads(1), self._logging_progress():
            seed = draw_seed(self.random_state)
            request = self._sums_request(seed)
            if tensor:
                one = sum_tensor(X, y, sample_weight, groups, request)
            else:
                one = sum_source(cast(Source, source), request, device=self.device, checkpoint=checkpoint)
            self._publish_pass(one, self._plan_reader(one.statistics.plan), seed)
            if in_memory:
                self.instance_labels_ = self._labels_in(X)
        if checkpoint is not None:
            Path(checkpoint).unlink(missing_ok=True)
        self._report_outside(one.statistics)
        return self

    def _labels_in(self, X: Any) -> np.ndarray:
        return grid_labels(self.instances_) if is_grid(self.candidates) else super()._labels_in(X)

    def _sums_request(self, seed: int, n_features: int | None = None) -> SumsRequest:
        """What sums over rows, of so many features if that is known, are made for."""
        choices, widths, cv = self._summed_for
        names = ("scaling", "missing", "categorical_features", "class_weight", "candidates")
        own = {name: getattr(self, name) for name in names}
        bandwidths = [check_bandwidth(b, n_features) for b in widths]
        return SumsRequest(per_feature(), choices, bandwidths, cv=cv, seed=seed, **own)

    def _check_blocks(self) -> None:
        """Refuse parameters that need all rows in memory."""
        self._check_summable()
        if self.engine in ("dense", "streaming"):
            raise ValueError(f"engine={self.engine!r} needs all rows in memory: use 'auto' with rows in blocks")
        if self.candidates == "all":
            raise ValueError("candidates='all' needs all rows in memory: use a number with rows in blocks")

    def _sum(self, rows: Rows, seed: int) -> FoldSums | None:
        """Sum the rows if `engine` requests it; None if they are to be kept as rows."""
        if self.solver == "paper":
            return None
        return sum_rows(rows, self.engine, self._sums_request(seed, rows.table.numbers.shape[1]))

    def fit_statistics(
        self, statistics: Statistics, X: Any = None, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Fit from sums over rows.

        Parameters
        ----------
        statistics : Statistics. Scaling, missing cells, categories, class weights, candidates and folds are
            those of its plan; the parameters of the same names are not used.
        X, y, sample_weight, groups : rows of the same kind, all of them or a sample.
            Probabilities, logistic refits and scores other than the squared error need them.

        Returns
        -------
        self
        """
        if not isinstance(statistics, Statistics):
            raise ValueError(f"statistics={type(statistics).__name__} is not a Statistics object")
        self.check_parameters()
        self._check_summable()
        statistics.check_usable()
        plan = statistics.plan
        with self._forgetting(), blas_threads(1):
            reader, rows = self._plan_reader(plan), None
            if X is not None:
                rows = self._rows(self._read(X, reader), y, sample_weight, groups)
                if rows.classes.tolist() != plan.classes.tolist():
                    raise ValueError(
                        f"y has the classes {rows.classes.tolist()}, but the statistics have {plan.classes.tolist()}"
                    )
            self._publish_pass(fold_sums(statistics, rows, groups), reader, draw_seed(self.random_state))
        self._report_outside(statistics)
        return self

    def _publish_pass(self, one: FoldSums, reader: TableReader, seed: int) -> None:
        """Make a model from a pass over rows, and set what was learned."""
        plan = one.statistics.plan
        fitted = self._fit_pass(one, FitContext(seed, self._kernel_choices()))
        model = cast(KernelModel, fitted.model)
        if one.sample is None:
            measured = model.measured_on(plan.pool.Z[:, model.columns], np.ones(len(plan.pool)))
        else:
            measured = model.measured(one.sample)
        self._publish(plan.classes, fitted, reader, seed, measured)
        place = {position: k for k, position in enumerate(plan.pool.position.tolist())}
        self.instance_labels_ = plan.pool_labels[[place[i] for i in self.instances_.tolist()]]
        self._warn()

    def _check_summable(self) -> None:
        """Refuse parameters that need rows in memory."""
        if self.solver == "paper":
            raise ValueError("solver='paper' works on rows: use another solver with statistics")

    def _plan_reader(self, plan: Plan) -> TableReader:
        """Expect the columns of the plan, and read them as it does."""
        self._expect_columns(list(plan.encoder.names), named=plan.named)
        return TableReader(None if plan.categorical is None else tuple(plan.categorical), plan.allow_missing)

    def _report_outside(self, statistics: Statistics) -> None:
        """Publish and, where they are many, warn of cells beyond the plan's ranges."""
        self.outside_ = statistics.outside
        bar = (OUTSIDE_SHARE + 2 * statistics.plan.winsorise) * statistics.n_rows
        many = [f"{name!r} ({100 * n / statistics.n_rows:.1f}%)" for name, n in self.outside_.items() if n > bar]
        if many:
            warn(
                "cells beyond the plan's ranges or levels count as the nearest value or as no category: "
                f"{', '.join(many)}; make the plan from rows that show the whole range"
            )
