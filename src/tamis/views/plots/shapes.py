"""ShapeFunctionDisplay: what features add to the decision, as functions of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.base import kept
from tamis.base.estimator import KernelEstimator
from tamis.results.describe import bin_edges
from tamis.views.plots.drawing import COLOURS, HATCH, PLAIN, Display, added, class_style, label, legend_beside

RUG = 200  # rows up to which each gets a tick; beyond, a histogram
COLUMNS = 3  # panels side by side
SHARE = 0.16  # of the height of a panel that rug and histogram take


@dataclass(frozen=True)
class Shape:
    """What one feature adds.

    Attributes
    ----------
    name : of the feature
    grid : (g,) its values; an object array of levels for a category
    values : (g, outputs) what they add to the decision
    data : values of the feature in some rows, or None
    """

    name: str
    grid: np.ndarray
    values: np.ndarray
    data: np.ndarray | None

    @property
    def nominal(self) -> bool:
        """Whether the feature is a category."""
        return self.grid.dtype == object


class ShapeFunctionDisplay(Display):
    """A panel per feature: lines over numbers, bars over categories, and where the data lie.

    Parameters
    ----------
    shapes : list of Shape
    outputs : names of the outputs

    Attributes
    ----------
    figure_, ax_ : figure and axes, one per feature
    lines_ : {feature: list of lines or bar containers, one per output}
    """

    def __init__(self, shapes: Sequence[Shape], *, outputs: Sequence[Any]):
        self.shapes = shapes
        self.outputs = outputs

    @classmethod
    def from_estimator(
        cls, estimator: KernelEstimator, X: Any = None, *, features: Any = None, ax: Any = None
    ) -> ShapeFunctionDisplay:
        """Draw the shape functions of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
        X : rows whose values are marked below the curves, or None
        features : name or position of a kept feature, or list of them; None: all that have kernels of their own, the
            largest share of variation first. What pairs add besides is drawn by `SurfaceDisplay`
        ax : as many axes as features
        """
        cls._check_matplotlib()
        names = estimator.model_.encoder.names if hasattr(estimator, "model_") else ()
        if features is None:
            features = _own_shapes(estimator)
        elif isinstance(features, str | int | np.integer):
            features = [features]
        if not len(features):
            raise ValueError("no kept feature has a shape of its own: all act through kernels on several features")
        data = {} if X is None else kept.kept_values(estimator, X)
        shapes = []
        for feature in features:
            grid, values = estimator.shape_function(feature)
            name = feature if isinstance(feature, str) else names[estimator.features_.tolist().index(feature)]
            shapes.append(Shape(name, grid, values.reshape(len(grid), -1), data.get(name)))
        return cls(shapes, outputs=kept.outputs(estimator)).plot(ax)

    def plot(self, ax: Any = None) -> ShapeFunctionDisplay:
        """Draw; `ax` may be as many axes as features."""
        n = len(self.shapes)
        columns = 2 if n == 4 else min(n, COLUMNS)
        rows = -(-n // columns)
        shape = (rows, columns) if ax is None else (1, n)
        axes = self._panels(ax, shape, (0.8 + 3.2 * columns, 0.3 + 2.7 * rows), sharey=True).ravel()
        for extra in axes[n:]:
            extra.remove()
        self.ax_ = axes[0] if n == 1 else axes[:n]
        self.lines_: dict[str, list[Any]] = {}
        ends = np.array([[min(0.0, each.values.min()), max(0.0, each.values.max())] for each in self.shapes])
        low, high = ends.min(), ends.max()
        room = (high - low) or 1.0
        for k, (axis, each) in enumerate(zip(axes, self.shapes, strict=False)):
            axis.axhline(0.0, color="black", linewidth=0.8)
            self.lines_[each.name] = self._bars(axis, each) if each.nominal else self._lines(axis, each)
            axis.set_ylim(low - (SHARE + 0.04) * room, high + 0.04 * room)  # one scale, and room for the data
            axis.set_xlabel(label(each.name, 40))
            if k % columns == 0:
                axis.set_ylabel(added(self.outputs, "\n"), fontsize="small")
        if len(self.outputs) > 1:
            lines = self.lines_[self.shapes[0].name]
            legend_beside(axes[min(n, columns) - 1], lines, self.outputs, "class")
        return self

    def _lines(self, ax: Any, shape: Shape) -> list[Any]:
        ax.locator_params(axis="x", nbins=5)
        lines = [ax.plot(shape.grid, column, **class_style(q))[0] for q, column in enumerate(shape.values.T)]
        if shape.data is not None:
            known = shape.data[np.isfinite(shape.data)].clip(shape.grid[0], shape.grid[-1])
            _mark_rows(ax, known)
        return lines

    def _bars(self, ax: Any, shape: Shape) -> list[Any]:
        n, width = len(self.outputs), 0.8 / len(self.outputs)
        at, out = np.arange(len(shape.grid)), []
        for q, column in enumerate(shape.values.T):
            bars = ax.bar(at + (q - (n - 1) / 2) * width, column, width=width, color=COLOURS[q % len(COLOURS)])
            for bar, value in zip(bars, column, strict=True):
                bar.set(hatch=HATCH if value < 0 else None, edgecolor="white", linewidth=0.0)
            out.append(bars)
        names = [label(level, 14) for level in shape.grid]
        if shape.data is not None:
            counts = [sum(value == level for value in shape.data) for level in shape.grid]
            names = [f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
        crowded = sum(map(len, names)) > 36 or len(names) > 6
        turned = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
        ax.set_xticks(at, names, fontsize="small", **turned)
        return out


def _own_shapes(estimator: KernelEstimator) -> list[str]:
    """Kept features that have kernels of their own."""
    found, names = kept.kept_features(estimator), list(dict.fromkeys(kept.parts(estimator)))
    return [names[k][0] for k in found.order if len(names[k]) == 1]


def _mark_rows(ax: Any, values: np.ndarray) -> None:
    """Where the data lie: a tick per row at the bottom, or a histogram for many rows."""
    if not len(values):
        return
    place = ax.get_xaxis_transform()
    if len(values) <= RUG:
        ax.vlines(values, 0.0, 0.4 * SHARE, transform=place, color=PLAIN, linewidth=0.6, alpha=0.6)
        return
    counts, edges = np.histogram(values, bins=bin_edges(values))
    heights = 0.9 * SHARE * counts / counts.max()
    ax.bar(edges[:-1], heights, np.diff(edges), align="edge", transform=place, color=PLAIN, alpha=0.5)
