"""Training rows: table, classes or numbers, weights and groups, and positions in the user's input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from tamis.table.keys import group_keys, lowest, row_keys, sampling_keys
from tamis.table.table import Table, is_missing, joined

FIRST_COLUMNS = 8  # by which rows are sorted; the others only order rows that are equal in these
COSTS = (1e-30, 1e30)  # of rows
MAX_ENCODED = 1e140  # modulus of an encoded number


@dataclass(frozen=True)
class Rows:
    """Training rows; once merged, distinct rows of positive weight in an order that is not the input's."""

    table: Table  # Table of n rows
    codes: np.ndarray  # (n,) class of each row, an index into `classes`
    classes: np.ndarray  # the class labels, sorted
    weight: np.ndarray  # (n,) weights in the loss: sample weights times class weights
    mass: np.ndarray  # (n,) sample weights
    groups: np.ndarray | None  # (n,) key of the group of each row, or None
    position: np.ndarray  # (n,) position in the input of the first row with these values
    unit: float = 1.0  # the sample weight that is one in `weight` and `mass`, which are scaled to mean one
    # (n,) the numbers to predict in regression, whose strata are then the classes; else None
    response: np.ndarray | None = None
    merged: np.ndarray | None = None  # (n,) number of rows of the input that were merged into each row; None: one each

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: np.ndarray) -> Rows:
        return replace(
            self,
            table=self.table.take(rows),
            codes=self.codes[rows],
            weight=self.weight[rows],
            mass=self.mass[rows],
            groups=None if self.groups is None else self.groups[rows],
            position=self.position[rows],
            response=None if self.response is None else self.response[rows],
            merged=None if self.merged is None else self.merged[rows],
        )

    @property
    def counts(self) -> np.ndarray:
        """Number of rows of the input (n,) that were merged into each row."""
        return np.ones(len(self), dtype=np.int64) if self.merged is None else self.merged

    @property
    def targets(self) -> np.ndarray:
        """Outputs (n, q): the number to predict, or in {-1, +1} one for two classes, one per class otherwise."""
        return coding(len(self.classes))[self.codes] if self.response is None else self.response[:, None]

    @property
    def labels(self) -> np.ndarray:
        """Labels or numbers (n,) to predict, as in the input."""
        return self.classes[self.codes] if self.response is None else self.response

    @property
    def ties(self) -> list[np.ndarray]:
        """Arrays (n,) that order rows of equal values; the last one, the class, is the first criterion."""
        parts = (self.weight, self.mass, self.groups, self.response, self.codes)
        return [part for part in parts if part is not None]

    @property
    def absolute_weight(self) -> np.ndarray:
        """Weights (n,) in the units of the input, for methods whose loss is a sum and not a mean."""
        return self.weight * self.unit

    def problems(self, shared: bool) -> list[np.ndarray]:
        """Targets of each problem to solve."""
        return [c[self.codes] for c in codings(len(self.classes), shared)]


def coding(n_classes: int) -> np.ndarray:
    """Targets (classes, q) in {-1, +1} of each class: one output for two classes, one per class otherwise."""
    return np.array([[-1.0], [1.0]]) if n_classes == 2 else 2.0 * np.eye(n_classes) - 1.0


def codings(n_classes: int, shared: bool) -> list[np.ndarray]:
    """The coding of each problem to solve: all outputs in one if `shared`, else one output each."""
    whole = coding(n_classes)
    return [whole] if shared else [whole[:, [k]] for k in range(whole.shape[1])]


def merge_rows(rows: Rows) -> Rows:
    """Drop rows of weight zero, add up the weights of identical rows, sort by value.

    Repeating a row and doubling its weight then give the same training set, up to the scale of all weights, and so does
    any permutation of the input.
    """
    return part_of(*merge_places(rows), rows, np.arange(len(rows)))


def merge_places(rows: Rows) -> tuple[Rows, np.ndarray]:
    """One row for each set of identical rows, sorted by value, and where each input row went (n,).

    The place of a row of weight zero, which is dropped, is -1. Weights are those of the first rows of each set:
    `part_of` adds them up.
    """
    counted = np.flatnonzero(rows.weight > 0)
    some = rows.take(counted)
    ranks = _value_ranks(some)
    order = np.lexsort([some.position, ranks])
    places = np.full(len(rows), -1)
    places[counted] = ranks
    return some.take(order[np.flatnonzero(np.diff(ranks[order], prepend=-1))]), places


