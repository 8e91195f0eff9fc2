"""What prototypes show: a map of them with rows, their number per class, and what parameters do to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np

from tamis.base.prototypes import Prototype, PrototypeClassifier
from tamis.views import studies
from tamis.views.plots.drawing import MINUS, PLAIN, PLUS, Display, label, legend_beside, name_rows, point_style

MAX_IN_LEGEND = 10  # classes; more of them have their names on the map
METHODS = {"tsne": "t-SNE", "mds": "classical scaling"}
STAR, SMALLEST, LARGEST = "*", 20.0, 360.0  # of prototypes; areas in square points, the largest of up to 20 of them
NAME_SPACING = 0.045  # between names, as a share of the height of the map
LOG_AXIS_RATIO = 30.0  # ratio of the largest to the smallest value from which an axis is logarithmic
WORDS = {"accuracy": "accuracy", "interpretability": "interpretability (IP)"}
STYLES = {
    "accuracy": {"color": PLUS, "marker": "o", "linestyle": "-"},
    "interpretability": {"color": MINUS, "marker": "s", "linestyle": "--"},
}


@dataclass(eq=False, repr=False)
class PrototypeAtlasDisplay(Display):
    """A map of rows and prototypes by their distances in the feature space of the learned kernel.

    Points are rows, stars prototypes; colours (and markers of rows) show the classes, and the area of a star the
    number of rows in whose code it is. Axes have no unit.

    Parameters
    ----------
    rows, prototypes : (n, 2) and (c, 2) places
    row_classes, prototype_classes : (n,) and (c,) positions in `classes`
    shares : (n, c) of the prototypes in the rows
    classes : names
    method : {"tsne", "mds"}, which made the map
    predicted : whether the classes of rows are those that the classifier gave them

    Attributes
    ----------
    figure_, ax_ : figure and axes
    row_points_, stars_ : point collections by class, of the classes that have any
    names_ : texts of the class names on the map, of more than ten classes
    links_ : line collection, or None
    """

    _: KW_ONLY
    rows: np.ndarray
    prototypes: np.ndarray
    row_classes: np.ndarray
    prototype_classes: np.ndarray
    shares: np.ndarray
    classes: Sequence[Any]
    method: str = "tsne"
    predicted: bool = False

    @property
    def n_represented(self) -> np.ndarray:
        """(c,) rows that have some of each prototype in them."""
        return np.count_nonzero(self.shares, axis=0)

    @classmethod
    def from_estimator(
        cls,
        estimator: PrototypeClassifier,
        X: Any,
        y: Any = None,
        *,
        method: str = "tsne",
        random_state: Any = 0,
        links: bool = False,
        ax: Any = None,
    ) -> PrototypeAtlasDisplay:
        """Draw rows and the prototypes of a fitted classifier.

        Parameters
        ----------
        estimator : classifier by prototypes, fitted to a table or to series
        X : rows or series of the same kind
        y : classes of the rows; None: those that the classifier gives them
        method, random_state : as in `tamis.views.studies.embed`
        links : see `plot`
        ax : axes
        """
        cls._check_matplotlib()
        cls._check_prototypes(estimator)
        classes = estimator.classes_.tolist()
        found = np.asarray(estimator.predict(X) if y is None else y)
        place = {value: q for q, value in enumerate(classes)}
        strange = [value for value in found.tolist() if value not in place]
        if strange:
            raise ValueError(f"y holds {strange[0]!r}, which the fit did not see: give rows of the classes {classes}")
        rows, prototypes = studies.embed(estimator, X, method=method, random_state=random_state)
        display = cls(
            rows=rows,
            prototypes=prototypes,
            row_classes=np.array([place[value] for value in found.tolist()]),
            prototype_classes=np.array([place[value] for value in estimator.prototype_labels_.tolist()]),
            shares=studies.assigned(estimator, X),
            classes=classes,
            method=method,
            predicted=y is None,
        )
        return display.plot(ax, links=links)

    def plot(self, ax: Any = None, *, links: bool = False) -> PrototypeAtlasDisplay:
        """Draw.

        Parameters
        ----------
        ax : axes
        links : whether thin lines go from each prototype to the rows in which it has the largest share
        """
        many = len(self.classes) > MAX_IN_LEGEND
        axis = self._panels(ax, (1, 1), (9.4 if many else 7.6, 7.4 if many else 5.4))[0, 0]
        self.links_ = self._links(axis) if links else None
        self.row_points_: dict[Any, Any] = {}
        self.stars_: dict[Any, Any] = {}
        areas = self._areas()
        for q, name in enumerate(self.classes):
            style, own, stars = point_style(q), self.row_classes == q, self.prototype_classes == q
            if own.any():
                options = {"s": 20, "alpha": 0.65, "linewidths": 0.0, "zorder": 2, **style}
                self.row_points_[name] = axis.scatter(*self.rows[own].T, **options)
            if stars.any():
                options = {"s": areas[stars], "color": style["color"], "edgecolors": "black", "linewidths": 0.7}
                self.stars_[name] = axis.scatter(*self.prototypes[stars].T, marker=STAR, zorder=3, **options)
        words = f"{METHODS[self.method]} of rows and prototypes in the learned kernel"
        axis.set(xticks=[], yticks=[], title=words + ("; classes as predicted" if self.predicted else ""))
        axis.title.set_fontsize("medium")
        if self.method == "mds":  # where distances mean something
            axis.set_aspect("equal", adjustable="datalim")
        self.names_ = self._names(axis) if many else []
        self._legends(axis, many)
        return self

    def _areas(self, counts: np.ndarray | None = None) -> np.ndarray:
        """Areas of stars: proportional to the number of rows, and smaller where there are many prototypes."""
        n = self.n_represented if counts is None else counts
        largest = LARGEST / max(1.0, len(self.prototypes) / 20.0) ** 0.45
        return np.maximum(SMALLEST, largest * n / max(1, self.n_represented.max(initial=0)))

    def _links(self, axis: Any) -> Any:
        """A line to each row from the prototype with the largest share in it, in the colour of the prototype."""
        from matplotlib.collections import LineCollection
        from matplotlib.colors import to_rgba

        row = np.flatnonzero(self.shares.any(axis=1))
        prototype = np.argmax(self.shares[row], axis=1)
        segments = np.stack([self.rows[row], self.prototypes[prototype]], axis=1)
        colours = [to_rgba(point_style(int(q))["color"], 0.5) for q in self.prototype_classes[prototype]]
        return axis.add_collection(LineCollection(list(segments), colors=colours, linewidths=0.7, zorder=1))

    def _names(self, axis: Any) -> list[Any]:
        """Names of classes at a row in their middle, or at a prototype of those without rows."""
        texts: list[Any] = []
        extent = np.ptp(np.concatenate([self.rows, self.prototypes]), axis=0)
        extent = np.where(extent > 0, extent, 1.0)
        for q, name in enumerate(self.classes):
            own = self.rows[self.row_classes == q]
            own = own if len(own) else self.prototypes[self.prototype_classes == q]
            if len(own):
                words, colour = label(name, 14), point_style(q)["color"]
                taken = np.array([text.get_position() for text in texts]).reshape(-1, 2) / extent
                x, y = _middle(own / extent, taken, (0.025 + 0.012 * len(words), NAME_SPACING)) * extent
                box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "alpha": 0.85, "edgecolor": colour}
                options = {"ha": "center", "va": "center", "fontweight": "bold", "zorder": 4}
                texts.append(axis.text(x, y, words, color=colour, bbox=box, **options))
        return texts

    def _legends(self, axis: Any, many: bool) -> None:
        """What colours and the areas of stars mean."""
        n = self.n_represented
        counts = np.unique([n.min(), n.max()]) if len(n) else n
        areas = self._areas(counts)
        stars = [
            axis.scatter([], [], marker=STAR, s=area, color=PLAIN, edgecolors="black", linewidths=0.7) for area in areas
        ]
        words = [f"{n} row{'s' if n != 1 else ''}" for n in counts]
        if many:
            legend_beside(axis, stars, words, "prototype of")
            return
        shown = {**self.stars_, **self.row_points_}
        names = [name for name in self.classes if name in shown]
        first = legend_beside(axis, [shown[name] for name in names], names, "class")
        for handle in first.legend_handles:
            handle.set(sizes=[36], alpha=1.0)
        axis.add_artist(first)
        first.set_clip_on(False)  # a clipped artist would have no room in the layout
        place = {"loc": "lower left", "bbox_to_anchor": (1.01, 0.0), "borderaxespad": 0.0}
        axis.legend(stars, words, title="prototype of", frameon=False, fontsize="small", **place)


def _middle(places: np.ndarray, taken: np.ndarray, room: tuple[float, float]) -> np.ndarray:
    """The place nearest the median of all that has this room from those taken; the nearest one if none has it."""
    order = np.argsort(np.linalg.norm(places - np.median(places, axis=0), axis=1), kind="stable")
    free = [k for k in order if not np.any(np.all(np.abs(taken - places[k]) < room, axis=1))]
    return places[free[0] if free else order[0]]


@dataclass(eq=False, repr=False)
class PrototypesPerClassDisplay(Display):
    """Numbers of prototypes per class, with their mean purity and mean number of samples.

    Parameters
    ----------
    classes : names
    prototypes : list of `Prototype`

    Attributes
    ----------
    figure_, ax_ : figure and axes
    bars_ : bar container, the first class at the top
    texts_ : number, purity and size of the prototypes of each class
    """

    classes: Sequence[Any]
    prototypes: Sequence[Prototype]

    @classmethod
    def from_estimator(cls, estimator: PrototypeClassifier, *, ax: Any = None) -> PrototypesPerClassDisplay:
        """Draw the prototypes of a fitted classifier."""
        cls._check_matplotlib()
        cls._check_prototypes(estimator)
        return cls(estimator.classes_.tolist(), estimator.prototypes_).plot(ax)

    def plot(self, ax: Any = None) -> PrototypesPerClassDisplay:
        """Draw."""
        axis = self._panels(ax, (1, 1), (6.4, 1.1 + 0.28 * max(2, len(self.classes))))[0, 0]
        groups = [[p for p in self.prototypes if p.label == name] for name in self.classes]
        counts = [len(group) for group in groups]
        self.bars_ = axis.barh(range(len(groups)), counts, height=0.7, color=PLUS)
        self.texts_ = axis.bar_label(self.bars_, [_words(group) for group in groups], padding=4, fontsize="small")
        name_rows(axis, self.classes)
        axis.set_xlim(0, 1.9 * max(1, *counts))  # room for the words
        axis.set(xlabel=f"prototypes ({sum(counts)} in all)", ylabel="class")
        axis.set_xticks([tick for tick in axis.get_xticks() if tick <= max(1, *counts) and tick == int(tick)])
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        return self


def _words(group: Sequence[Prototype]) -> str:
    """Number, mean purity and mean number of samples of the prototypes of a class."""
    if not group:
        return "none"
    purity = 100.0 * sum(p.purity for p in group) / len(group)
    samples = sum(len(p) for p in group) / len(group)
    return f"{len(group)}: {purity:.0f} % pure, {samples:.1f} sample{'' if samples == 1 else 's'} each"


@dataclass(eq=False, repr=False)
class ParameterEffectsDisplay(Display):
    """A panel for each parameter: what its values do while the others stay, in per cent.

    Parameters
    ----------
    effects : for each parameter a dict of lists `values`, `accuracy`, `interpretability` and, if known,
        `accuracy_spread` and `interpretability_spread`, which are drawn as bars of that length to both sides
    current : values that the parameters have when they are not varied; marked by a line

    Attributes
    ----------
    figure_, ax_ : figure and axes, one per parameter
    lines_ : for each parameter a dict of the lines of both measures
    current_lines_ : for each parameter whose own value is within its axis, the line there
    """

    effects: Mapping[str, Mapping[str, Sequence[Any]]]
    _: KW_ONLY
    current: Mapping[str, Any] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        grid: Mapping[str, Sequence[Any]],
        *,
        cv: Any = 3,
        random_state: Any = 0,
        ax: Any = None,
    ) -> ParameterEffectsDisplay:
        """Fit and measure on folds, and draw.

        Parameters
        ----------
        estimator : classifier with `prototype_measures`; fitted or not
        X, y, grid, cv, random_state : as in `tamis.views.studies.parameter_effects`
        ax : axes, one per parameter
        """
        cls._check_matplotlib()
        effects = studies.parameter_effects(estimator, X, y, grid, cv=cv, random_state=random_state)
        current = {name: value for name, value in estimator.get_params(deep=False).items() if name in grid}
        return cls.from_results(effects, current=current, ax=ax)

    @classmethod
    def from_results(
        cls,
        effects: Mapping[str, Mapping[str, Sequence[Any]]],
        *,
        current: Mapping[str, Any] | None = None,
        ax: Any = None,
    ) -> ParameterEffectsDisplay:
        """Draw what was measured before."""
        cls._check_matplotlib()
        return cls(effects, current=current).plot(ax)

    def plot(self, ax: Any = None) -> ParameterEffectsDisplay:
        """Draw; `ax` may be as many axes as there are parameters."""
        n = len(self.effects)
        if not n:
            raise ValueError("effects is empty: give the values and measures of one or more parameters")
        axes, columns = self._grid(ax, n, (2.2, 0.9), (2.6, 2.3), sharey=True)
        self.lines_: dict[str, dict[str, Any]] = {}
        self.current_lines_: dict[str, Any] = {}
        for axis, (name, effect) in zip(axes, self.effects.items(), strict=True):
            self._panel(axis, name, effect)
        for axis in axes[::columns]:
            axis.set_ylabel("on held-out rows (%)", fontsize="small")
        handles = dict(zip(WORDS.values(), self.lines_[next(iter(self.effects))].values(), strict=True))
        if self.current_lines_:
            handles["value of the model"] = next(iter(self.current_lines_.values()))
        legend_beside(axes[columns - 1], list(handles.values()), list(handles))
        return self

    def _panel(self, axis: Any, name: str, effect: Mapping[str, Sequence[Any]]) -> None:
        """Both measures over the values of one parameter."""
        values = list(effect["values"])
        numeric = all(isinstance(value, Real) and not isinstance(value, bool) for value in values)
        at = np.array(values if numeric else range(len(values)), dtype=float)
        order = np.argsort(at, kind="stable")
        self.lines_[name] = {}
        for measure, style in STYLES.items():
            height = np.asarray(effect[measure], dtype=float)[order]
            spread = np.asarray(effect.get(f"{measure}_spread", np.nan), dtype=float)
            error = spread[order] if np.isfinite(spread).all() else None
            look = style if numeric else {**style, "linestyle": "none"}  # names have no order
            drawn = axis.errorbar(at[order], height, error, markersize=4, capsize=2, elinewidth=0.8, **look)
            self.lines_[name][measure] = drawn[0]
        if not numeric:
            axis.set_xticks(at, [label(value, 14) for value in values], fontsize="small")
            axis.set_xlim(-0.5, len(values) - 0.5)
        elif at.min() > 0 and at.max() >= LOG_AXIS_RATIO * at.min():
            axis.set_xscale("log")
        elif all(value == int(value) for value in at):
            axis.xaxis.get_major_locator().set_params(integer=True)
        place = self._current_place(name, values, numeric)
        if place is not None:
            self.current_lines_[name] = axis.axvline(place, color=PLAIN, linestyle=":", zorder=0)
        axis.set_xlabel(label(name))
        axis.grid(axis="y", color="0.9", linewidth=0.6)
        axis.set_axisbelow(True)

    def _current_place(self, name: str, values: list[Any], numeric: bool) -> float | None:
        """Where the value of the model stands on the axis, if it is there."""
        current = self.current or {}
        value = current.get(name)
        if numeric:
            return float(value) if isinstance(value, Real) and min(values) <= value <= max(values) else None
        return float(values.index(value)) if name in current and value in values else None
