"""What single features and pairs of features add to the decision, as functions of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np

from tamis.base import explaining
from tamis.base.estimator import ReadableEstimator
from tamis.explain import SIMILAR
from tamis.results.describe import shape_of, surface_of
from tamis.results.shapes import LINEAR, LOG, QUANTILE, bin_edges, choose_scale, value_edges
from tamis.results.text import LOG_ODDS, odds_factor
from tamis.views.plots.drawing import (
    COLOURS,
    DECISION,
    HATCH,
    PLAIN,
    Display,
    added,
    cell_texts,
    class_style,
    label,
    legend_beside,
    score_name,
)

MAX_BARS = 16  # levels of a category; of more, those that add most are drawn
MIN_CELLS = 10  # of a curve whose edges show how its column is spread
MAX_TICKS = 6  # different values of a number that each have a tick
MAX_RUG_ROWS = 200  # rows up to which each gets a tick; more get a histogram
DATA_SHARE = 0.16  # of the height of a panel that rug and histogram take
DARK_SHARE = 0.6  # share of the largest value from which a cell is too dark for black letters


@dataclass(frozen=True)
class Shape:
    """What one feature adds."""

    name: str  # of the feature
    grid: np.ndarray  # (g,) its values; an object array of levels for a category
    values: np.ndarray  # (g, outputs) what they add to the decision
    data: np.ndarray | None  # values of the feature in some rows, or None
    missing: np.ndarray | None = None  # (outputs,) what a missing value adds, or None where that is not shown

    @property
    def nominal(self) -> bool:
        """Whether the feature is a category."""
        return self.grid.dtype == object


@dataclass(eq=False, repr=False)
class ShapeFunctionDisplay(Display):
    """A panel per feature: lines over numbers, bars over categories, and where the data lie.

    Curves of an additive model have their steps and slopes, and a column with a long tail has a logarithmic or
    stretched axis. Where rows are given, one with few different values is drawn at these only, and a diamond shows what
    a missing value adds if one of the rows has one. Of a category with many levels those that add most are drawn.
    Log-odds have a second scale with the factors of the odds.

    Parameters
    ----------
    shapes : list of Shape
    outputs : names of the outputs
    score : what the values are added to

    Attributes
    ----------
    figure_, ax_ : figure and axes, one per feature
    lines_ : {feature: list of lines or bar containers, one per output}
    missing_points_ : {feature: list of diamonds, one per output} of features with missing values
    """

    shapes: Sequence[Shape]
    _: KW_ONLY
    outputs: Sequence[Any]
    score: str = DECISION

    @classmethod
    def from_estimator(
        cls, estimator: ReadableEstimator, X: Any = None, *, features: Any = None, ax: Any = None
    ) -> ShapeFunctionDisplay:
        """Draw the shape functions of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
        X : rows whose values are marked below the curves, or None
        features : name or position of a kept feature, or list of them; None: all that have kernels of their own, the
            largest share of variation first. What pairs add is drawn by `SurfaceDisplay`
        ax : as many axes as features
        """
        cls._check_matplotlib()
        if features is None:
            found, parts = explaining.kept_features(estimator), explaining.parts(estimator)
            parts = parts if estimator.model_.is_additive else list(dict.fromkeys(parts))
            features = [parts[k][0] for k in found.order if len(parts[k]) == 1 and found.names[k] != SIMILAR]
        elif isinstance(features, str | int | np.integer):
            features = [features]
        if not len(features):
            raise ValueError("no kept feature has a shape of its own: all act through kernels on several features")
        data = {} if X is None else explaining.kept_values(estimator, X)
        shapes = []
        for feature in features:
            grid, values = shape_of(estimator, feature)
            name = _name(estimator, feature)
            missing = _at_missing(estimator, feature, grid, data.get(name))
            shapes.append(Shape(name, grid, values, data.get(name), missing))
        return cls(shapes, outputs=explaining.outputs(estimator), score=score_name(estimator)).plot(ax)

    def plot(self, ax: Any = None) -> ShapeFunctionDisplay:
        """Draw; `ax` may be as many axes as features."""
        axes, columns = self._grid(ax, len(self.shapes), (0.8, 0.3), (3.2, 2.7), sharey=True)
        self.lines_: dict[str, list[Any]] = {}
        self.missing_points_: dict[str, list[Any]] = {}
        drawn = [v for each in self.shapes for v in (each.values, each.missing) if v is not None]
        low, high = min(0.0, *(v.min() for v in drawn)), max(0.0, *(v.max() for v in drawn))
        room = (high - low) or 1.0
        for k, (axis, each) in enumerate(zip(axes, self.shapes, strict=True)):
            axis.axhline(0.0, color="black", linewidth=0.8)
            self.lines_[each.name] = self._bars(axis, each) if each.nominal else self._lines(axis, each)
            axis.set_ylim(low - (DATA_SHARE + 0.04) * room, high + 0.04 * room)  # one scale, and room for the data
            title = label(each.name, 40)
            if each.nominal and len(each.grid) > MAX_BARS:
                title = f"{label(each.name, 20)} ({MAX_BARS} largest of {len(each.grid)})"
            axis.set_xlabel(title)
            if k % columns == 0:
                axis.set_ylabel(added(self.outputs, "\n", self.score), fontsize="small")
            if self.score == LOG_ODDS and k % columns == columns - 1:
                odds = axis.secondary_yaxis("right")
                odds.yaxis.set_major_formatter(lambda value, _: f"\u00d7 {odds_factor(value)}")
                odds.set_ylabel("factor of the odds", fontsize="small")
        if len(self.outputs) > 1:
            lines = self.lines_[self.shapes[0].name]
            legend_beside(axes[columns - 1], lines, self.outputs, "class")
        return self

    def _lines(self, ax: Any, shape: Shape) -> list[Any]:
        ax.locator_params(axis="x", nbins=5)
        known = None if shape.data is None else shape.data[np.isfinite(shape.data)].clip(shape.grid[0], shape.grid[-1])
        edges = None if known is None or self.score == DECISION else value_edges(known)
        grid, values = shape.grid, shape.values
        if known is not None and edges is not None:
            distinct = np.unique(known)
            grid = np.repeat(edges, 2)[1:-1]
            values = np.repeat([np.interp(distinct, shape.grid, column) for column in values.T], 2, axis=1).T
            if len(distinct) <= MAX_TICKS:
                ax.set_xticks(distinct)
        lines = [ax.plot(grid, column, **class_style(q))[0] for q, column in enumerate(values.T)]
        if self.score != DECISION:
            _spread_axis(ax, _spread_rows(shape.grid) if known is None else known)
        if known is not None:
            _mark_rows(ax, known, edges)
        if shape.missing is not None:
            place = {"transform": ax.get_yaxis_transform(), "marker": "D", "linestyle": "none", "markersize": 5}
            self.missing_points_[shape.name] = [
                ax.plot([0.97], [value], color=class_style(q)["color"], clip_on=False, zorder=4, **place)[0]
                for q, value in enumerate(shape.missing)
            ]
            ax.set_title("\u25c6 missing", loc="right", fontsize="x-small", color=PLAIN)
        return lines

    def _bars(self, ax: Any, shape: Shape) -> list[Any]:
        n, width = len(self.outputs), 0.8 / len(self.outputs)
        largest = np.argsort(-np.abs(shape.values).max(axis=1), kind="stable")[:MAX_BARS]
        some = np.sort(largest)
        levels = shape.grid[some]
        at, out = np.arange(len(levels)), []
        for q, column in enumerate(shape.values[some].T):
            bars = ax.bar(at + (q - (n - 1) / 2) * width, column, width=width, color=COLOURS[q % len(COLOURS)])
            for bar, value in zip(bars, column, strict=True):
                bar.set(hatch=HATCH if value < 0 else None, edgecolor="white", linewidth=0.0)
            out.append(bars)
        names = [label(level, 14) for level in levels]
        if shape.data is not None:
            counts = [sum(value == level for value in shape.data) for level in levels]
            names = [f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
        crowded = sum(map(len, names)) > 36 or len(names) > 6
        turned = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
        ax.set_xticks(at, names, fontsize="small", **turned)
        return out


def _name(estimator: ReadableEstimator, feature: int | str) -> str:
    """The name of a kept feature, which may be given by its position in the input."""
    if isinstance(feature, str):
        return feature
    name: str = estimator.model_.encoder.names[estimator.features_.tolist().index(feature)]
    return name


def _at_missing(estimator: Any, feature: int | str, grid: np.ndarray, data: np.ndarray | None) -> np.ndarray | None:
    """What a missing number adds (outputs,) in an additive model, if one of the rows lacks it."""
    if data is None or grid.dtype == object or not estimator.model_.is_additive or not np.isnan(data).any():
        return None
    return np.ravel(estimator.curve(feature, [np.nan])[1])


def _spread_rows(grid: np.ndarray) -> np.ndarray:
    """Values that lie as the ends of the cells of a curve do, which hold about as many training rows each."""
    ends = np.unique(grid)
    if len(ends) <= MIN_CELLS:
        return ends[:0]
    return np.interp(np.linspace(0.0, len(ends) - 1.0, 20 * len(ends)), np.arange(len(ends)), ends)


def _spread_axis(ax: Any, values: np.ndarray) -> None:
    """A logarithmic axis, or one that is stretched where many rows are, for a column with a long tail."""
    scale = choose_scale(values) if len(values) else LINEAR
    if scale == LOG:
        ax.set_xscale("log")
    elif scale == QUANTILE:
        edges = bin_edges(values, scale)
        places = np.arange(len(edges), dtype=float)
        functions = (partial(np.interp, xp=edges, fp=places), partial(np.interp, xp=places, fp=edges))
        ax.set_xscale("function", functions=functions)
        ticks = [float(f"{v:.2g}") for v in edges[np.linspace(0, len(edges) - 1, 5).astype(int)]]
        ax.set_xticks(ticks, [f"{v:g}" for v in ticks])


def _mark_rows(ax: Any, values: np.ndarray, edges: np.ndarray | None) -> None:
    """Where the data lie: a tick per row at the bottom, or a histogram for many rows, between `edges` if given."""
    if not len(values):
        return
    place = ax.get_xaxis_transform()
    if len(values) <= MAX_RUG_ROWS:
        ax.vlines(values, 0.0, 0.4 * DATA_SHARE, transform=place, color=PLAIN, linewidth=0.6, alpha=0.6)
        return
    scale = {"log": LOG, "function": QUANTILE}.get(ax.get_xscale(), LINEAR)
    counts, edges = np.histogram(values, bins=bin_edges(values, scale) if edges is None else edges)
    heights = 0.9 * DATA_SHARE * counts / counts.max()
    ax.bar(edges[:-1], heights, np.diff(edges), align="edge", transform=place, color=PLAIN, alpha=0.5)


@dataclass(frozen=True)
class Direction:
    """One of the two features."""

    name: str  # of the feature
    grid: np.ndarray  # (g,) its values; an object array of levels for a category
    cases: np.ndarray  # (k,) its values in the kept cases
    data: np.ndarray  # (n,) its values in some rows; empty if there are none

    @property
    def levels(self) -> bool:
        """Whether the values stand side by side with a name each: a category, or a number that never changes."""
        return self.grid.dtype == object or len(set(self.grid.tolist())) == 1

    @property
    def coarse(self) -> bool:
        """Whether the values are the ends of coarse cells, two of each, which are drawn equally wide."""
        return not self.levels and len(set(self.grid.tolist())) < len(self.grid)

    @property
    def limits(self) -> np.ndarray:
        """Ends (m + 1,) of m coarse cells."""
        return np.r_[self.grid[0::2], self.grid[-1]]

    @property
    def spots(self) -> np.ndarray:
        """Places (g,) of the values along the axis."""
        if self.coarse:
            return np.arange(len(self.grid)) / 2 + 0.25
        return np.arange(len(self.grid), dtype=float) if self.levels else self.grid

    @property
    def edges(self) -> np.ndarray:
        """Ends (g + 1,) of the cells around the values."""
        spots = self.spots
        if self.coarse:
            return np.arange(len(spots) + 1) / 2
        middles = (spots[1:] + spots[:-1]) / 2
        return np.r_[-0.5, middles, len(spots) - 0.5] if self.levels else np.r_[spots[0], middles, spots[-1]]

    def places(self, values: np.ndarray) -> np.ndarray:
        """Positions of values along the axis, those outside its range at its ends; NaN for missing and unknown ones."""
        if self.coarse:
            return np.interp(values.astype(float), self.limits, np.arange(len(self.limits)))
        if not self.levels:
            return np.clip(values.astype(float), self.grid[0], self.grid[-1])
        spot = {level: float(k) for k, level in enumerate(self.grid.tolist())}
        return np.array([spot.get(value, np.nan) for value in values.tolist()])


@dataclass(eq=False, repr=False)
class SurfaceDisplay(Display):
    """A heat map of what exactly two features add together; blue adds, red takes away.

    That of an additive model has coarse cells of one size, with the limits of their values between them; that of
    kernels is smooth, with the kept cases.

    Parameters
    ----------
    first, second : Direction, along the horizontal and the vertical axis
    values : (len(first.grid), len(second.grid), outputs) what the pair adds to the decision
    outputs : names of the outputs
    score : what the values are added to

    Attributes
    ----------
    figure_, ax_ : figure and axes, one per output
    maps_ : list of colour maps, one per output, all on one scale
    zero_lines_ : list of contour sets where the surface of two numbers changes its sign
    case_points_ : list of collections of kept cases, one per output
    """

    first: Direction
    second: Direction
    values: np.ndarray
    _: KW_ONLY
    outputs: Sequence[Any]
    score: str = DECISION

    @classmethod
    def from_estimator(
        cls, estimator: ReadableEstimator, first: int | str, second: int | str, *, X: Any = None, ax: Any = None
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
        *grids, values = surface_of(estimator, first, second)
        cases = explaining.case_values(estimator)
        if estimator.model_.is_additive:  # its cases have no part in its pairs
            cases = {name: values[:0] for name, values in cases.items()}
        data = {} if X is None else explaining.kept_values(estimator, X)
        names = [_name(estimator, feature) for feature in (first, second)]
        a, b = (Direction(n, g, cases[n], data.get(n, np.empty(0))) for n, g in zip(names, grids, strict=True))
        return cls(a, b, values, outputs=explaining.outputs(estimator), score=score_name(estimator)).plot(ax)

    def plot(self, ax: Any = None) -> SurfaceDisplay:
        """Draw; `ax` may be as many axes as outputs."""
        axes, _ = self._grid(ax, len(self.outputs), (1.9, 0.5), (3.5, 3.3))
        top = float(np.max(np.abs(self.values), initial=0.0)) or 1.0
        self.maps_: list[Any] = []
        self.zero_lines_: list[Any] = []
        self.case_points_: list[Any] = []
        for q, axis in enumerate(axes):
            self._panel(axis, self.values[:, :, q].T, top)
            if len(axes) > 1:
                axis.set_title(label(self.outputs[q]), fontsize="small")
        bar = self.figure_.colorbar(
            self.maps_[-1], ax=list(axes), label=added(self.outputs, score=self.score), format="%+.2g"
        )
        bar.ax.axhline(0.0, color="black", linewidth=1.5)
        return self

    @property
    def _is_smooth(self) -> bool:
        """Whether it is a surface over two numbers without steps."""
        return not any(side.levels or side.coarse for side in (self.first, self.second))

    def _panel(self, ax: Any, z: np.ndarray, top: float) -> None:
        """The surface z (second, first) of one output."""
        x, y = self.first.spots, self.second.spots
        edges = self.first.edges, self.second.edges
        self.maps_.append(ax.pcolormesh(*edges, z, cmap="RdBu", vmin=-top, vmax=top))
        below = 0.0
        if self.first.levels and self.second.levels:
            below = 0.3  # the numbers stand in the middle of the cells
            cell_texts(ax, z, "+.2g", np.abs(z) > DARK_SHARE * top)
        elif self._is_smooth and z.min() < 0 < z.max():
            self.zero_lines_.append(ax.contour(x, y, z, levels=[0.0], colors="black", linewidths=1.0))
        for direction, side in ((self.first, ax.xaxis), (self.second, ax.yaxis)):
            side.set_label_text(label(direction.name, 40))
            if direction.levels:
                side.set_ticks(direction.spots, [label(level, 14) for level in direction.grid], fontsize="small")
            elif direction.coarse:
                inner = np.arange(1, len(direction.limits) - 1)
                side.set_ticks(inner, [f"{value:.3g}" for value in direction.limits[inner]], fontsize="small")
        if sum(len(tick.get_text()) for tick in ax.get_xticklabels()) > 36 and (self.first.levels or self.first.coarse):
            ax.tick_params(axis="x", rotation=60)
        if len(self.first.data):
            places = self.first.places(self.first.data), self.second.places(self.second.data)
            ax.scatter(*places, s=3, color=PLAIN, linewidths=0.0)
        places = self.first.places(self.first.cases), self.second.places(self.second.cases) - below
        self.case_points_.append(ax.scatter(*places, s=28, color="white", edgecolors="black", linewidths=0.9, zorder=3))