def part_of(distinct: Rows, places: np.ndarray, rows: Rows, part: np.ndarray) -> Rows:
    """The input rows at the positions `part`, merged; `distinct` and `places` are those of `merge_places`."""
    part = part[places[part] >= 0]
    n = len(distinct)
    if n < np.count_nonzero(places >= 0):  # in an order that is not the input's, on which the rounding of sums depends
        part = part[np.lexsort([rows.mass[part], places[part]])]
    place = places[part]
    counts = np.bincount(place, weights=rows.counts[part], minlength=n)
    kept = np.flatnonzero(counts)
    weight, mass = (np.bincount(place, weights=w[part], minlength=n)[kept] for w in (rows.weight, rows.mass))
    return replace(distinct.take(kept), weight=weight, mass=mass, merged=counts[kept].astype(np.int64))


def _value_ranks(rows: Rows) -> np.ndarray:
    """Ranks (n,) 0, 1, ... of the rows by numbers, the last column first, labels, group and class; equal rows tie.

    Classes come last, in an order that does not depend on their names.
    """
    ranks = np.zeros(len(rows), dtype=int)
    stop, width = rows.table.numbers.shape[1], FIRST_COLUMNS
    while stop > 0 and ranks.max(initial=-1) < len(rows) - 1:  # more columns only where rows tie
        start = max(0, stop - width)
        numbers = rows.table.numbers[:, start:stop]
        ranks = _ranks([*np.where(np.isnan(numbers), np.inf, numbers).T, ranks])  # a value that no number takes
        stop, width = start, 2 * width
    if ranks.max(initial=-1) < len(rows) - 1:
        keys = [key for key in (rows.response, rows.groups) if key is not None]
        ranks = _ranks([*keys, *(_label_codes(values) for values in rows.table.labels.values()), ranks])
    if ranks.max(initial=-1) < len(rows) - 1:
        ranks = _ranks([_nameless(rows.codes, rows.mass, ranks), ranks])
    return ranks


