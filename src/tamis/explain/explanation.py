"""Explanation: every summand of some decisions, with names. No drawing, no model inside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from tamis.arrays import beside, is_tensor, to_numpy
from tamis.explain.html import explanation_html
from tamis.kernels.terms import SIMILAR

SPELLED = 3  # most features of a group that its name spells out
TIMES = " * "  # between the names of a pair


def part_name(features: Sequence[str]) -> str:
    """A name for the features that act through one kernel: of three or more, what they tell is which cases are similar.

    A large group is named after its ends.
    """
    if len(features) <= 2:
        return TIMES.join(features)
    named = features if len(features) <= SPELLED else [*features[:2], "...", features[-1]]
    return f"{SIMILAR} ({len(features)} features: {', '.join(named)})"


def part_names(parts: Sequence[Sequence[str]]) -> list[str]:
    """Names of the parts of one model; its only group of three or more features needs no list of them."""
    large = [len(set(part)) > 2 for part in parts]
    return [SIMILAR if group and sum(large) == 1 else part_name(part) for group, part in zip(large, parts, strict=True)]


def _plain(value: Any) -> Any:
    """A value that JSON knows: numbers that it does not know are None, anything else is text."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _in_memory(values: Any) -> np.ndarray:
    """An array of numpy from one that is lazy, or elsewhere."""
    values = values.compute() if hasattr(values, "compute") else values
    return to_numpy(values) if is_tensor(values) else np.asarray(values)


@dataclass(frozen=True, repr=False)
class Explanation:
    """Exact contributions of kept instances and kernels to decision values.

    Attributes
    ----------
    contributions : (rows, outputs, instances, kernels)
    base_value : (outputs,) the decision when nothing contributes
    decision : (rows, outputs)
    rows, outputs, instances, kernels : names along each axis
    features : for each kernel the names of the features it stands on
    """

    contributions: np.ndarray
    base_value: np.ndarray
    decision: np.ndarray
    rows: Sequence[Any]
    outputs: Sequence[Any]
    instances: Sequence[Any]
    kernels: Sequence[str]
    features: Sequence[tuple[str, ...]]

    def __repr__(self) -> str:
        rows, outputs, instances, kernels = self.contributions.shape
        return f"Explanation({rows} rows, {outputs} outputs, {instances} cases, {kernels} kernels)"

    def compute(self) -> Explanation:
        """The same with arrays of numpy in the place of lazy ones (of Dask) and of tensors."""
        contributions, decision = (_in_memory(part) for part in (self.contributions, self.decision))
        rows = self.rows if len(self.rows) == len(contributions) else range(len(contributions))
        return replace(self, contributions=contributions, decision=decision, rows=rows)

    def _computed(self, name: str) -> None:
        if not isinstance(self.contributions, np.ndarray):
            kind = type(self.contributions).__name__
            raise ValueError(f"{name} needs numbers in memory, and these are a {kind}: use .compute().{name}()")

    @property
    def by_instance(self) -> np.ndarray:
        """Contributions (rows, outputs, instances)."""
        return self.contributions.sum(axis=3)

    @property
    def by_kernel(self) -> np.ndarray:
        """Contributions (rows, outputs, kernels)."""
        return self.contributions.sum(axis=2)

    def _summed(self, member: np.ndarray) -> np.ndarray:
        """Contributions by kernel, summed over the kernels that each column of `member` marks."""
        by_kernel = self.by_kernel
        return by_kernel @ (beside(member, by_kernel) if is_tensor(by_kernel) else member)

    @property
    def feature_names(self) -> list[str]:
        """The features, each once, in the order of the kernels."""
        return list(dict.fromkeys(name for group in self.features for name in group))

    @property
    def by_feature(self) -> np.ndarray:
        """(rows, outputs, features); kernels of one feature are added up.

        A kernel on several features has no split by feature: use `by_part` then.
        """
        groups = [name for name, group in zip(self.kernels, self.features, strict=True) if len(group) > 1]
        if groups:
            raise ValueError(
                f"kernel {groups[0]!r} stands on several features and cannot be split between them: use by_part"
            )
        names = self.feature_names
        member = np.array([[group[0] == name for name in names] for group in self.features], dtype=float)
        return self._summed(member.reshape(len(self.kernels), len(names)))

    @property
    def parts(self) -> list[tuple[str, ...]]:
        """The features, or groups of features, that contribute together, in the order of the kernels."""
        return list(dict.fromkeys(self.features))

    @property
    def by_part(self) -> np.ndarray:
        """(rows, outputs, parts); kernels on the same features are added up."""
        parts = self.parts
        member = np.array([[group == part for part in parts] for group in self.features], dtype=float)
        return self._summed(member.reshape(len(self.kernels), len(parts)))

    @property
    def part_names(self) -> list[str]:
        """The names of the parts; a pair is called after its features."""
        return part_names(self.parts)

    def part_values(self, data: Any) -> np.ndarray:
        """The values of the parts in the explained rows (rows, parts), for showing beside the contributions.

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

    def to_dict(self) -> dict[str, list]:
        """One entry per summand, as columns: row, output, instance, kernel, contribution; base values included.

        All values are such as JSON knows: labels of other types, such as dates, become text.
        """
        self._computed("to_dict")
        return {name: [_plain(value) for value in column] for name, column in self._summands().items()}

    def _summands(self) -> dict[str, list]:
        """The columns of `to_dict` with labels as they are."""
        self._computed("to_frame")
        shape = self.contributions.shape
        place = np.indices(shape).reshape(4, -1)
        axes = [[axis[i] for i in index] for axis, index in zip(self._axes, place, strict=True)]
        columns = dict(zip(("row", "output", "instance", "kernel"), axes, strict=True))
        columns["contribution"] = self.contributions.ravel().tolist()
        for row, (output, base) in product(self.rows, zip(self.outputs, self.base_value, strict=True)):
            for name, value in zip(columns, (row, output, None, "base value", float(base)), strict=True):
                columns[name].append(value)
        return columns

    @property
    def _axes(self) -> tuple[Sequence[Any], ...]:
        return self.rows, self.outputs, self.instances, self.kernels

    def renamed(self, *, rows: Sequence[Any]) -> Explanation:
        """The same explanation with other names of its rows."""
        return replace(self, rows=rows)

    def to_frame(self) -> Any:
        """A long DataFrame of all summands: their sum over a row and output is the decision.

        pandas if it is installed, else polars.
        """
        columns = self._summands()
        try:
            import pandas
        except ImportError:
            pass
        else:
            labels = pandas.Series(columns.pop("instance"), dtype=object)  # integers stay integers beside None
            frame = pandas.DataFrame(columns)
            frame.insert(2, "instance", labels)
            return frame
        try:
            import polars
        except ImportError:
            raise ImportError("to_frame needs pandas or polars: pip install 'tamis[io]'") from None
        return polars.DataFrame(columns)

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
        self._computed("to_shap")
        values, base = self.by_part.transpose(0, 2, 1), np.tile(self.base_value, (len(self.rows), 1))
        single = len(self.outputs) == 1
        return shap.Explanation(
            values=values[..., 0] if single else values,
            base_values=base[:, 0] if single else base,
            data=None if data is None else self.part_values(data),
            feature_names=self.part_names,
            output_names=None if single else [str(output) for output in self.outputs],
        )

    def _repr_html_(self) -> str | None:
        return explanation_html(self) if isinstance(self.contributions, np.ndarray) else None
