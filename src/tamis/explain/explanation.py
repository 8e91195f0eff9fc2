"""Explanations: every summand of some decisions, with names. No drawing, no model inside.

Those of models of kernels are in `kernel_explanation.py`, those of curves, pairs and cases in
`additive_explanation.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from tamis.arrays import is_tensor, to_numpy

SIMILAR = "similar cases"  # the name of what kept cases add, or all kept features together
PREDICTION = "prediction"  # the output of a regressor
MAX_SPELLED_FEATURES = 3  # of a group that its name lists


def part_name(features: Sequence[str]) -> str:
    """Name the features that act through one kernel; three or more compare a row with similar cases."""
    if len(features) <= 2:
        return " * ".join(features)
    named = features if len(features) <= MAX_SPELLED_FEATURES else [*features[:2], "...", features[-1]]
    return f"{SIMILAR} ({len(features)} features: {', '.join(named)})"


def part_names(parts: Sequence[Sequence[str]]) -> list[str]:
    """Names of the parts of one model; its only group of three or more features needs no list of them."""
    large = [len(set(part)) > 2 for part in parts]
    return [SIMILAR if group and sum(large) == 1 else part_name(part) for group, part in zip(large, parts, strict=True)]


def plain(value: Any) -> Any:
    """Nested dicts, lists, strings, numbers and None, as JSON has them; numbers that are not finite are None."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def in_memory(values: Any) -> np.ndarray:
    """An array of numpy from one that is lazy, or elsewhere."""
    values = values.compute() if hasattr(values, "compute") else values
    return to_numpy(values) if is_tensor(values) else np.asarray(values)


@dataclass(frozen=True)
class Kept:
    """What a model keeps of one kind, features or cases, and how important each is.

    Attributes
    ----------
    names : of the kept ones, the p columns of the arrays
    importance : (outputs, p) signed percentages, or None where the method has no such factors
    variation : (outputs, p) shares in the variation of the decision, in per cent
    """

    names: Sequence[Any]
    importance: np.ndarray | None
    variation: np.ndarray

    def __len__(self) -> int:
        return len(self.names)

    @property
    def order(self) -> np.ndarray:
        """The positions of the kept ones, the largest share of variation over all outputs first."""
        return np.argsort(-self.variation.sum(axis=0), kind="stable")


