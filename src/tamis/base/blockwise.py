"""Predictions of rows that come in blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from sklearn.utils.validation import check_is_fitted

from tamis.table.sources.source import each_block


def blockwise(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a method of a fitted estimator, which gives one entry per row of X, also take rows in blocks.

    The path of a Parquet file or folder (of which only the kept features are read) and a large memory map give one
    array, a Dask array or dataframe gives a lazy one.
    """

    @wraps(method)
    def over_blocks(self: Any, X: Any) -> Any:
        check_is_fitted(self)
        found = each_block(partial(method, self), X, self.model_.encoder.names)
        return method(self, X) if found is None else found

    return over_blocks
