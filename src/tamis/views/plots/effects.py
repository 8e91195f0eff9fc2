"""ParameterEffectsDisplay: accuracy and interpretability against the values of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from tamis.views.plots.drawing import MINUS, PLAIN, PLUS, Display, label, legend_beside
from tamis.views.studies.effects import parameter_effects

COLUMNS = 3  # panels beside each other
WIDE = 30.0  # ratio of the largest to the smallest value from which an axis is logarithmic
WORDS = {"accuracy": "accuracy", "interpretability": "interpretability (IP)"}
STYLES = {
    "accuracy": {"color": PLUS, "marker": "o", "linestyle": "-"},
    "interpretability": {"color": MINUS, "marker": "s", "linestyle": "--"},
}


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

    def __init__(self, effects: Mapping[str, Mapping[str, Sequence[Any]]], *, current: Mapping[str, Any] | None = None):
        self.effects = effects
        self.current = current or {}

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
        X, y, grid, cv, random_state : as in `tamis.views.studies.effects.parameter_effects`
        ax : axes, one per parameter
        """
        cls._check_matplotlib()
        effects = parameter_effects(estimator, X, y, grid, cv=cv, random_state=random_state)
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
        columns = 2 if n == 4 else min(n, COLUMNS)
        rows = -(-n // columns)
        shape = (rows, columns) if ax is None else (1, n)
        axes = self._panels(ax, shape, (2.2 + 2.6 * columns, 0.9 + 2.3 * rows), sharey=True).ravel()
        for extra in axes[n:]:
            extra.remove()
        self.ax_ = axes[0] if n == 1 else axes[:n]
        self.lines_: dict[str, dict[str, Any]] = {}
        self.current_lines_: dict[str, Any] = {}
        for axis, (name, effect) in zip(axes, self.effects.items(), strict=False):
            self._panel(axis, name, effect)
        for axis in axes[:n:columns] if ax is None else axes[:1]:
            axis.set_ylabel("on held-out rows (%)", fontsize="small")
        handles = dict(zip(WORDS.values(), self.lines_[next(iter(self.effects))].values(), strict=True))
        if self.current_lines_:
            handles["value of the model"] = next(iter(self.current_lines_.values()))
        legend_beside(axes[min(n, columns) - 1 if ax is None else -1], list(handles.values()), list(handles))
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
        elif at.min() > 0 and at.max() >= WIDE * at.min():
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
        value = self.current.get(name)
        if numeric:
            return float(value) if isinstance(value, Real) and min(values) <= value <= max(values) else None
        return float(values.index(value)) if name in self.current and value in values else None
