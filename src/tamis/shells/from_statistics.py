"""What classifiers that can be fitted from sums over rows have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from tamis.arrays import is_tensor
from tamis.data.checks import check_bandwidth
from tamis.data.rows import Rows
from tamis.errors import warn
from tamis.kernels.recipes import per_feature
from tamis.models.calibration import Calibrator
from tamis.models.model import Model
from tamis.parallel import blas_threads
from tamis.shells.base import draw_seed
from tamis.shells.classifying import KernelClassifier
from tamis.shells.explaining import measured_variation, variation_shares
from tamis.shells.parameters import parameters
from tamis.sources.base import Source
from tamis.sources.opening import by_name, source_of, table_source
from tamis.sums.grid import grid_labels
from tamis.sums.one_pass import OnePass, second_look, sum_rows
from tamis.sums.plan import Plan, is_grid
from tamis.sums.statistics import Statistics
from tamis.sums.streaming import sum_source
from tamis.sums.tensors import sum_tensor
from tamis.sums.wanted import Wanted

OUTSIDE = 0.01  # share of a column's cells beyond the plan's range that is worth a warning


@parameters
class FromStatistics(KernelClassifier):
    """Adds `fit_statistics` to classifiers that have ``_select_sums(one_pass)``.

    Parameters
    ----------
    kernels : None, recipe, KernelBank or list of (name, kernel, columns)
        None is `tamis.per_feature()`; see also `tamis.product()`; recipes can be added.
    solver : {"splicing", "admm", "paper"}
        "paper" is the algorithm as printed (which runs 50 rounds; its own intercept is kept with
        ``calibration=None``), for study: it often ends above the constant model. "admm" is its repaired
        form. "splicing" is monotone and ends lowest.
    engine : {"auto", "dense", "streaming", "statistics"}
        Kernel values are kept in memory ("dense"), computed in blocks ("streaming"), or replaced by sums
        over the rows of short polynomials ("statistics"): one pass, then nothing depends on the number of
        rows; for kernels of one column each. "auto" is dense up to a gibibyte, then statistics where
        the kernels allow it, else streaming.
    candidates : int, "all", "grid" or None
        How many training rows may become instances: a stratified random pool, at least one of each
        class. None: up to 1000. "all": every row; with the statistics engine, a pool first and then
        better rows from all of them. "grid": points spread over the ranges of the features in the place of rows, for
        the statistics engine; what is kept are then no real cases, and the model holds no row of X.
    shared_support : bool
        With more than two classes, one set of cases and features for all classes.
    device : str or None
        Where sums over rows are made: "cuda", "cuda:1" or "cpu" by torch, None by numpy. A tensor is summed where it
        is. Both ask for the statistics engine. Everything after the sums is small and stays on the processor.
    tol : float
        Largest relative decrease of the objective that one exchange may still bring.
    max_iter : int
        Most rounds of instance and feature steps.
    n_jobs : int or None
        Processes for the folds. Sums over rows use all cores in any case.

    Attributes
    ----------
    dual_coef_, kernel_weights_, intercept_ : the factors of the coefficients (closest ones if "full")
    instance_importance_, feature_importance_, kernel_importance_ : signed percentages, the paper's II
        and FI; the largest kernel weight is positive
    outside_ : after a fit from statistics, {column: cells beyond the plan's range or levels}
    statistics_ : after partial fits, their sums
    """

    _: KW_ONLY
    kernels: Any = None
    solver: str = "splicing"
    engine: str = "auto"
    candidates: int | str | None = None
    shared_support: bool = False
    device: str | None = None
    tol: float = 1e-4
    max_iter: int = 30

    @property
    @abstractmethod
    def _summed_for(self) -> tuple[Sequence[Any], Sequence[Any], Any]:
        """The kernels to choose among, their bandwidths, and the folds that are summed apart."""

    @abstractmethod
    def _select_sums(self, one: OnePass) -> tuple[Model, Calibrator | None]:
        """Make the model, and a calibrator where there are rows for one."""

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, *, checkpoint: Any = None
    ) -> Self:
        """Fit the model to rows in memory, or to more rows than memory holds.

        Rows that come in blocks are read twice, first for ranges, levels and samples and then for their sums (see
        `Statistics`), and a third time if the kernels' polynomials turn out not to be good enough; memory does not
        grow with them, and no `memory_limit` is asked about.

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
        self._check_parameters()
        self._check_blocks()
        if checkpoint is not None and (source is None or not source.resumes):
            raise ValueError(
                f"checkpoint={str(checkpoint)!r} is for blocks that this process reads one after another: leave it out "
                "with tensors, clusters and iterators (give a function that returns one)"
            )
        with self._afresh(), blas_threads(1), self._telling():
            self._seed = draw_seed(self.random_state)
            if tensor:
                one = sum_tensor(X, y, sample_weight, groups, self._wanted())
            else:
                one = sum_source(cast(Source, source), self._wanted(), device=self.device, checkpoint=checkpoint)
            self._adopt(one.statistics.plan)
            self._fit_sums(one)
            if in_memory:
                self.instance_labels_ = self._labels_in(X)
        if checkpoint is not None:
            Path(checkpoint).unlink(missing_ok=True)
        self._report_outside(one.statistics)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the rows that `predict` gets right.

        Parameters
        ----------
        X, y, sample_weight : rows and labels, or rows in blocks with the names of columns, as in `fit`
        """
        source = source_of(X, y, sample_weight) if isinstance(y, str) else None
        if source is None:
            return float(super().score(X, y, sample_weight))
        right = total = 0.0
        for block in source.blocks():
            weight = np.ones(len(block)) if block.weight is None else np.asarray(block.weight, dtype=float)
            right += float(weight @ (self.predict(by_name(block.X)) == np.asarray(block.y)))
            total += float(weight.sum())
        return right / total

    def _labels_in(self, X: Any) -> np.ndarray:
        return grid_labels(self.instances_) if is_grid(self.candidates) else super()._labels_in(X)

    def _wanted(self, n_features: int | None = None) -> Wanted:
        """What sums over rows, of so many features if that is known, are made for."""
        choices, widths, cv = self._summed_for
        names = ("scaling", "missing", "categorical_features", "class_weight", "candidates")
        own = {name: getattr(self, name) for name in names}
        bandwidths = [check_bandwidth(b, n_features) for b in widths]
        return Wanted(per_feature(), choices, bandwidths, cv=cv, seed=self._seed, **own)

    def _check_blocks(self) -> None:
        """Refuse parameters that need all rows in memory."""
        self._check_summable()
        if self.engine in ("dense", "streaming"):
            raise ValueError(f"engine={self.engine!r} needs all rows in memory: use 'auto' with rows in blocks")
        if self.candidates == "all":
            raise ValueError("candidates='all' needs all rows in memory: use a number with rows in blocks")

    def _sum(self, rows: Rows) -> OnePass | None:
        """Sum the rows if `engine` asks for it; None if they are to be kept as rows."""
        if self.solver == "paper":
            return None
        return sum_rows(rows, self.engine, self._wanted(rows.table.numbers.shape[1]))

    def fit_statistics(
        self, statistics: Statistics, X: Any = None, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Fit from sums over rows.

        Parameters
        ----------
        statistics : Statistics. Scaling, missing cells, categories, class weights, candidates and folds are
            those of its plan, whatever the parameters of the same name say here.
        X, y, sample_weight, groups : rows for a second look, if they are at hand; a sample will do.
            Probabilities, logistic refits and scores other than the squared error need them.

        Returns
        -------
        self
        """
        if not isinstance(statistics, Statistics):
            raise ValueError(f"statistics={type(statistics).__name__} is not a Statistics object")
        self._check_parameters()
        self._check_summable()
        statistics.check_usable()
        plan = statistics.plan
        with self._afresh(), blas_threads(1):
            self._adopt(plan)
            self._seed = draw_seed(self.random_state)
            rows = None
            if X is not None:
                rows = self._rows(X, y, sample_weight, groups, reset=False)
                self._check_classes(rows.classes, plan)
            self._fit_sums(second_look(statistics, rows, groups))
        self._report_outside(statistics)
        return self

    def _fit_sums(self, one: OnePass) -> None:
        """Select a model from sums, and publish it."""
        plan = one.statistics.plan
        model, calibrator = self._select_sums(one)
        if one.look is None:
            shares = variation_shares(model, plan.pool.Z[:, model.columns], np.ones(len(plan.pool)))
        else:
            shares = measured_variation(model, one.look)
        self._publish(plan.classes, model, calibrator, shares)
        place = {position: k for k, position in enumerate(plan.pool.position.tolist())}
        self.instance_labels_ = plan.pool_labels[[place[i] for i in self.instances_.tolist()]]

    def _check_summable(self) -> None:
        """Refuse parameters that need rows in memory."""
        if self.solver == "paper":
            raise ValueError("solver='paper' works on rows: use another solver with statistics")

    def _adopt(self, plan: Plan) -> None:
        """Expect the columns of the plan."""
        self._expect(list(plan.encoder.names), named=plan.named)
        self._categorical = None if plan.categorical is None else list(plan.categorical)
        self._allow_missing = plan.allow_missing

    @staticmethod
    def _check_classes(classes: np.ndarray, plan: Plan) -> None:
        if classes.tolist() != plan.classes.tolist():
            raise ValueError(f"y has the classes {classes.tolist()}, but the statistics have {plan.classes.tolist()}")

    def _report_outside(self, statistics: Statistics) -> None:
        """Publish and, where they are many, warn of cells beyond the plan's ranges."""
        self.outside_ = statistics.outside
        bar = (OUTSIDE + 2 * statistics.plan.winsorise) * statistics.n_rows
        many = [f"{name!r} ({100 * n / statistics.n_rows:.1f}%)" for name, n in self.outside_.items() if n > bar]
        if many:
            warn(
                "cells beyond the plan's ranges or levels count as the nearest value or as no category: "
                f"{', '.join(many)}; make the plan from rows that show the whole range",
            )
