"""Frozen dataclasses that hold arrays, with equality and hash by value."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np


class HoldsArrays:
    """Base of a frozen dataclass with arrays among its fields, declared with ``eq=False``.

    Two objects are equal where all fields are (NaN equals NaN). The arrays are made read-only, so that a
    copy may be the object itself: cloning an estimator does not copy a stack of kernels.
    """

    def __post_init__(self) -> None:
        for name, value in self._held():
            if isinstance(value, np.ndarray):
                view = value.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def _held(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(a, getattr(other, name)) for name, a in self._held())

    def __hash__(self) -> int:
        parts = (value.shape if isinstance(value, np.ndarray) else value for _, value in self._held())
        return hash((type(self).__name__, *parts))

    def __deepcopy__(self, memo: dict) -> HoldsArrays:
        return self


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=True)
    return type(a) is type(b) and a == b
