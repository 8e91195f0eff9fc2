"""Plan: everything that must be fixed before rows can be summed.

Ranges, scales, levels, the functions of each column, the folds and the candidates come from a first pass over the rows
(or from the user), so that rows may be cut into blocks and merged in any way and give the same sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from tamis.arrays import is_tensor, to_device
from tamis.base.kernel_space import Pool, make_bank
from tamis.codec import plain_labels, stored
from tamis.errors import check_choice, check_integer, check_length, check_number
from tamis.kernels.bank import KernelBank
from tamis.kernels.recipes import Bandwidth, Recipe, Sample, check_bandwidth, per_feature
from tamis.kernels.stacks.chebyshev import Basis, Levels, chebyshev
from tamis.statistics.profile import (
    NotSummable,
    Profile,
    check_candidates,
    choose_basis,
    fit_encoder,
    grid_labels,
    grid_pool,
    is_grid,
    keeps_gaps,
    only_column,
    with_levels,
)
from tamis.statistics.sums import ColumnFunctions
from tamis.table.blocks import CheckedRows, check_rows, check_tensor_rows
from tamis.table.encoding import Encoder
from tamis.table.folds import key_folds, summed_folds
from tamis.table.keys import group_keys, row_keys
from tamis.table.rows import Rows, by_class, check_weights, class_factors, encode_classes
from tamis.table.sources.source import Block
from tamis.table.table import (
    Table,
    block_names,
    checked_input,
    read_block,
    read_table,
    resolve_columns,
    row_labels,
    with_empty_labels,
)

MAX_BYTES = 1 << 30  # memory of the sums of all folds
WINSORISE = 0.001  # share of the rows beyond each limit of a number


class TooLarge(NotSummable):
    """The sums would not fit in memory."""


@stored
@dataclass(frozen=True, eq=False)
class Plan:
    """How rows are summed. Make one with `Plan.of`.

    Attributes
    ----------
    encoder : ranges, scales and levels of the columns
    functions : the functions of the columns whose products are summed
    classes : class labels, sorted
    class_factor : (classes,) factor of the weight of each class
    pool : candidates for instances
    pool_fold, pool_labels : their folds, and their labels in the index of X
    n_folds : number of folds, which are summed separately
    seed : of the keys that choose folds and candidates
    categorical : columns that were declared categories, or None
    allow_missing : whether missing cells are accepted
    winsorise : share of the rows of X beyond each limit of a number
    named : whether X had column names
    dtype : precision of the products within a block of rows
    """

    encoder: Encoder
    functions: ColumnFunctions
    classes: np.ndarray
    class_factor: np.ndarray
    pool: Pool
    pool_fold: np.ndarray
    pool_labels: np.ndarray
    n_folds: int
    seed: int
    categorical: tuple[int, ...] | None
    allow_missing: bool
    winsorise: float
    named: bool = False
    dtype: str = "float64"

    def to_stored(self) -> dict[str, Any]:
        """Return the parts of a file; labels of types that it cannot hold become text."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**parts, "pool_labels": plain_labels(self.pool_labels)}

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        classes: Any = None,
        kernels: Any = None,
        bandwidth: Any = 1.0,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        class_weight: Any = None,
        winsorise: float = WINSORISE,
        ranges: Mapping[Any, tuple[float, float]] | None = None,
        degrees: Any = None,
        categories: Mapping[Any, Sequence[Any]] | None = None,
        gaps: str = "seen",
        candidates: Any = None,
        folds: int = 5,
        dtype: str = "float64",
        random_state: int = 0,
    ) -> Plan:
        """Decide how rows will be summed, from all of them or a sample.

        Parameters
        ----------
        X, y, sample_weight : rows
        groups : labels of their groups, if rows of one group are to share a fold
        classes : all class labels, if some may be missing in y
        kernels : as in `EM2NOLCClassifier`
        bandwidth : float, "median", array, or a list of these: all bandwidths that fits will use
        scaling, missing, categorical_features, class_weight : as in `EM2NOLCClassifier`
        winsorise : share of the rows beyond each limit of a number; 0 takes the range of X
        ranges : {column: (low, high)} in the column's own units, instead of the limits from X
        degrees : int or {column: int}, polynomials of a column; default ``ceil(8 + 1.6 range / bandwidth)``,
            at least 12, at most 64 on one panel
        categories : {column: levels} that later rows may have in addition to those in X
        gaps : {"seen", "all"}
            Which columns may have missing cells in later rows: those that have some in X, or all.
        candidates : as in `EM2NOLCClassifier`, or a pair (X, y) of the rows that may become instances. With "grid" no
            row of X is in the plan.
        folds : number of folds for cross-validation, which are summed separately; equal rows are spread over them
        dtype : {"float64", "float32"}
            Precision of the products within a block of rows. Single precision takes half the time, and sums of
            rows cut into other blocks then agree to about 1e-7 instead of 1e-12.
        random_state : int, seed of the candidate pool and the folds
        """
        check_choice("dtype", dtype, ("float64", "float32"))
        check_choice("scaling", scaling, ("standard", "rank", None))
        check_choice("missing", missing, ("absent", "median", None))
        check_choice("gaps", gaps, ("seen", "all"))
        check_integer("folds", folds, 1)
        check_integer("random_state", random_state, 0)
        check_number("winsorise", winsorise, 0.0)
        if winsorise >= 0.5:
            raise ValueError(f"winsorise={winsorise!r} must be below 0.5: it is the share of rows beyond each limit")
        widths = list(bandwidth) if isinstance(bandwidth, list | tuple) else [bandwidth]
        if not widths:
            raise ValueError(f"bandwidth={bandwidth!r} is empty: give the bandwidths that fits will use")
        own_pool = isinstance(candidates, tuple)
        if not own_pool:
            check_candidates(candidates)
        names = block_names(X)
        categorical = resolve_columns(categorical_features, names)
        table, named = read_block(X, names, categorical, missing is not None)
        codes, labels = encode_classes(y, len(table))
        check_length("groups", groups, len(table))
        if classes is not None:
            codes, labels = _known_classes(codes, labels, classes)
        if len(labels) < 2:
            raise ValueError(f"y has one class only ({labels[0]!r}): name all of them in `classes`")
        present, here = np.unique(codes, return_inverse=True)
        mass = check_weights(sample_weight, here, labels[present])
        factor = class_factors(class_weight, mass, here, labels[present])
        by = None if groups is None else group_keys(groups)
        rows = Rows(table, codes, labels, mass * factor, mass, by, np.arange(len(codes)))
        rows = rows.take(np.flatnonzero(mass > 0)) if not mass.all() else rows
        keys = row_keys(rows.table, random_state)
        fold = summed_folds(rows, keys, folds, random_state)
        d = table.numbers.shape[1]
        request = SumsRequest(
            per_feature(),
            choices=[kernels],
            bandwidths=[check_bandwidth(b, d) for b in widths],
            scaling=scaling,
            missing=missing,
            categorical_features=categorical_features,
            class_weight=class_weight,
            candidates=None if own_pool else candidates,
            cv=folds,
            seed=random_state,
        )
        plan = make_plan(
            Profile.of(rows, keys, fold, folds, limits=winsorise == 0),
            request,
            by_class(factor, codes, len(labels)),
            folds,
            winsorise=winsorise,
            ranges=_checked_ranges(_by_position(ranges, names, "ranges"), table),
            categories=_by_position(categories, names, "categories"),
            degrees=_by_position(degrees, names, "degrees") if isinstance(degrees, Mapping) else degrees,
            all_gaps=gaps == "all",
        )
        plan = replace(
            plan,
            dtype=dtype,
            named=named,
            pool_labels=plan.pool_labels if is_grid(candidates) else row_labels(X, plan.pool.position),
            categorical=None if categorical is None else tuple(categorical),
        )
        return plan._with_pool(*candidates) if own_pool else plan

    def _with_pool(self, X: Any, y: Any) -> Plan:
        """Return the plan with other rows as candidates."""
        checked, names = checked_input(X)
        if len(names) != len(self.encoder.names):
            raise ValueError(f"candidates have {len(names)} columns, but X has {len(self.encoder.names)}")
        categorical = None if self.categorical is None else list(self.categorical)
        table = read_table(checked, list(self.encoder.names), categorical, self.allow_missing)
        codes, labels = encode_classes(y, len(table))
        codes, _ = _known_classes(codes, labels, self.classes)
        pool = Pool(self.encoder.encode(table), codes, np.arange(len(codes)))
        fold = key_folds(row_keys(table, self.seed), self.n_folds)
        return replace(self, pool=pool, pool_fold=fold, pool_labels=row_labels(X, pool.position))

    def bank(self, kernels: Any, default: Recipe, bandwidth: Bandwidth) -> KernelBank:
        """Return the kernels of a fit; refuse those that are not on one column or that the functions do not resolve."""
        bank = make_bank(kernels, default, self.sample, bandwidth)
        for channel in bank.channels:
            basis = self.functions.bases[only_column(channel)]
            if not isinstance(basis, Levels) and chebyshev(channel.kernel, 0.0, 1.0) is None:
                raise ValueError(
                    f"the kernel of {channel.name!r} has no short form: statistics need Gaussian or polynomial kernels"
                )
            if not basis.resolves(channel.kernel):
                raise ValueError(
                    f"the kernel of {channel.name!r} (bandwidth={bandwidth!r}) is too narrow for the {basis.size} "
                    "polynomials that the plan has for its column: make the plan with the same kernels and bandwidth, "
                    "or with more degrees"
                )
        return bank

    def read(self, block: Block, device: str | None = None) -> CheckedRows:
        """Check a block of rows; they are moved to `device`, if one is given and all columns are numbers."""
        names, X, y, weight, groups = list(self.encoder.names), block.X, block.y, block.weight, block.groups
        nominal = set(np.flatnonzero(self.encoder.nominal).tolist())
        numeric = not self.categorical and not nominal
        check_tensor = partial(
            check_tensor_rows,
            categorical=not numeric,
            allow_missing=self.allow_missing,
            names=names,
            classes=self.classes,
        )
        if is_tensor(X):
            return check_tensor(X, y, weight, groups)
        found = block_names(X)
        table, named = read_block(X, names, self.categorical, self.allow_missing)
        self._check_columns(found, named)
        if device is not None and numeric and not table.labels:
            return check_tensor(to_device(np.ascontiguousarray(table.numbers), device), y, weight, groups)
        return check_rows(with_empty_labels(table, nominal), y, weight, groups, self.classes)

    def _check_columns(self, names: list[str], named: bool) -> None:
        """Refuse other columns than those of the plan, or their names in another order."""
        known = list(self.encoder.names)
        if len(names) != len(known):
            raise ValueError(f"X has {len(names)} columns, but the plan has {len(known)}: {known}")
        if named and self.named and names != known:
            other = next(a for a, b in zip(names, known, strict=True) if a != b)
            raise ValueError(
                f"X has the column {other!r} where the plan has others: its columns are {known}, in this order"
            )

    @property
    def sample(self) -> Sample:
        """The candidates, as the sample from which recipes choose bandwidths."""
        encoder, pool = self.encoder, self.pool
        targets = np.where(pool.codes[:, None] == np.arange(len(self.classes)), 1.0, -1.0)
        ones = np.ones(len(pool))
        return Sample(pool.Z, encoder.names, encoder.nominal, targets, ones, len(encoder.names), self.seed)