def _nameless(codes: np.ndarray, mass: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Codes (n,) of the same classes, ordered by where their mass lies instead of by their names.

    Classes of equal mass at every value keep their order.
    """
    draws = np.random.default_rng(0).random(ranks.max() + 1)
    sums = np.bincount(codes, weights=mass * draws[ranks])
    return np.argsort(np.argsort(np.round(sums / sums.max(), 9), kind="stable"))[codes]


def _ranks(keys: Sequence[np.ndarray]) -> np.ndarray:
    """Ranks (n,) by the last key, then the last but one, and so on; equal keys have equal ranks."""
    order = np.lexsort(keys)
    moved = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    ranks = np.zeros(len(order), dtype=int)
    ranks[order[1:]] = np.cumsum(moved)
    return ranks


def concatenate(parts: Sequence[Rows]) -> Rows:
    """Rows one after another."""
    names = ["codes", "weight", "mass", "position"]
    names += [name for name in ("response", "merged") if getattr(parts[0], name) is not None]
    arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    groups = None if parts[0].groups is None else np.concatenate([part.groups for part in parts])
    return replace(parts[0], table=joined([part.table for part in parts]), groups=groups, **arrays)


def merge_keyed(rows: Rows, keys: np.ndarray) -> Rows:
    """Add up the weights of rows with equal keys and class, in the order of the keys.

    As `merge_rows`, for rows whose values have keys (equal keys, equal values).
    """
    order = np.lexsort([rows.mass, rows.codes, keys])
    keys, codes = keys[order], rows.codes[order]
    first = np.r_[True, (keys[1:] != keys[:-1]) | (codes[1:] != codes[:-1])]
    starts = np.flatnonzero(first)
    weight, mass, merged = (np.add.reduceat(w[order], starts) for w in (rows.weight, rows.mass, rows.counts))
    return replace(rows.take(order[first]), weight=weight, mass=mass, merged=merged)


def sampled(rows: Rows, most: int) -> Rows:
    """Draw at most `most` rows of positive mass by their values, whatever the order of the rows."""
    rows = rows.take(np.flatnonzero(rows.mass > 0))
    return rows if len(rows) <= most else rows.take(lowest(draws(rows, 0), most))


def draws(rows: Rows, seed: int) -> np.ndarray:
    """Return random numbers (n,) that depend on the values of rows and differ for equal rows."""
    return sampling_keys(row_keys(rows.table, seed), rows.ties)


def spread(n: int, most: int) -> np.ndarray:
    """Positions of at most `most` of n rows, evenly spread."""
    return np.arange(0, n, -(-n // most))


def some_of_each_class(rows: Rows, most: int, least: int, seed: int) -> np.ndarray:
    """Positions of about `most` rows: of each class in proportion but not too few, whatever the order of the rows."""
    keys = draws(rows, seed)
    chosen = []
    for c in range(len(rows.classes)):
        members = np.flatnonzero(rows.codes == c)
        chosen.append(members[lowest(keys[members], max(least, round(most * len(members) / len(rows))))])
    return np.sort(np.concatenate(chosen))


def _label_codes(values: np.ndarray) -> np.ndarray:
    """Codes of labels of any types."""
    text = np.array([("", "") if v is None else (type(v).__name__, str(v)) for v in values])
    return np.unique(text, axis=0, return_inverse=True)[1].ravel()


def check_groups(groups: Any, n: int) -> np.ndarray | None:
    """Keys (n,) of group labels of any types."""
    if groups is None:
        return None
    labels = groups.to_numpy() if hasattr(groups, "to_numpy") else np.asarray(groups, dtype=object)
    if labels.shape != (n,):
        raise ValueError(f"groups has shape {labels.shape}, expected ({n},): one label per row")
    return group_keys(labels)


def check_weights(sample_weight: Any, codes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Sample weights (n,), scaled to mean one; refuse negative, infinite or all-zero ones."""
    try:
        weight = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"sample_weight={sample_weight!r:.60} does not hold numbers: give one weight per row"
        ) from None
    if weight.ndim == 0:
        weight = np.full(len(codes), float(weight))
    if weight.shape != codes.shape:
        raise ValueError(f"sample_weight has shape {weight.shape}, expected ({len(codes)},): one weight per row")
    if not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise ValueError("sample_weight holds negative or non-finite values: weights must be finite and at least 0")
    mass = np.bincount(codes, weights=weight, minlength=len(classes))
    if np.any(mass == 0):
        which = f" of class {classes.tolist()[int(np.argmin(mass))]!r}" if len(classes) > 1 else ""
        raise ValueError(f"sample_weight is zero for all rows{which}: give some of them a positive weight")
    return _mean_one(weight)


def weight_unit(sample_weight: Any, mass: np.ndarray) -> float:
    """Return the number by which `check_weights` divides."""
    return 1.0 if sample_weight is None else float(np.max(np.asarray(sample_weight, dtype=float)) / np.max(mass))


def _mean_one(weight: np.ndarray) -> np.ndarray:
    """Scale to mean one over the rows of positive weight: only ratios of weights matter."""
    if not np.any(weight > 0):
        return weight
    scaled = weight / weight.max()
    return scaled / np.sort(scaled[scaled > 0]).mean()  # sorted: rounding does not follow the order of the rows


def class_factors(class_weight: Any, sample_weight: np.ndarray, codes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the factor (n,) of each row by `class_weight`."""
    check_class_weight(class_weight)
    if class_weight is None:
        return np.ones(len(codes))
    if isinstance(class_weight, str):
        order = np.lexsort([sample_weight, codes])  # rounding does not follow the order of the rows
        mass = np.bincount(codes[order], weights=sample_weight[order], minlength=len(classes))
        return (np.sort(mass).sum() / (len(classes) * mass))[codes]
    unknown = [key for key in class_weight if key not in classes]
    if unknown:
        known = np.asarray(classes).tolist()
        raise ValueError(f"class_weight names {unknown[0]!r}, which is not a class: the classes are {known}")
    return np.array([float(class_weight.get(c, 1.0)) for c in classes])[codes]


def check_class_weight(class_weight: Any) -> None:
    """Refuse values that are wrong for any classes."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight={class_weight!r} is unknown: use None, 'balanced' or a dict")
    if not all(isinstance(v, Real) and 0 < float(v) < np.inf for v in class_weight.values()):
        raise ValueError(f"class_weight={class_weight!r} holds values that are not positive: use positive numbers")


