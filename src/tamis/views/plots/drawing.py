"""What the displays share: panels, colours for the colour-blind, names that fit, bars with signs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.explain.explanation import PREDICTION
from tamis.results.text import LOG_ODDS, shortened

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # of Okabe and Ito
MORE_COLOURS = (*COLOURS, "#882255", "#999933", "#332288", "#44AA99", "#8C564B", "#999999")  # with those of Tol
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
PLUS, MINUS, PLAIN = COLOURS[0], COLOURS[1], "#7F7F7F"
HATCH = "////"  # of what is negative, with its colour
COLUMNS = 3  # panels in a row
SCALE = "cividis"  # the same to the colour-blind, and in grey


def pyplot(display: str) -> Any:
    """matplotlib.pyplot, or an error that names the package to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(f"{display} needs matplotlib: pip install 'tamis[plot]'") from None
    return plt


class Display:
    """Base of the displays.

    Attributes
    ----------
    figure_ : the figure, once something is drawn
    ax_ : its axes; an array of them where the display has several panels
    """

    figure_: Any
    ax_: Any

    @classmethod
    def _check_matplotlib(cls) -> None:
        """Fail before any work is done that could not be drawn."""
        pyplot(cls.__name__)

    @classmethod
    def _check_classifier(cls, estimator: Any) -> None:
        """Fail for what has no classes."""
        if not hasattr(estimator, "classes_"):
            raise ValueError(f"{cls.__name__} needs a fitted classifier, and {type(estimator).__name__} is none")

    @classmethod
    def _check_prototypes(cls, estimator: Any) -> None:
        """Fail for what has no prototypes."""
        if not hasattr(estimator, "prototypes_"):
            name = type(estimator).__name__
            raise ValueError(f"{cls.__name__} needs a fitted classifier by prototypes, and {name} is none")

    def _panels(self, ax: Any, shape: tuple[int, int], size: tuple[float, float], **options: Any) -> np.ndarray:
        """Axes (rows, columns): those given, or those of a new figure of this size in inches."""
        plt = pyplot(type(self).__name__)
        if ax is None:
            figure, axes = plt.subplots(*shape, figsize=size, layout="constrained", squeeze=False, **options)
        else:
            axes = np.atleast_1d(np.asarray(ax, dtype=object))
            if axes.size != shape[0] * shape[1]:
                raise ValueError(
                    f"ax holds {axes.size} axes and this display has {shape[0] * shape[1]} panels: give an array of "
                    "that many axes, or None for a new figure"
                )
            axes = axes.reshape(shape)
            figure = axes.flat[0].figure
        self.figure_ = figure
        self.ax_ = axes.flat[0] if axes.size == 1 else axes.ravel()
        return axes

    def _grid(
        self, ax: Any, n: int, border: tuple[float, float], panel: tuple[float, float], **options: Any
    ) -> tuple[np.ndarray, int]:
        """Axes of `n` panels of a size in inches, row by row, and how many stand in a row."""
        columns = n if ax is not None else 2 if n == 4 else min(n, COLUMNS)
        rows = -(-n // columns)
        size = (border[0] + panel[0] * columns, border[1] + panel[1] * rows)
        axes = self._panels(ax, (rows, columns), size, **options).ravel()
        for extra in axes[n:]:
            extra.remove()
        self.ax_ = axes[0] if n == 1 else axes[:n]
        return axes[:n], columns


def label(name: Any, width: int = 28) -> str:
    """A shortened name that no part of matplotlib takes for anything but text."""
    text = shortened(name, width).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text  # legends leave out what starts so


DECISION, SCORE = "decision", "score"


def decision_name(output: Any, score: str = DECISION) -> str:
    """The word for what an estimator computes for a row."""
    return PREDICTION if output == PREDICTION else score


def score_name(estimator: Any) -> str:
    """What the decisions of an additive model are called: log-odds of two classes, scores of several, or predictions.

    The difference of two scores is a log-odds.
    """
    if not estimator.model_.is_additive:
        return DECISION
    if not hasattr(estimator, "classes_"):
        return PREDICTION
    return LOG_ODDS if len(estimator.classes_) == 2 else SCORE


def added(outputs: Sequence[Any], between: str = " ", score: str = DECISION) -> str:
    """The axis label of shapes and surfaces, with the class that positive values favour."""
    class_alone = len(outputs) == 1 and outputs[0] != PREDICTION
    towards = f"{between}(+ for {label(outputs[0], 18)})" if class_alone else ""
    return f"added to the {decision_name(outputs[0], score)}{towards}"


def line_style(k: int) -> dict[str, Any]:
    """Colour, dashes and marker of the k-th of many lines; no two of the first 28 are equal."""
    n = len(COLOURS)
    return {"color": COLOURS[k % n], "linestyle": DASHES[k // n % len(DASHES)], "marker": MARKERS[k % n]}


def point_style(q: int) -> dict[str, Any]:
    """Colour and marker of the points of the q-th class; no two of the first 91 are equal."""
    turn, place = divmod(q, len(MORE_COLOURS))
    return {"color": MORE_COLOURS[place], "marker": MARKERS[(place + turn) % len(MARKERS)]}


def class_style(q: int) -> dict[str, Any]:
    """Colour and dashes of the line of the q-th class."""
    return {"color": COLOURS[q % len(COLOURS)], "linestyle": DASHES[q % len(DASHES)]}


def legend_beside(ax: Any, handles: Sequence[Any], names: Sequence[Any], title: str | None = None) -> Any:
    """A legend to the right of the axes, where it covers nothing."""
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    return ax.legend(handles, [label(n) for n in names], title=title, frameon=False, fontsize="small", **place)


def signed_bars(ax: Any, values: np.ndarray, *, at: np.ndarray, left: Any = 0.0, height: float = 0.7) -> Any:
    """Horizontal bars of signed values from `left` at the heights `at`; negative ones are hatched too."""
    bars = ax.barh(at, values, left=left, height=height, color=[PLUS if v >= 0 else MINUS for v in values])
    for bar, value in zip(bars, values, strict=True):
        if value < 0:
            bar.set_hatch(HATCH)
            bar.set_edgecolor("white")
            bar.set_linewidth(0.0)
    return bars


def name_rows(ax: Any, names: Sequence[Any], width: int = 44) -> None:
    """Names of horizontal rows, the first at the top."""
    ax.set_yticks(np.arange(len(names)), [label(n, width) for n in names], fontsize="small")
    ax.set_ylim(max(1, len(names)) - 0.5, -0.5)


def cell_texts(ax: Any, values: np.ndarray, form: str, dark: np.ndarray) -> list[Any]:
    """Numbers in the cells of a heat map, white where the cell is `dark`."""
    return [
        ax.text(j, i, format(values[i, j], form), ha="center", va="center", fontsize="x-small",
                color="white" if dark[i, j] else "black")
        for i, j in np.ndindex(*values.shape)
    ]  # fmt: skip
