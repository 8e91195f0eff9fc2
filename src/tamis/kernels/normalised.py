"""Banks of kernels of unit diagonal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import diagonal

ROUNDING = 1e-9  # difference to one that counts as rounding


def unit_bank(bank: KernelBank, Z: np.ndarray) -> tuple[KernelBank, list[str]]:
    """The bank with kernels of unit diagonal on the rows Z (zero where absent), and the names of those it scaled."""
    channels, scaled = [], []
    for channel in bank.channels:
        new = channel if channel.kernel.unit else _unit(channel, Z)
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
    return replace(channel, kernel=channel.kernel.normalised())
