"""StabilityDisplay: which fold chose what, and how alike the chosen features are."""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.base.estimator import KernelEstimator
from tamis.explain.intervals import Interval
from tamis.explain.stability import Stability
from tamis.views.plots.drawing import PLUS, SCALE, Display, cell_texts, label, name_rows
from tamis.views.studies.across_folds import stability_across_folds

MOST_NUMBERS = 14  # features of a heat map whose cells hold numbers


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
                f"agreement of folds: Jaccard {_words(found.jaccard)}, beyond chance {_words(found.kuncheva)},\n"
                f"of correlated features {_words(found.correlated)}",
                fontsize="small",
            )
        return self


def _words(interval: Interval) -> str:
    """An estimate with its interval, where it has one."""
    if not np.isfinite(interval.low):
        return f"{interval.value:.2f}"
    return f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})"