@dataclass(frozen=True)
class SumsRequest:
    """What fits need of the sums; most attributes are parameters of `EM2NOLCClassifier`."""

    default: Recipe  # kernels where a choice is None
    choices: Sequence[Any]  # all values of the parameter `kernels`
    bandwidths: Sequence[Any]  # all bandwidths
    scaling: str | None
    missing: str | None
    categorical_features: Any
    class_weight: Any
    candidates: int | str | None
    cv: Any  # how rows are divided into folds
    seed: int  # of everything random

    @property
    def n_folds(self) -> int:
        """Number of folds for rows that are not in memory at once, whose folds follow their values."""
        if self.cv is not None and not isinstance(self.cv, Integral):
            raise ValueError(
                f"cv={self.cv!r} must be an integer where rows come in blocks or tensors: folds follow their values"
            )
        n_folds = 1 if self.cv is None else int(self.cv)
        check_integer("cv", n_folds, 1)
        return n_folds


def make_plan(
    profile: Profile,
    request: SumsRequest,
    class_factor: np.ndarray,
    n_folds: int,
    *,
    winsorise: float = WINSORISE,
    ranges: Mapping[int, tuple[float, float]] | None = None,
    categories: Mapping[int, Sequence[Any]] | None = None,
    degrees: int | Mapping[int, int] | None = None,
    all_gaps: bool = False,
) -> Plan:
    """Return a plan for every kernel choice and bandwidth.

    Parameters after `n_folds` are those of `Plan.of`, but that columns are positions.
    """
    classes, known, seed, bandwidths = profile.pool.classes, dict(ranges or {}), request.seed, request.bandwidths
    distinct = {j: values for j, values in profile.distinct.items() if j not in known}
    profile = replace(profile, distinct=distinct)
    encoder = with_levels(fit_encoder(profile, known, request.scaling, request.missing, winsorise), categories or {})
    if is_grid(request.candidates):
        if any(isinstance(width, str) for width in bandwidths):
            raise ValueError("bandwidth='median' needs rows, and candidates='grid' has none: give numbers")
        pool = grid_pool(encoder, distinct, len(classes), seed)
        pool_fold, labels = np.full(len(pool), n_folds), grid_labels(pool.position)
    else:
        rows = profile.pool
        chosen = profile.choose_candidates(request.candidates)
        pool = Pool(encoder.encode(rows.table.take(chosen)), rows.codes[chosen], rows.position[chosen])
        pool_fold, labels = profile.pool_fold[chosen], pool.position
    draft = Plan(
        encoder=encoder,
        functions=ColumnFunctions((), ()),
        classes=classes,
        class_factor=class_factor,
        pool=pool,
        pool_fold=pool_fold,
        pool_labels=labels,
        n_folds=n_folds,
        seed=seed,
        categorical=None,
        allow_missing=request.missing is not None,
        winsorise=winsorise,
    )
    kernels = [(choice, width) for choice in request.choices for width in bandwidths]
    banks = [make_bank(choice, request.default, draft.sample, width) for choice, width in kernels]
    bases = tuple(choose_basis(j, c, banks, distinct.get(j), degrees) for j, c in enumerate(encoder.columns))
    gaps = tuple(all_gaps or bool(gap and keeps_gaps(c)) for gap, c in zip(profile.gaps, encoder.columns, strict=True))
    _check_size(bases, len(classes), n_folds, encoder.names)
    return replace(draft, functions=ColumnFunctions(bases, gaps))


