"""DecisionBoundaryDisplay: the decision over two features, all others held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import distance_transform_edt

from tamis.base import kept
from tamis.base.classifier import KernelClassifier
from tamis.views.plots.drawing import COLOURS, MARKERS, MINUS, PLUS, Display, label, legend_beside

RESOLUTION = 120
MARGIN = 0.04  # beyond the data, as a share of their range


@dataclass(frozen=True)
class Slice:
    """Decisions over a grid of two features.

    Attributes
    ----------
    features : the two names
    x, y : (a,) and (b,) their values
    decision : (b, a, outputs)
    held : {name: value} of the other kept features
    """

    features: tuple[str, str]
    x: np.ndarray
    y: np.ndarray
    decision: np.ndarray
    held: dict[str, Any]


class DecisionBoundaryDisplay(Display):
    """Filled contours of the decision over two kept features, the boundary, and the kept cases.

    Two classes: the decision value, with a line at zero. Several: the regions of the predicted classes.
    The kept cases are drawn at their values of the two features; their other values may differ from the
    held ones.

    Parameters
    ----------
    slice : Slice
    classes : labels
    cases : (k, 2) values of the two features in the kept cases
    speaks_for : (k,) index into `classes`: the class that each kept case speaks for

    Attributes
    ----------
    figure_, ax_ : figure and axes
    surface_ : filled contours
    boundary_ : lines between the predicted classes, a list of contour sets; empty where the slice does
        not meet them
    case_points_ : {class: collection of kept cases that speak for it}
    """

    def __init__(self, slice: Slice, *, classes: Sequence[Any], cases: np.ndarray, speaks_for: np.ndarray):
        self.slice = slice
        self.classes = classes
        self.cases = cases
        self.speaks_for = speaks_for

    @classmethod
    def from_estimator(
        cls,
        estimator: KernelClassifier,
        X: Any,
        *,
        features: Sequence[str] | None = None,
        reference: int | Mapping[str, Any] | None = None,
        ax: Any = None,
    ) -> DecisionBoundaryDisplay:
        """Draw a slice through the decision of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
        X : rows; they give the ranges of the two features, and the medians of the others (the most
            frequent level of a category)
        features : names of two kept numeric features; None: those with the largest shares of variation
        reference : where the other features are held: position of a row of X, or {name: value} with
            medians for what it does not name; None: medians
        ax : axes
        """
        cls._check_matplotlib()
        cls._check_classifier(estimator)
        values, cases = kept.kept_values(estimator, X), kept.case_values(estimator)
        names = _two_numbers(estimator, values) if features is None else tuple(features)
        bad = [name for name in names if name not in values or values[name].dtype == object]
        if len(set(names)) != 2 or bad:
            raise ValueError(f"features={list(names)} must be two kept numeric features of {list(values)}")
        held = {name: _held(name, column, reference) for name, column in values.items() if name not in names}
        found = _sliced(estimator, (names[0], names[1]), values, held)
        pulls = kept.case_pulls(estimator)
        speaks_for = (pulls[:, 0] > 0).astype(int) if pulls.shape[1] == 1 else np.argmax(pulls, axis=1)
        points = np.column_stack([cases[name] for name in names])
        return cls(found, classes=estimator.classes_.tolist(), cases=points, speaks_for=speaks_for).plot(ax)

    def plot(self, ax: Any = None) -> DecisionBoundaryDisplay:
        """Draw."""
        axis = self._panels(ax, (1, 1), (6.8, 4.4))[0, 0]
        (self._two_classes if self.slice.decision.shape[2] == 1 else self._regions)(axis)
        self.case_points_: dict[Any, Any] = {}
        for c in np.unique(self.speaks_for):
            x, y = self.cases[self.speaks_for == c].T
            look = {"marker": MARKERS[c % len(MARKERS)], "color": self._colours[c], "edgecolors": "white"}
            self.case_points_[self.classes[c]] = axis.scatter(x, y, s=55, linewidths=1.0, zorder=3, **look)
        names = [f"for {label(c, 18)}" for c in self.case_points_]
        axis.set(xlabel=label(self.slice.features[0], 40), ylabel=label(self.slice.features[1], 40))
        handles = list(self.case_points_.values())
        if self.slice.decision.shape[2] == 1:
            axis.legend(handles, names, title="kept cases", fontsize="small", framealpha=0.9)
        else:
            legend_beside(axis, handles, names, "kept cases")
        return self

    @property
    def _colours(self) -> list[str]:
        """One per class; of two, those of minus and plus."""
        n = len(self.classes)
        return [MINUS, PLUS] if n == 2 else [COLOURS[c % len(COLOURS)] for c in range(n)]

    def _two_classes(self, ax: Any) -> None:
        found = self.slice
        z = found.decision[:, :, 0]
        top = float(np.max(np.abs(z))) or 1.0
        levels = top * np.arange(-6, 7) / 6
        self.surface_ = ax.contourf(found.x, found.y, z, levels=levels, cmap="RdBu", alpha=0.8)
        crosses = z.min() < 0 < z.max()
        self.boundary_ = [ax.contour(found.x, found.y, z, levels=[0.0], colors="black")] if crosses else []
        words = f"decision value, above zero speaks for {label(self.classes[1], 18)}"
        bar = ax.figure.colorbar(self.surface_, ax=ax, label=words, format="%+.2g", ticks=levels[::2])
        bar.ax.axhline(0.0, color="black", linewidth=1.5)

    def _regions(self, ax: Any) -> None:
        found = self.slice
        ranked = np.sort(found.decision, axis=2)
        best = found.decision == ranked[:, :, -1:]
        lead = found.decision - np.where(best, ranked[:, :, -2:-1], ranked[:, :, -1:])  # over the best of the others
        edges = np.arange(len(self.classes) + 1) - 0.5
        winner = np.argmax(found.decision, axis=2)
        self.surface_ = ax.contourf(found.x, found.y, winner, levels=edges, colors=self._colours, alpha=0.3)
        won = [c for c in np.unique(winner) if lead[:, :, c].min() < 0]
        self.boundary_ = [ax.contour(found.x, found.y, lead[:, :, c], levels=[0.0], colors="black") for c in won]
        for c in np.unique(winner):
            x, y = self._open_place(winner == c)
            ax.text(x, y, label(self.classes[c]), ha="center", va="center", fontsize="small")

    def _open_place(self, region: np.ndarray) -> tuple[float, float]:
        """The point of a region (b, a) that is furthest from its edge and from the kept cases."""
        found, free = self.slice, np.pad(region, 1)
        rows, columns = (
            np.searchsorted(axis, values).clip(0, len(axis) - 1)
            for axis, values in ((found.y, self.cases[:, 1]), (found.x, self.cases[:, 0]))
        )
        free[rows + 1, columns + 1] = False
        b, a = np.unravel_index(np.argmax(distance_transform_edt(free)), free.shape)
        return float(found.x[a - 1]), float(found.y[b - 1])


def _two_numbers(estimator: KernelClassifier, values: dict[str, np.ndarray]) -> tuple[str, ...]:
    """The two numeric features with the largest shares of variation, those of their groups included."""
    found, distinct = kept.kept_features(estimator), list(dict.fromkeys(kept.parts(estimator)))
    share = dict.fromkeys((name for name in values if values[name].dtype != object), 0.0)
    for part, variation in zip(distinct, found.variation.sum(axis=0), strict=True):
        for name in set(part) & set(share):
            share[name] += float(variation)
    if len(share) < 2:
        raise ValueError(f"the model keeps {len(share)} numeric features: a slice needs two")
    return tuple(sorted(share, key=lambda name: -share[name])[:2])


def _held(name: str, column: np.ndarray, reference: int | Mapping[str, Any] | None) -> Any:
    """The value at which a feature is held."""
    if isinstance(reference, Mapping) and name in reference:
        return reference[name]
    if reference is not None and not isinstance(reference, Mapping):
        return column[reference]
    if column.dtype != object:
        return float(np.nanmedian(column)) if np.isfinite(column).any() else np.nan
    known = [v for v in column if v is not None]
    return max(dict.fromkeys(known), key=known.count) if known else None


def _sliced(
    estimator: KernelClassifier, names: tuple[str, str], values: dict[str, np.ndarray], held: dict[str, Any]
) -> Slice:
    """Decisions over the ranges of two features."""
    ends = [(float(np.nanmin(values[name])), float(np.nanmax(values[name]))) for name in names]
    x, y = (np.linspace(a - MARGIN * (b - a), b + MARGIN * (b - a), RESOLUTION) for a, b in ends)
    grid = dict(zip(names, (g.ravel() for g in np.meshgrid(x, y)), strict=True))
    for name, value in held.items():
        column = np.full(RESOLUTION**2, value, dtype=values[name].dtype)
        grid[name] = column
    decision = np.asarray(estimator.decision_function(grid)).reshape(RESOLUTION, RESOLUTION, -1)
    return Slice(names, x, y, decision, held)
