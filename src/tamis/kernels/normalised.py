"""Kernels scaled to one between a row and itself: ``k(s, t) / sqrt(k(s, s) k(t, t))``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.codec import stored
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Kernel, has_unit_norms, is_by_position, is_positive, presence_of
from tamis.kernels.stacks.base import DIAGONAL

ROUNDING = 1e-9  # difference to one that counts as rounding


@stored
@dataclass(frozen=True)
class Normalised:
    """A kernel scaled to unit norm; a row of norm zero stays zero."""

    kernel: Kernel

    @property
    def positive(self) -> bool:
        return is_positive(self.kernel)

    @property
    def positions(self) -> bool:
        return is_by_position(self.kernel)

    def __call__(self, S: Array, T: Array) -> Array:
        left = inverse_roots(diagonal(self.kernel, S))
        right = left if S is T else inverse_roots(diagonal(self.kernel, T))
        return np.asarray(self.kernel(S, T)) * left[:, None] * right[None, :]

    def presence(self, S: Array) -> np.ndarray:
        """Mask (m,) of the rows that are there for the kernel below."""
        return presence_of(self.kernel, S)


def diagonal(kernel: Kernel, S: np.ndarray) -> np.ndarray:
    """k(s, s) for every row."""
    blocks = [S[start : start + DIAGONAL] for start in range(0, len(S), DIAGONAL)]
    return np.concatenate([np.empty(0), *(np.diagonal(np.asarray(kernel(block, block))) for block in blocks)])


def inverse_roots(values: np.ndarray) -> np.ndarray:
    """``1 / sqrt(value)``, zero where that is not positive."""
    return np.where(values > 0, 1.0 / np.sqrt(np.where(values > 0, values, 1.0)), 0.0)


def unit_bank(bank: KernelBank, Z: np.ndarray) -> tuple[KernelBank, list[str]]:
    """The bank with kernels of unit diagonal on the rows Z (zero where absent), and the names of those it scaled."""
    channels, scaled = [], []
    for channel in bank.channels:
        new = channel if has_unit_norms(channel.kernel) else _unit(channel, Z)
        channels.append(new)
        scaled += [] if new is channel else [channel.name]
    return KernelBank(tuple(channels)) if scaled else bank, scaled


def _unit(channel: Channel, Z: np.ndarray) -> Channel:
    own = diagonal(channel.kernel, Z[:, list(channel.columns)])
    if np.all((np.abs(own - 1.0) <= ROUNDING) | (own == 0.0)):
        return channel
    if own.min() < 0:
        raise ValueError(
            f"kernels: {channel.name!r} is not positive semi-definite: k(x, x) is {own.min():.3g} for a training row; "
            "use another kernel, or repair it with repaired(...)"
        )
    kernel: Any = channel.kernel
    return replace(channel, kernel=kernel.normalised() if hasattr(kernel, "normalised") else Normalised(kernel))