@dataclass(frozen=True, repr=False)
class Explanation(ABC):
    """Decisions as exact sums of contributions.

    Attributes
    ----------
    base_value : (outputs,) the decision when nothing contributes
    decision : (rows, outputs)
    rows, outputs, instances : names of the explained rows, of what the decisions are about, and of the kept instances
    """

    base_value: np.ndarray
    decision: np.ndarray
    rows: Sequence[Any]
    outputs: Sequence[Any]
    instances: Sequence[Any]

    # ------------------------------------------------------------------ what is added up

    @property
    @abstractmethod
    def parts(self) -> list[tuple[str, ...]]:
        """The features, or groups of features, that contribute together."""

    @property
    @abstractmethod
    def part_names(self) -> list[str]:
        """The names of the parts; a pair is named after its features."""

    @property
    @abstractmethod
    def by_part(self) -> np.ndarray:
        """Contributions (rows, outputs, parts), which with the base value add up to the decision."""

    @property
    @abstractmethod
    def by_instance(self) -> np.ndarray:
        """Contributions (rows, outputs, instances)."""

    @property
    def feature_names(self) -> list[str]:
        """The features, each once, in the order of the parts."""
        return list(dict.fromkeys(name for part in self.parts for name in part))

    # ------------------------------------------------------------------ arrays that are lazy or elsewhere

    @property
    @abstractmethod
    def _arrays(self) -> tuple[str, ...]:
        """The fields with one entry per row."""

    def compute(self) -> Self:
        """The same with arrays of numpy in the place of lazy ones (of Dask) and of tensors."""
        arrays: dict[str, Any] = {name: in_memory(getattr(self, name)) for name in self._arrays}
        n = len(arrays["decision"])
        return replace(self, rows=self.rows if len(self.rows) == n else range(n), **arrays)

    @property
    def is_in_memory(self) -> bool:
        """Whether the numbers are arrays of numpy."""
        return isinstance(self.decision, np.ndarray)

    def _check_in_memory(self, name: str) -> None:
        if not self.is_in_memory:
            kind = type(self.decision).__name__
            raise ValueError(f"{name} needs numbers in memory, and these are a {kind}: use .compute().{name}()")

    # ------------------------------------------------------------------ tables

    @abstractmethod
    def _columns(self) -> dict[str, list]:
        """The columns of `to_frame`, with labels as they are."""

    def to_dict(self) -> dict[str, list]:
        """The columns of `to_frame` as lists.

        All values are such as JSON knows: labels of other types, such as dates, become text.
        """
        self._check_in_memory("to_dict")
        columns = self._columns()
        return {
            name: [plain(str(value) if isinstance(value, tuple) else value) for value in column]
            for name, column in columns.items()
        }

    def to_frame(self) -> Any:
        """A long DataFrame with one line per summand: their sum over a row and output is the decision.

        pandas if it is installed, else polars.
        """
        self._check_in_memory("to_frame")
        columns = self._columns()
        try:
            import pandas
        except ImportError:
            pass
        else:  # integers stay integers beside None
            mixed = {name for name, values in columns.items() if any(value is None for value in values)}
            return pandas.DataFrame(
                {name: pandas.Series(v, dtype=object if name in mixed else None) for name, v in columns.items()}
            )
        try:
            import polars
        except ImportError:
            raise ImportError("to_frame needs pandas or polars: pip install 'tamis[io]'") from None
        return polars.DataFrame(columns)

    def part_values(self, data: Any) -> np.ndarray:
        """The values of the parts in the explained rows (rows, parts), to show with the contributions.

        Parameters
        ----------
        data : DataFrame or dict {name: values} that has the features of the parts, or an array of shape
            (rows, parts). A group of features has no single value: NaN.
        """
        shape = len(self.rows), len(self.parts)
        if isinstance(data, Mapping) or hasattr(data, "columns"):
            columns = [data[part[0]] if len(part) == 1 else [np.nan] * shape[0] for part in self.parts]
            data = np.empty(shape, dtype=object)
            for k, column in enumerate(columns):
                data[:, k] = np.asarray(column, dtype=object)
        cells = np.asarray(data)
        if cells.shape != shape:
            raise ValueError(f"data has shape {cells.shape} and the explanation has {shape} rows and parts")
        numeric = all(isinstance(cell, int | float | np.number) for cell in cells.ravel())
        return cells.astype(float) if numeric else cells

    def to_shap(self, data: Any = None) -> Any:
        """A `shap.Explanation` of the contributions by part, for the plots of that package.

        They are the exact parts of the decision, not Shapley values estimated by sampling: base value and
        contributions add up to the decision.

        Parameters
        ----------
        data : values of the explained rows, as in `part_values`; None: the plots show none

        Returns
        -------
        shap.Explanation with values of shape (rows, parts), or (rows, parts, outputs) for several outputs
        """
        try:
            import shap
        except ImportError:
            raise ImportError("to_shap needs shap: pip install shap") from None
        self._check_in_memory("to_shap")
        values, base = self.by_part.transpose(0, 2, 1), np.tile(self.base_value, (len(self.rows), 1))
        single = len(self.outputs) == 1
        return shap.Explanation(
            values=values[..., 0] if single else values,
            base_values=base[:, 0] if single else base,
            data=None if data is None else self.part_values(data),
            feature_names=self.part_names,
            output_names=None if single else [str(output) for output in self.outputs],
        )

    def renamed(self, *, rows: Sequence[Any]) -> Self:
        """The same explanation with other names of its rows."""
        return replace(self, rows=rows)

    def _check_row(self, row: int) -> None:
        if not -len(self.rows) <= row < len(self.rows):
            raise ValueError(f"row={row!r} is not among the {len(self.rows)} explained rows, counted from 0")

    def _repr_html_(self) -> str | None:
        from tamis.explain.html import explanation_html

        return explanation_html(self) if self.is_in_memory else None
