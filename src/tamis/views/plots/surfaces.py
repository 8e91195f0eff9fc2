"""SurfaceDisplay: what a pair of features adds to the decision, besides what each adds alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.base import kept
from tamis.base.estimator import KernelEstimator
from tamis.views.plots.drawing import PLAIN, Display, added, cell_texts, label

COLUMNS = 3  # panels side by side
DARK = 0.6  # share of the largest value from which a cell is too dark for black letters


@dataclass(frozen=True)
class Direction:
    """One of the two features.

    Attributes
    ----------
    name : of the feature
    grid : (g,) its values; an object array of levels for a category
    cases : (k,) its values in the kept cases
    data : (n,) its values in some rows; empty if there are none
    """

    name: str
    grid: np.ndarray
    cases: np.ndarray
    data: np.ndarray

    @property
    def levels(self) -> bool:
        """Whether the values stand side by side with a name each: a category, or a number that never changes."""
        return self.grid.dtype == object or len(set(self.grid.tolist())) == 1

    @property
    def spots(self) -> np.ndarray:
        """Places (g,) of the values along the axis."""
        return np.arange(len(self.grid), dtype=float) if self.levels else self.grid

    @property
    def edges(self) -> np.ndarray:
        """Ends (g + 1,) of the cells around the values."""
        spots = self.spots
        middles = (spots[1:] + spots[:-1]) / 2
        return np.r_[-0.5, middles, len(spots) - 0.5] if self.levels else np.r_[spots[0], middles, spots[-1]]

    def places(self, values: np.ndarray) -> np.ndarray:
        """Where values stand along the axis, those beyond the range at its ends; NaN for missing and unknown ones."""
        if not self.levels:
            return np.clip(values.astype(float), self.grid[0], self.grid[-1])
        spot = {level: float(k) for k, level in enumerate(self.grid.tolist())}
        return np.array([spot.get(value, np.nan) for value in values.tolist()])


class SurfaceDisplay(Display):
    """A heat map of what the kernels on exactly two features add, with the kept cases; blue adds, red takes away.

    Parameters
    ----------
    first, second : Direction, along the horizontal and the vertical axis
    values : (len(first.grid), len(second.grid), outputs) what the pair adds to the decision
    outputs : names of the outputs

    Attributes
    ----------
    figure_, ax_ : figure and axes, one per output
    maps_ : list of colour maps, one per output, all on one scale
    zero_lines_ : list of contour sets where the surface of two numbers changes its sign
    case_points_ : list of collections of kept cases, one per output
    """

    def __init__(self, first: Direction, second: Direction, values: np.ndarray, *, outputs: Sequence[Any]):
        self.first = first
        self.second = second
        self.values = values
        self.outputs = outputs

    @classmethod
    def from_estimator(
        cls, estimator: KernelEstimator, first: int | str, second: int | str, *, X: Any = None, ax: Any = None
    ) -> SurfaceDisplay:
        """Draw the surface of a pair of kept features, such as one of ``estimator.pairs_``.

        Parameters
        ----------
        estimator : fitted classifier
        first, second : names or positions of the features along the horizontal and the vertical axis
        X : rows that are marked by dots, or None
        ax : as many axes as outputs
        """
        cls._check_matplotlib()
        *grids, values = estimator.surface(first, second)
        some = [np.arange(len(grid)) if len(set(grid.tolist())) > 1 else np.arange(1) for grid in grids]
        grids, values = [grid[k] for grid, k in zip(grids, some, strict=True)], values[np.ix_(*some)]
        cases = kept.case_values(estimator)
        data = {} if X is None else kept.kept_values(estimator, X)
        names = [cls._name(estimator, feature) for feature in (first, second)]
        a, b = (Direction(n, g, cases[n], data.get(n, np.empty(0))) for n, g in zip(names, grids, strict=True))
        found = values.reshape(len(a.grid), len(b.grid), -1)
        return cls(a, b, found, outputs=kept.outputs(estimator)).plot(ax)

    @staticmethod
    def _name(estimator: KernelEstimator, feature: int | str) -> str:
        if isinstance(feature, str):
            return feature
        return estimator.model_.encoder.names[estimator.features_.tolist().index(feature)]

    def plot(self, ax: Any = None) -> SurfaceDisplay:
        """Draw; `ax` may be as many axes as outputs."""
        n = len(self.outputs)
        columns = 2 if n == 4 else min(n, COLUMNS)
        rows = -(-n // columns)
        shape = (rows, columns) if ax is None else (1, n)
        axes = self._panels(ax, shape, (1.9 + 3.5 * columns, 0.5 + 3.3 * rows)).ravel()
        for extra in axes[n:]:
            extra.remove()
        self.ax_ = axes[0] if n == 1 else axes[:n]
        top = float(np.max(np.abs(self.values), initial=0.0)) or 1.0
        self.maps_: list[Any] = []
        self.zero_lines_: list[Any] = []
        self.case_points_: list[Any] = []
        for q, axis in enumerate(axes[:n]):
            self._panel(axis, self.values[:, :, q].T, top)
            if n > 1:
                axis.set_title(label(self.outputs[q]), fontsize="small")
        bar = self.figure_.colorbar(self.maps_[-1], ax=list(axes[:n]), label=added(self.outputs), format="%+.2g")
        bar.ax.axhline(0.0, color="black", linewidth=1.5)
        return self

    def _panel(self, ax: Any, z: np.ndarray, top: float) -> None:
        """The surface z (second, first) of one output."""
        x, y = self.first.spots, self.second.spots
        edges = self.first.edges, self.second.edges
        self.maps_.append(ax.pcolormesh(*edges, z, cmap="RdBu", vmin=-top, vmax=top))
        below = 0.0
        if self.first.levels and self.second.levels:
            below = 0.3  # the numbers stand in the middle of the cells
            cell_texts(ax, z, "+.2g", np.abs(z) > DARK * top)
        elif not self.first.levels and not self.second.levels and z.min() < 0 < z.max():
            self.zero_lines_.append(ax.contour(x, y, z, levels=[0.0], colors="black", linewidths=1.0))
        for direction, side in ((self.first, ax.xaxis), (self.second, ax.yaxis)):
            side.set_label_text(label(direction.name, 40))
            if direction.levels:
                side.set_ticks(direction.spots, [label(level, 14) for level in direction.grid], fontsize="small")
        if self.first.levels and sum(len(label(level, 14)) for level in self.first.grid) > 36:
            ax.tick_params(axis="x", rotation=60)
        if len(self.first.data):
            places = self.first.places(self.first.data), self.second.places(self.second.data)
            ax.scatter(*places, s=3, color=PLAIN, linewidths=0.0)
        places = self.first.places(self.first.cases), self.second.places(self.second.cases) - below
        self.case_points_.append(ax.scatter(*places, s=28, color="white", edgecolors="black", linewidths=0.9, zorder=3))
