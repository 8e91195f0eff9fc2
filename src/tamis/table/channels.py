"""A set of channels as one table: views of the same samples, some of which a sample may lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.kernels.base import Kernel
from tamis.kernels.precomputed import presence_mask
from tamis.kernels.recipes import Recipe, per_group
from tamis.table.table import is_frame


def channels(
    views: Mapping[str, Any] | Sequence[Any], present: Any = None, kernel: Kernel | None = None
) -> tuple[Any, Recipe]:
    """Put the views of n samples side by side, with one kernel for each: ``clf(kernels=kernels).fit(X, y)``.

    Parameters
    ----------
    views : {name: view}, or a list of views, which are then "channel 0", "channel 1" ... A view is an array (n, c) or
        (n,), or a DataFrame; NaN is a missing cell.
    present : (n, len(views)) booleans, or a dict from names to (n,), which samples have which channel; None for all
        Whatever stands in the cells of a channel that a sample lacks is left out of X.
    kernel : of every channel, as `tamis.per_group` takes it; None for a Gaussian

    Returns
    -------
    X : the views side by side: an array if all of them are arrays, else a DataFrame like those among them. Its
        columns keep their names where these are distinct, else they are called "view: column". The cells of absent
        channels are missing.
    kernels : ``per_group({name: columns})``, for the parameter `kernels` of any classifier

    Notes
    -----
    A row of X carries its absences along, through folds, searches and pipelines. To `AbsentMKLClassifier` a sample
    lacks a channel where any cell of it is missing, to other classifiers where all are; the kernel is zero there, with
    the sample itself as well.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis import SimpleMKLClassifier, channels
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> blood, image = rng.normal(size=(60, 3)) + y[:, None], rng.normal(size=(60, 5)) - y[:, None]
    >>> had = np.arange(60) % 3 > 0  # one sample in three has no image
    >>> X, kernels = channels({"blood": blood, "image": image}, present={"image": had})
    >>> clf = SimpleMKLClassifier(kernels=kernels, calibration=None).fit(X, y)
    >>> list(clf.explain(X[:1]).kernels)
    ['blood', 'image']
    """
    named = _named(views)
    blocks = {name: _block(view, name) for name, view in named.items()}
    sizes = {name: len(block) for name, block in blocks.items()}
    first, n = next(iter(sizes.items()))
    for name, size in sizes.items():
        if size != n:
            raise ValueError(
                f"view {name!r} has {size} rows, but view {first!r} has {n}: all views must be of the same samples, "
                "with a row of NaN, or `present`, for one that lacks a view"
            )
    mask = dict(zip(blocks, presence_mask(present, list(blocks), n).T, strict=True))
    if not any(is_frame(block) for block in blocks.values()):
        return _arrays(blocks, mask, kernel)
    return _frames(blocks, mask, kernel)


def _named(views: Any) -> dict[str, Any]:
    """The views with their names."""
    if isinstance(views, list | tuple):
        views = {f"channel {k}": view for k, view in enumerate(views)}
    if not isinstance(views, Mapping) or not views or not all(type(name) is str for name in views):
        raise ValueError(
            f"views={views!r} must be a dict from names to arrays or DataFrames, or a list of them, with at least one"
        )
    return dict(views)


def _block(view: Any, name: str) -> Any:
    """A view as a frame, or as an array (n, c) of floats or objects."""
    if type(view).__name__ == "LazyFrame":
        raise ValueError(f"view {name!r} is a lazy frame: call .collect() first")
    if hasattr(view, "to_frame") and len(view.shape) == 1:
        view = view.to_frame(name=name)
    block: Any = view if is_frame(view) else _array(view, name)
    if not block.shape[0] or not block.shape[1]:
        raise ValueError(f"view {name!r} is empty, its shape is {block.shape}: give rows and columns, or leave it out")
    if is_frame(block):
        twice = [c for c, count in Counter(map(str, block.columns)).items() if count > 1]
        if twice:
            raise ValueError(f"view {name!r} has two columns named {twice[0]!r}: rename one")
    return block


def _array(view: Any, name: str) -> np.ndarray:
    masked = isinstance(view, np.ma.MaskedArray)
    try:
        array = np.ma.filled(view.astype(float), np.nan) if masked else np.asarray(view)
    except (TypeError, ValueError):
        raise ValueError(f"view {name!r} is not an array (n, c) or (n,) of numbers or text, nor a DataFrame") from None
    if array.ndim not in (1, 2) or array.dtype.kind not in "biufOUS":
        raise ValueError(
            f"view {name!r} has the shape {array.shape} and the type {array.dtype}: give numbers or text as an array "
            "(n, c) or (n,), or a DataFrame"
        )
    array = array[:, None] if array.ndim == 1 else array
    return array.astype({"f": array.dtype, "O": object, "U": object, "S": object}.get(array.dtype.kind, float))


def _arrays(blocks: dict[str, Any], mask: dict[str, np.ndarray], kernel: Kernel | None) -> tuple[np.ndarray, Recipe]:
    """One array, with the columns of each view by position."""
    groups, at = {}, 0
    for name, block in blocks.items():  # copies of what was given
        block[~mask[name]] = None if block.dtype == object else np.nan
        groups[name] = list(range(at, at + block.shape[1]))
        at += block.shape[1]
    return np.hstack(list(blocks.values())), per_group(groups, kernel)


def _frames(blocks: dict[str, Any], mask: dict[str, np.ndarray], kernel: Kernel | None) -> tuple[Any, Recipe]:
    """One DataFrame, with the columns of each view by name."""
    like = _checked_frames({name: block for name, block in blocks.items() if is_frame(block)})
    names = {name: _column_names(block, name, "") for name, block in blocks.items()}
    if _repeated(names):
        names = {name: _column_names(block, name, f"{name}: ") for name, block in blocks.items()}
    twice = _repeated(names)
    if twice:
        raise ValueError(f"two columns of views {list(names)} would be named {twice!r}: rename one")
    table: dict[str, Any] = {}
    for name, block in blocks.items():
        for j, column in enumerate(names[name]):
            table[column] = _blanked(_column(block, j), mask[name])
    return type(like)(table), per_group(names, kernel)


def _checked_frames(frames: dict[str, Any]) -> Any:
    """The first of several frames, if the others are of the same kind and index."""
    first, like = next(iter(frames.items()))
    for name, frame in frames.items():
        if hasattr(frame, "iloc") != hasattr(like, "iloc"):
            raise ValueError(
                f"view {name!r} is a {type(frame).__module__.split('.')[0]} frame, but view {first!r} is a "
                f"{type(like).__module__.split('.')[0]} frame: convert one of them"
            )
        if hasattr(like, "iloc") and not frame.index.equals(like.index):
            raise ValueError(
                f"view {name!r} has other index labels than view {first!r}: bring the rows into one order and reindex "
                "them, or call .reset_index(drop=True) if they are in one order already"
            )
    return like


def _column_names(block: Any, name: str, prefix: str) -> list[str]:
    """Names of the columns of one view; those of an array are made of the view's."""
    if is_frame(block):
        return [name if c == name else f"{prefix}{c}" for c in block.columns]
    return [name] if block.shape[1] == 1 else [f"{name}: {j}" for j in range(block.shape[1])]


def _repeated(names: dict[str, list[str]]) -> str | None:
    """A name that occurs twice."""
    counts = Counter(column for columns in names.values() for column in columns)
    return next((column for column, count in counts.items() if count > 1), None)


def _column(block: Any, j: int) -> Any:
    """One column as a series of the frame, or as an array."""
    return block.iloc[:, j] if hasattr(block, "iloc") else block[:, j]


def _blanked(column: Any, present: np.ndarray) -> Any:
    """The column with its cells missing where the view is absent."""
    if present.all():
        return column
    if isinstance(column, np.ndarray):
        return np.where(present, column, np.array(None if column.dtype == object else np.nan))
    if hasattr(column, "iloc"):
        return column.where(present)
    return column.zip_with(type(column)(present), column.clear(len(column)))
