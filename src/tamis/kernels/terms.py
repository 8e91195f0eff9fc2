"""Channels for a model that people can look at: lines, shapes, pairs, and the similarity of cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Categorical, Gaussian, Kernel
from tamis.kernels.composed import Mixture, Tensor
from tamis.kernels.recipes import Sample
from tamis.kernels.stacks.base import DenseStack

SIMILAR = "similar cases"  # the name of what all kept features say together
LINE = 6.0  # width of a kernel that is nearly linear over standardised values
WIDTHS = (3.0, 1.0, 1.0 / 3.0)  # of shapes
CASES = (2.0**0.5, 0.5**0.5)  # of the similarity of cases, times the root of the number of features


@dataclass(frozen=True)
class Terms:
    """The channels of a model on some columns.

    Attributes
    ----------
    bank : shapes, then the similarity of cases, then lines, then pairs
    kinds : positions of the channels of each kind; the shape of a category serves as its line too
    factors : {position of a pair: positions of the two shapes whose product it is}
    """

    bank: KernelBank
    kinds: dict[str, np.ndarray]
    factors: dict[int, tuple[int, int]]

    def values(self, Z: np.ndarray, instances: np.ndarray, channels: np.ndarray | None = None) -> np.ndarray:
        """Values (L, k, n) between instances and rows, of all or some channels; pairs as products of shapes."""
        wanted = np.arange(len(self.bank)) if channels is None else channels
        place = {int(channel): p for p, channel in enumerate(wanted)}
        pairs = {p: self.factors.get(c, (-1, -1)) for c, p in place.items()}
        made = {p: (place[a], place[b]) for p, (a, b) in pairs.items() if a in place and b in place}
        plain = [p for p in range(len(wanted)) if p not in made]
        out = np.empty((len(wanted), len(instances), len(Z)))
        if plain:
            out[plain] = DenseStack.evaluate(self.bank.take(wanted[plain]).channels, Z, instances).values
        for p, (a, b) in made.items():
            np.multiply(out[a], out[b], out=out[p])
        return out


def terms(sample: Sample, columns: Sequence[int], pairs: Sequence[tuple[int, int]] = ()) -> Terms:
    """Make the channels for some columns of a table, and for some pairs of them."""
    numbers = [place for place, c in enumerate(columns) if not sample.nominal[c]]
    codes = [place for place, c in enumerate(columns) if sample.nominal[c]]
    channels = [Channel(sample.names[c], _shape(sample, c), (c,)) for c in columns]
    channels += [_similarity(sample, columns)] if columns else []
    channels += [Channel(f"{sample.names[columns[p]]} (line)", Gaussian(LINE), (columns[p],)) for p in numbers]
    channels += [
        Channel(f"{sample.names[a]} * {sample.names[b]}", Tensor((_shape(sample, a), _shape(sample, b))), (a, b))
        for a, b in pairs
    ]
    f, last = len(columns), len(channels) - len(pairs)
    kinds = {
        "shape": np.arange(f),
        "cases": np.arange(f, min(f + 1, last)),
        "line": np.r_[np.arange(f + 1, last), np.array(codes, dtype=int)],
        "pair": np.arange(last, len(channels)),
    }
    place = {c: p for p, c in enumerate(columns)}
    factors = {int(p): (place[a], place[b]) for p, (a, b) in zip(kinds["pair"], pairs, strict=True)}
    return Terms(KernelBank(_renamed(channels)), kinds, factors)


def _shape(sample: Sample, column: int) -> Kernel:
    """What a column adds on its own, coarse and fine."""
    return Categorical() if sample.nominal[column] else Mixture(WIDTHS)


def _similarity(sample: Sample, columns: Sequence[int]) -> Channel:
    """How similar two rows are in all the columns."""
    members = list(columns)
    widths = tuple(float(width * np.sqrt(len(members))) for width in CASES)
    return Channel(SIMILAR, Mixture(widths, tuple(sample.mismatch[members].tolist())), tuple(members))


def _renamed(channels: Sequence[Channel]) -> tuple[Channel, ...]:
    """The same channels with distinct names: columns may be named like what is made of them."""
    taken: set[str] = set()
    out = []
    for channel in channels:
        name = channel.name
        while name in taken:
            name += "'"
        taken.add(name)
        out.append(replace(channel, name=name))
    return tuple(out)
