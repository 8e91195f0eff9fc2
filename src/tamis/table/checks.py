"""Checks of parameters and labels: each raises a ValueError that names the parameter, the value and the fix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from tamis.optim.penalties import PENALTIES, Penalty

WIDTHS = (1e-6, 1e6)  # of kernels, in units of the scaled features
THETAS = (1e-12, 1e12)  # tightness of penalties
COSTS = (1e-30, 1e30)  # of rows
LARGEST = 1e140  # modulus of an encoded number


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
    if np.max(np.abs(y), initial=0.0) > LARGEST:
        raise ValueError(f"y holds numbers of more than {LARGEST:g}: give it in larger units")
    return y


def is_missing(v: Any) -> bool:
    """Whether a cell is None, NaN or pandas' NA or NaT."""
    return v is None or type(v).__name__ in ("NAType", "NaTType") or (isinstance(v, float) and v != v)


def check_names(names: Iterable[Any]) -> None:
    """Refuse two columns of one name."""
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"X has two columns named {name!r}: rename one, so that explanations are not ambiguous")
        seen.add(name)


def places(names: Sequence[str]) -> dict[str, int]:
    """The first position of each name."""
    return {name: k for k, name in reversed(list(enumerate(names)))}


def resolve_columns(choice: Any, names: list[str]) -> list[int] | None:
    """Positions of the columns in `choice` (names, positions or a boolean mask); None for "auto"."""
    check_columns(choice)
    if isinstance(choice, str):
        return None
    chosen = [c.item() if isinstance(c, np.generic) else c for c in ([] if choice is None else choice)]
    if chosen and all(isinstance(c, bool) for c in chosen):
        if len(chosen) != len(names):
            raise ValueError(f"categorical_features is a mask of length {len(chosen)}, but X has {len(names)} columns")
        return np.flatnonzero(chosen).tolist()
    place = places(names)
    out = []
    for c in chosen:
        if isinstance(c, str) and c in place:
            out.append(place[c])
        elif isinstance(c, int) and -len(names) <= c < len(names):
            out.append(c % len(names))
        else:
            raise ValueError(f"categorical_features names {c!r}, which X does not have: its columns are {names}")
    return out


def check_length(name: str, values: Any, n: int) -> None:
    """Refuse what does not have one entry per row; None is fine."""
    if values is not None and len(values) != n:
        raise ValueError(f"{name} has length {len(values)}, expected {n}: one label per row")


def check_choice(name: str, value: Any, choices: tuple) -> None:
    """Refuse a value that is not one of the choices."""
    if not any(value is c or (isinstance(value, str) and value == c) for c in choices):
        raise ValueError(f"{name}={value!r} is unknown: use one of {', '.join(map(repr, choices))}")


def check_integer(name: str, value: Any, least: int) -> None:
    """Refuse what is not an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name}={value!r} must be an integer of at least {least}")


def check_jobs(n_jobs: Any) -> None:
    """Refuse what is no number of processes."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise ValueError(f"n_jobs={n_jobs!r} must be a number of processes, -1 for all cores, or None for one")


def check_seed(random_state: Any) -> None:
    """Refuse what is no seed."""
    number = isinstance(random_state, int | np.integer)
    if number and not 0 <= random_state < 2**32:
        raise ValueError(f"random_state={random_state!r} must be between 0 and 2**32 - 1")
    if not number and random_state is not None and not hasattr(random_state, "randint"):
        raise ValueError(f"random_state={random_state!r} must be an integer, a numpy RandomState or None")


def check_number(name: str, value: Any, least: float, most: float = np.inf, *, strict: bool = False) -> None:
    """Refuse what is not a finite number of at least (or above) `least` and of at most `most`."""
    good = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
    if not good or not least <= value <= most or (strict and value == least):
        end = f" and at most {most:g}" if most < np.inf else ""
        raise ValueError(
            f"{name}={value!r} must be a finite number {'above' if strict else 'of at least'} {least}{end}"
        )


def check_columns(choice: Any) -> None:
    """Refuse what names no columns; whether X has them is seen with the data."""
    if isinstance(choice, str):
        if choice != "auto":
            raise ValueError(f"categorical_features={choice!r} is unknown: use 'auto' or a list of columns")
    elif choice is not None and not hasattr(choice, "__iter__"):
        raise ValueError(f"categorical_features={choice!r} must be 'auto' or a list of columns")


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


def check_range(Z: np.ndarray, names: Any) -> None:
    """Refuse encoded numbers whose squares would leave the range of floats."""
    if Z.size and (large := np.nan_to_num(np.abs(Z)).max(axis=0)).max() > LARGEST:
        column = int(np.argmax(large))
        raise ValueError(
            f"X holds {large[column]:.3g} in column {names[column]!r}, too large to be squared: use "
            "scaling='standard', or other units"
        )


def check_bandwidth(bandwidth: Any, n_features: int | None = None) -> float | str | np.ndarray:
    """A positive number, "median", or one positive number per feature, of any number of them if that is not known."""
    if isinstance(bandwidth, str):
        check_choice("bandwidth", bandwidth, ("median",))
        return bandwidth
    widths = np.asarray(bandwidth)
    if widths.ndim == 0:
        check_number("bandwidth", bandwidth, 0.0, strict=True)
    elif n_features is not None and widths.shape != (n_features,):
        raise ValueError(
            f"bandwidth has shape {widths.shape}, but X has {n_features} features: "
            f"give one number, 'median', or an array of shape ({n_features},)"
        )
    if widths.dtype.kind not in "fiu" or not np.all(np.isfinite(widths)) or np.any(widths <= 0):
        raise ValueError("bandwidth holds values that are not positive and finite: every width must be above 0")
    if np.any(widths < WIDTHS[0]) or np.any(widths > WIDTHS[1]):
        raise ValueError(f"bandwidth={bandwidth!r} is out of range: use widths between {WIDTHS[0]} and {WIDTHS[1]}")
    return float(bandwidth) if widths.ndim == 0 else widths.astype(float)


def check_penalty(penalty: Any, theta: float, choices: tuple[str, ...]) -> Penalty:
    """The penalty that the parameters name."""
    if isinstance(penalty, Penalty):
        return penalty
    check_choice("penalty", penalty, choices)
    check_number("theta", theta, 0.0, strict=True)
    if not THETAS[0] <= theta <= THETAS[1]:
        raise ValueError(f"theta={theta!r} is out of range: use a number between {THETAS[0]:g} and {THETAS[1]:g}")
    return PENALTIES[penalty](float(theta))


def check_values(name: str, values: Any) -> None:
    """Refuse what is not a sequence of values to choose among."""
    if isinstance(values, str) or not hasattr(values, "__len__") or not len(values):
        raise ValueError(f"{name}={values!r} must be a non-empty sequence of values to choose among")


def check_cv(cv: Any) -> None:
    """Refuse what does not say how to make folds; None is fine."""
    if isinstance(cv, Integral):
        check_integer("cv", cv, 2)
    elif cv is not None and (isinstance(cv, str) or not (hasattr(cv, "split") or hasattr(cv, "__iter__"))):
        raise ValueError(f"cv={cv!r} must be an integer, a splitter or a sequence of (train, test) positions")
