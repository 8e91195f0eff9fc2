"""Explanations of kernel models: contributions of kept instances and kernels, of prototypes and of channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tamis.arrays import beside, is_tensor
from tamis.explain.explanation import Explanation, part_names

MAX_CHANNELS = 8  # absent ones that a sentence lists
TYPICAL_LEVELS = (0.05, 0.5, 0.95)  # quantiles of the contributions of a channel


@dataclass(frozen=True, repr=False)
class KernelExplanation(Explanation):
    """Exact contributions of kept instances and kernels to decision values.

    Attributes
    ----------
    contributions : (rows, outputs, instances, kernels)
    kernels : their names
    features : for each kernel the names of the features it stands on
    and those of `Explanation`
    """

    contributions: np.ndarray
    kernels: Sequence[str]
    features: Sequence[tuple[str, ...]]

    def __repr__(self) -> str:
        rows, outputs, instances, kernels = self.contributions.shape
        return f"{type(self).__name__}({rows} rows, {outputs} outputs, {instances} cases, {kernels} kernels)"

    @property
    def _arrays(self) -> tuple[str, ...]:
        return "decision", "contributions"

    @property
    def by_instance(self) -> np.ndarray:
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
        return list(dict.fromkeys(self.features))

    @property
    def by_part(self) -> np.ndarray:
        return self._summed(self.parts)

    @property
    def part_names(self) -> list[str]:
        return part_names(self.parts)

    def _columns(self) -> dict[str, list]:
        """Columns row, output, instance, kernel, contribution; base values included."""
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
class PrototypeExplanation(KernelExplanation):
    """A `KernelExplanation` with the contributions of prototypes.

    Attributes
    ----------
    by_prototype : (rows, outputs, prototypes), which with the base value add up to the decision as well
    mixtures : (instances, prototypes), the weight of each training sample in each prototype
    labels : the class of each prototype
    codes : (rows, prototypes), or None
    and those of `KernelExplanation`
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
class ChannelExplanation(KernelExplanation):
    """A `KernelExplanation` with the channels that each row has.

    Attributes
    ----------
    present : boolean (rows, kernels)
    typical : (outputs, kernels, 3), the 5%, 50% and 95% quantiles of what a channel contributes to training samples
        that have it
    and those of `KernelExplanation`
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

    def _columns(self) -> dict[str, list]:
        """The columns of every explanation, and `present`: whether the row has the kernel."""
        columns = super()._columns()
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
