"""Explanations: every summand of some decisions, with names. No drawing, no model inside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tamis.arrays import beside, is_tensor, to_numpy
from tamis.kernels.composed import SIMILAR

PREDICTION = "prediction"  # the output of a regressor
MAX_SPELLED_FEATURES = 3  # of a group that its name lists
MAX_CHANNELS = 8  # absent ones that a sentence lists
TYPICAL_LEVELS = (0.05, 0.5, 0.95)  # quantiles of the contributions of a channel


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


def _in_memory(values: Any) -> np.ndarray:
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

    def _summed(self, groups: Sequence[tuple[str, ...]]) -> np.ndarray:
        """Contributions (rows, outputs, groups), summed over the kernels on each group of features."""
        by_kernel = self.by_kernel
        member = np.array([[group == own for group in groups] for own in self.features], dtype=float)
        member = member.reshape(len(self.kernels), len(groups))
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
        return self._summed([(name,) for name in self.feature_names])

    @property
    def parts(self) -> list[tuple[str, ...]]:
        """The features, or groups of features, that contribute together, in the order of the kernels."""
        return list(dict.fromkeys(self.features))

    @property
    def by_part(self) -> np.ndarray:
        """(rows, outputs, parts); kernels on the same features are added up."""
        return self._summed(self.parts)

    @property
    def part_names(self) -> list[str]:
        """The names of the parts; a pair is named after its features."""
        return part_names(self.parts)

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

    def to_dict(self) -> dict[str, list]:
        """One entry per summand, as columns: row, output, instance, kernel, contribution; base values included.

        All values are such as JSON knows: labels of other types, such as dates, become text.
        """
        self._computed("to_dict")
        columns = self._summands()
        return {
            name: [plain(str(value) if isinstance(value, tuple) else value) for value in column]
            for name, column in columns.items()
        }

    def _summands(self) -> dict[str, list]:
        """The columns of `to_dict` with labels as they are."""
        self._computed("to_frame")
        shape = self.contributions.shape
        place = np.indices(shape).reshape(4, -1)
        names = self.rows, self.outputs, self.instances, self.kernels
        axes = [[axis[i] for i in index] for axis, index in zip(names, place, strict=True)]
        columns = dict(zip(("row", "output", "instance", "kernel"), axes, strict=True))
        columns["contribution"] = self.contributions.ravel().tolist()
        for row, (output, base) in product(self.rows, zip(self.outputs, self.base_value, strict=True)):
            for name, value in zip(columns, (row, output, None, "base value", float(base)), strict=True):
                columns[name].append(value)
        return columns

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

    def _check_row(self, row: int) -> None:
        if not -len(self.rows) <= row < len(self.rows):
            raise ValueError(f"row={row!r} is not among the {len(self.rows)} explained rows, counted from 0")

    def _repr_html_(self) -> str | None:
        from tamis.explain.html import explanation_html

        return explanation_html(self) if isinstance(self.contributions, np.ndarray) else None


class PrototypeShare(NamedTuple):
    """The part of one prototype in the decision about one row.

    Attributes
    ----------
    prototype, label : its position and its class
    code : how much of it is in the row; None where the method has no codes
    contribution : to the decision, one number for each output
    samples : its training samples with their weights, the largest first
    """

    prototype: int
    label: Any
    code: float | None
    contribution: np.ndarray
    samples: list[tuple[Any, float]]


@dataclass(frozen=True, repr=False)
class PrototypeExplanation(Explanation):
    """An `Explanation` with the contributions of prototypes.

    Attributes
    ----------
    by_prototype : (rows, outputs, prototypes), which with the base value add up to the decision as well
    mixtures : (instances, prototypes), the weight of each training sample in each prototype
    labels : the class of each prototype
    codes : (rows, prototypes), or None
    and those of `Explanation`
    """

    by_prototype: np.ndarray
    mixtures: np.ndarray
    labels: Sequence[Any]
    codes: np.ndarray | None = None

    def __repr__(self) -> str:
        rows, outputs, instances, kernels = self.contributions.shape
        return (
            f"PrototypeExplanation({rows} rows, {outputs} outputs, {len(self.labels)} prototypes of {instances} cases, "
            f"{kernels} kernels)"
        )

    def prototypes_of(self, row: int = 0) -> list[PrototypeShare]:
        """The prototypes that contribute to a row, by its position among the explained ones; the largest first."""
        self._check_row(row)
        parts = self.by_prototype[row]
        used = np.flatnonzero(parts.any(axis=0))
        order = used[np.argsort(-np.abs(parts[:, used]).max(axis=0), kind="stable")].tolist()
        codes: list = [None] * len(self.labels) if self.codes is None else self.codes[row].tolist()
        return [PrototypeShare(j, self.labels[j], codes[j], parts[:, j], self._samples(j)) for j in order]

    def _samples(self, j: int) -> list[tuple[Any, float]]:
        weights = self.mixtures[:, j]
        order = np.argsort(-np.abs(weights), kind="stable")[: np.count_nonzero(weights)]
        return [(self.instances[s], float(weights[s])) for s in order]


class ChannelShare(NamedTuple):
    """The part of one channel in the decision about one row.

    Attributes
    ----------
    channel : its name
    present : whether the row has it
    contribution : to the decision, one number for each output; zero where the channel is absent, unless the method
        fills it in
    typical : (outputs, 3) what it contributes to training samples that have it: the 5%, 50% and 95% quantiles
    """

    channel: str
    present: bool
    contribution: np.ndarray
    typical: np.ndarray


@dataclass(frozen=True, repr=False)
class ChannelExplanation(Explanation):
    """An `Explanation` with the channels that each row has.

    Attributes
    ----------
    present : boolean (rows, kernels)
    typical : (outputs, kernels, 3), the 5%, 50% and 95% quantiles of what a channel contributes to training samples
        that have it
    and those of `Explanation`
    """

    present: np.ndarray
    typical: np.ndarray

    def __repr__(self) -> str:
        lacking = np.count_nonzero(~self.present.all(axis=1))
        return f"{super().__repr__()[:-1]}, {lacking} rows lack channels, {np.count_nonzero(self.empty)} have none)"

    @property
    def empty(self) -> np.ndarray:
        """Mask (rows,) of those without any channel, decided by the base value or by what is filled in."""
        return np.logical_not(np.any(self.present, axis=1))

    @property
    def part_names(self) -> list[str]:
        """The names of the parts; a part with a single channel is named after it."""
        members = [[k for k, group in enumerate(self.features) if group == part] for part in self.parts]
        return [
            self.kernels[of[0]] if len(of) == 1 else name for of, name in zip(members, super().part_names, strict=True)
        ]

    def channels_of(self, row: int = 0) -> list[ChannelShare]:
        """The channels of a row, by its position among the explained ones; present channels first."""
        self._check_row(row)
        parts, here = self.by_kernel[row], self.present[row]
        size = np.where(here, np.abs(parts).max(axis=0), np.ptp(self.typical, axis=2).max(axis=0))
        order = np.lexsort([-size, ~here])
        return [ChannelShare(self.kernels[k], bool(here[k]), parts[:, k], self.typical[:, k]) for k in order]

    def _summands(self) -> dict[str, list]:
        """The columns of every explanation, and `present`: whether the row has the kernel."""
        columns = super()._summands()
        here = np.broadcast_to(self.present[:, None, None, :], self.contributions.shape).ravel().tolist()
        columns["present"] = here + [True] * (len(columns["row"]) - len(here))
        return columns

    def absence(self, row: int = 0, output: int = 0) -> str:
        """List the channels that a row lacks, with what they add to the score of an output in rows that have them."""
        if self.empty[row]:
            only = "" if self.contributions[row].any() else ": the base value alone decides"
            return f"everything that the model uses{only}"
        ends = self.typical[output]
        order = np.argsort(-np.ptp(ends, axis=1), kind="stable")
        gone = [
            f"{self.kernels[k]} ({ends[k, 0]:+.2g} to {ends[k, 2]:+.2g})" for k in order if not self.present[row, k]
        ]
        more = [f"and {len(gone) - MAX_CHANNELS} more"] if len(gone) > MAX_CHANNELS else []
        return "; ".join([*gone[:MAX_CHANNELS], *more])

    def _repr_html_(self) -> str | None:
        from tamis.explain.html import absence_html

        html = super()._repr_html_()
        return None if html is None else html + absence_html(self)


def typical_range(by_kernel: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Quantiles (outputs, kernels, 3) of contributions (rows, outputs, kernels) over the rows that have the kernel.

    Zero for a kernel that no row has.
    """
    out = np.zeros((*by_kernel.shape[1:], len(TYPICAL_LEVELS)))
    for k, here in enumerate(present.T):
        if here.any():
            out[:, k] = np.quantile(by_kernel[here, :, k], TYPICAL_LEVELS, axis=0).T
    return out