def _check_size(bases: Sequence[Basis], n_classes: int, n_folds: int, names: Sequence[str]) -> None:
    """Refuse sums that would need more memory than `MAX_BYTES`."""
    sizes = [basis.size for basis in bases]
    size = sum(sizes) + n_classes
    if 8 * n_folds * size**2 > MAX_BYTES:
        widest = int(np.argmax(sizes))
        raise TooLarge(
            f"engine='statistics' would sum {size} x {size} products for each of {n_folds} folds, more than a gibibyte "
            f"(column {names[widest]!r} alone has {sizes[widest]} functions): use fewer columns, a wider "
            "bandwidth, fewer folds or, with rows in memory, another engine"
        )


def _by_position(given: Any, names: list[str], parameter: str) -> dict[int, Any]:
    """Return a mapping from names or positions of columns as one from positions."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{parameter}={given!r} must map columns to values")
    unknown = [c for c in given if not (c in names or (isinstance(c, int | np.integer) and 0 <= c < len(names)))]
    if unknown:
        raise ValueError(f"{parameter} names the column {unknown[0]!r}, which X does not have: its columns are {names}")
    return {names.index(c) if isinstance(c, str) else int(c): value for c, value in given.items()}


def _checked_ranges(ranges: dict[int, Any], table: Table) -> dict[int, tuple[float, float]]:
    """Return ranges as pairs of floats; refuse empty ones and those of categories."""
    for j, limits in ranges.items():
        name = table.names[j]
        if j in table.labels:
            raise ValueError(f"ranges names {name!r}, which is a category and has no range")
        try:
            pair = np.asarray(limits, dtype=float)
        except (TypeError, ValueError):
            pair = np.empty(0)
        if pair.shape != (2,) or not np.all(np.isfinite(pair)) or not pair[0] < pair[1]:
            raise ValueError(f"ranges[{name!r}]={limits!r} must be two finite numbers, the lower one first")
        inside = (table.numbers[:, j] > pair[0]) & (table.numbers[:, j] < pair[1])
        if not inside.any():
            raise ValueError(f"ranges[{name!r}]={limits!r} has no value of X inside: give the range in units of X")
    return {j: (float(low), float(high)) for j, (low, high) in ranges.items()}


def _known_classes(codes: np.ndarray, labels: np.ndarray, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return indices into all `classes`, and these."""
    known = np.unique(np.asarray(classes))
    unknown = np.setdiff1d(labels, known).tolist()
    if unknown:
        raise ValueError(f"y holds {unknown[0]!r}, which is not among classes={known.tolist()}")
    return np.searchsorted(known, labels)[codes], known
