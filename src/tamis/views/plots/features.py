"""What is kept: importance, and whether folds of the rows agree on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.base import kept
from tamis.base.estimator import KernelEstimator
from tamis.explain import Kept
from tamis.explain.intervals import Interval
from tamis.explain.measures import Stability
from tamis.views.plots.drawing import (
    COLOURS,
    HATCH,
    PLAIN,
    PLUS,
    SCALE,
    Display,
    cell_texts,
    label,
    legend_beside,
    name_rows,
    signed_bars,
)
from tamis.views.studies.across_folds import stability_across_folds

MOST = 30  # rows of a panel, unless the caller wants more
MOST_NUMBERS = 14  # features of a heat map whose cells hold numbers


class ImportanceDisplay(Display):
    """Kept features and kept cases: signed importance, and share in the variation of the decision.

    Parameters
    ----------
    features, cases : Kept
    outputs : names of the outputs, the rows of the arrays in `features` and `cases`

    Attributes
    ----------
    figure_, ax_ : figure, and array of axes
    importance_bars_, variation_bars_ : lists of bar containers, one per kind and output; the first list
        is empty for a method without such factors
    """

    def __init__(self, features: Kept, cases: Kept, *, outputs: Sequence[Any]):
        self.features = features
        self.cases = cases
        self.outputs = outputs

    @classmethod
    def from_estimator(
        cls, estimator: KernelEstimator, *, of: str = "both", ax: Any = None, max_display: int = MOST
    ) -> ImportanceDisplay:
        """Draw what a fitted classifier keeps; see `plot`."""
        cls._check_matplotlib()
        display = cls(kept.kept_features(estimator), kept.kept_cases(estimator), outputs=kept.outputs(estimator))
        return display.plot(ax, of=of, max_display=max_display)

    def plot(self, ax: Any = None, *, of: str = "both", max_display: int = MOST) -> ImportanceDisplay:
        """Draw.

        Parameters
        ----------
        ax : axes, as many as there are panels: a row each for features and for cases, a column each for
            importance and for variation
        of : {"both", "features", "cases"}
        max_display : most features and most cases, those with the largest share of variation
        """
        kinds = {"features": self.features, "cases": self.cases}
        if of not in ("both", *kinds):
            raise ValueError(f"of={of!r} is unknown: use 'both', 'features' or 'cases'")
        shown = {name: k for name, k in kinds.items() if of in ("both", name)}
        counts = [max(1, min(len(k), max_display)) for k in shown.values()]
        signed = any(k.importance is not None for k in shown.values())
        height = 0.26 * max(1.0, 0.6 * len(self.outputs))
        size = (8.5 if signed else 5.5, 1.0 * len(shown) + height * sum(counts) + 0.4)
        axes = self._panels(ax, (len(shown), 1 + signed), size, gridspec_kw={"height_ratios": counts})
        self.importance_bars_: list[Any] = []
        self.variation_bars_: list[Any] = []
        for row, (name, found) in zip(axes, shown.items(), strict=True):
            order = found.order[:max_display]
            for panel in row:
                name_rows(panel, [found.names[k] for k in order])
            row[0].set_ylabel(f"kept {name}")
            if found.importance is not None:
                row[1].tick_params(labelleft=False)
                self.importance_bars_ += self._bars(row[0], found.importance[:, order], signed=True)
                row[0].set_xlabel("importance (signed %)")
                row[0].axvline(0.0, color="black", linewidth=0.8)
            self.variation_bars_ += self._bars(row[-1], found.variation[:, order], signed=False)
            row[-1].set_xlabel("share of variation (%)")
        if len(self.outputs) > 1:
            bars = self.variation_bars_[: len(self.outputs)]
            legend_beside(axes[0, -1], bars, self.outputs, "class")
        elif signed and "cases" in shown:
            axes[-1, 0].set_title(f"likeness to a case with + speaks for {label(self.outputs[0])}", fontsize="small")
        return self

    def _bars(self, ax: Any, values: np.ndarray, *, signed: bool) -> list[Any]:
        """Bars of each output (outputs, p), side by side."""
        n, p = values.shape
        height, out = 0.8 / n, []
        for q, row in enumerate(values):
            at = np.arange(p) + (q - (n - 1) / 2) * height
            if n == 1 and signed:
                bars = signed_bars(ax, row, at=at, height=height)
            else:
                bars = ax.barh(at, row, height=height, color=PLAIN if n == 1 else COLOURS[q % len(COLOURS)])
                for bar, value in zip(bars, row, strict=True):
                    bar.set(hatch=HATCH if value < 0 else None, edgecolor="white", linewidth=0.0)
            digits = [0 if abs(v) >= 1 else 1 for v in row]
            texts = [f"{v:+.{d}f}" if signed else f"{v:.{d}f}" for v, d in zip(row, digits, strict=True)]
            texts = ["" if n > 1 and abs(v) < 0.05 else text for v, text in zip(row, texts, strict=True)]
            ax.bar_label(bars, texts, padding=2, fontsize="small" if n < 3 else "x-small")
            out.append(bars)
        ax.margins(x=0.15)
        return out


class StabilityDisplay(Display):
    """Two panels over the features that some fold chose: the folds that chose them, and their correlation.

    Parameters
    ----------
    stability : Stability

    Attributes
    ----------
    figure_, ax_ : figure, and the axes of the choices and of the correlation
    chosen_marks_, image_, colorbar_ : squares of the choices, heat map, colour bar
    """

    def __init__(self, stability: Stability):
        self.stability = stability

    @classmethod
    def from_estimator(
        cls, estimator: KernelEstimator, X: Any, y: Any, *, cv: Any = 5, groups: Any = None, ax: Any = None
    ) -> StabilityDisplay:
        """Fit the same kind of model on folds, and draw how well the choices of features agree.

        Parameters
        ----------
        estimator : a search must be fitted; its choices are kept
        X, y, cv, groups : as in `tamis.views.studies.across_folds.stability_across_folds`
        ax : two axes
        """
        cls._check_matplotlib()
        return cls(stability_across_folds(estimator, X, y, cv, groups)).plot(ax)

    def plot(self, ax: Any = None) -> StabilityDisplay:
        """Draw; `ax` may be two axes."""
        found = self.stability
        n_folds, n = found.chosen.shape
        if not n:
            raise ValueError("no fold chose a feature: there is nothing to draw")
        side = 0.3 * max(n, 5)
        size = (3.4 + 0.3 * max(n_folds, 4) + side, 2.1 + side)
        options = {"width_ratios": [max(n_folds, 4), max(n, 5)]}
        left, right = self._panels(ax, (1, 2), size, gridspec_kw=options).ravel()
        feature, fold = np.nonzero(found.chosen.T)
        self.chosen_marks_ = left.scatter(fold, feature, marker="s", s=70, color=PLUS)
        left.set_xticks(range(n_folds), range(1, n_folds + 1))
        left.set_xlim(-0.5, n_folds - 0.5)
        left.set(xlabel="fold", title="chosen (square)")
        self.image_ = right.imshow(found.correlation, cmap=SCALE, vmin=0.0, vmax=1.0, aspect="auto")
        if n <= MOST_NUMBERS:
            cell_texts(right, found.correlation, ".2f", found.correlation < 0.5)
        name_rows(left, found.features)
        name_rows(right, [""] * n)
        right.set_xticks(range(n), [label(name) for name in found.features], rotation=90, fontsize="small")
        right.set_title("correlation (absolute)")
        for panel in (left, right):
            panel.title.set_fontsize("medium")
            panel.tick_params(length=0)
        left.grid(color="0.9", linewidth=0.6)
        left.set_axisbelow(True)
        self.colorbar_ = right.figure.colorbar(self.image_, ax=right)
        if ax is None:
            self.figure_.suptitle(
                f"agreement of folds: Jaccard {_words(found.jaccard)}, above chance {_words(found.kuncheva)},\n"
                f"of correlated features {_words(found.correlated)}",
                fontsize="small",
            )
        return self


def _words(interval: Interval) -> str:
    """An estimate with its interval, where it has one."""
    if not np.isfinite(interval.low):
        return f"{interval.value:.2f}"
    return f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})"