def by_class(factors: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """The factor (classes,) that `class_factors` gave the rows of each class; one where there are none."""
    out = np.ones(n_classes)
    out[codes] = factors
    return out


def encode_classes(y: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes (n,) and sorted classes of the labels `y`."""
    if y is None:
        raise ValueError("y is None: a classifier requires y to be passed, but the target y is None")
    if np.ma.is_masked(y):
        raise ValueError("y has masked values: drop these rows")
    if getattr(getattr(y, "dtype", None), "kind", "O") not in "biufmMUS":
        _check_labels(y)
    y = column_or_1d(y, warn=True)
    if len(y) != n:
        raise ValueError(f"y has length {len(y)}, but X has {n} rows: inconsistent numbers of samples")
    if y.dtype.kind == "f" and not np.all(np.isfinite(y)):
        raise ValueError("y contains NaN or infinity: Input y contains NaN; drop these rows")
    if y.dtype.kind in "iu" and len(y) and 2 * (int(y.max()) - int(y.min())) < len(y) and abs(int(y.max())) < 2**62:
        return _counted_classes(y)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    return codes, classes


def _check_labels(y: Any) -> None:
    """Refuse labels of several types, and rows without one."""
    labels = np.asarray(y, dtype=object).ravel()
    if any(isinstance(label, list | tuple | dict | np.ndarray) for label in labels):
        raise ValueError("y holds lists: give one label for each row")
    missing = [k for k, label in enumerate(labels) if is_missing(label)]
    if missing:
        raise ValueError(f"y has no label in row {missing[0]} (Input y contains NaN): drop such rows")
    if len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError("y mixes strings with other types: use labels of one type")


def _counted_classes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes and sorted classes of whole numbers that lie close together: counting is quicker than sorting."""
    low = int(y.min())
    place = y.astype(np.int64) - low
    there = np.bincount(place) > 0
    return (np.cumsum(there) - 1)[place], (np.flatnonzero(there) + low).astype(y.dtype)


def check_numbers(y: Any, n: int) -> np.ndarray:
    """The numbers (n,) to predict."""
    if y is None:
        raise ValueError("y is None: a regressor requires y to be passed, but the target y is None")
    if np.ma.is_masked(y):
        raise ValueError("y has masked values: drop these rows")
    if getattr(y, "dtype", None) is not None and np.iscomplexobj(y):
        raise ValueError("y holds complex numbers. Complex data not supported: give its real part, or its modulus")
    y = column_or_1d(y, warn=True)
    if len(y) != n:
        raise ValueError(f"y has length {len(y)}, but X has {n} rows: inconsistent numbers of samples")
    if y.dtype.kind not in "buif":
        odd = [v for v in y.tolist() if not isinstance(v, Real | Decimal | np.number | None)]
        if y.dtype.kind != "O" or odd:
            shown = repr(odd[0] if odd else y.tolist()[0])
            raise ValueError(f"y holds {shown:.60}, which is no number: a regressor predicts numbers")
    try:
        y = y.astype(float)
    except OverflowError:
        raise ValueError("y holds numbers that are too large for a float: give it in larger units") from None
    bad = np.flatnonzero(~np.isfinite(y))
    if len(bad):
        raise ValueError(f"y holds {y[bad[0]]} at position {bad[0]} (Input y contains NaN or infinity): drop such rows")
    if np.max(np.abs(y), initial=0.0) > MAX_ENCODED:
        raise ValueError(f"y holds numbers of more than {MAX_ENCODED:g}: give it in larger units")
    return y


def check_cost(C: float, weight: np.ndarray, name: str = "C") -> np.ndarray:
    """Costs (n,) of rows, C (called `name`) times their weight; refuse what leaves the range of safe arithmetic."""
    with np.errstate(over="ignore", under="ignore"):
        cost = C * weight
    if not np.all((cost >= COSTS[0]) & (cost <= COSTS[1])):
        worst = cost[np.argmax(np.abs(np.log(np.maximum(cost, 1e-320))))]
        raise ValueError(
            f"{name}={C!r} times the weight of a row is {worst:.3g}: use {name} and sample_weight with products "
            f"between {COSTS[0]:g} and {COSTS[1]:g}"
        )
    return cost
