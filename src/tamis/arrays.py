"""The array namespace of an input: the only place that knows which array libraries exist."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

Array = Any


def namespace(*arrays: Array) -> Any:
    """Return the array-API namespace shared by `arrays`."""
    return array_namespace(*arrays)
