"""BudgetPathDisplay: a score over all budgets that a search tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tamis.views.plots.drawing import MINUS, SCALE, Display, cell_texts

WORDS = {
    "accuracy": "accuracy on held-out rows",
    "roc_auc": "area under the ROC curve on held-out rows",
    "log_loss": "log-loss on held-out rows (lower is better)",
    "squared_error": "squared error on held-out rows (lower is better)",
    "objective": "objective on training rows (lower is better)",
}
LOWER = ("log_loss", "squared_error", "objective")  # better when lower
MOST_NUMBERS = 12  # rows and columns of a heat map whose cells hold numbers


class BudgetPathDisplay(Display):
    """Heat map of a score over budgets of cases and of features, the chosen budgets framed.

    Parameters
    ----------
    path : mapping with the budgets `max_instances` (a,) and `max_features` (b,), and scores (a, b)
    score : which of the scores
    chosen : (max_instances, max_features) or None

    Attributes
    ----------
    figure_, ax_ : figure and axes
    image_, chosen_mark_, colorbar_ : heat map, frame of the chosen cell, colour bar
    """

    def __init__(self, path: Mapping[str, np.ndarray], *, score: str, chosen: tuple[int, int] | None = None):
        self.path = path
        self.score = score
        self.chosen = chosen

    @classmethod
    def from_estimator(cls, estimator: Any, *, score: str | None = None, ax: Any = None) -> BudgetPathDisplay:
        """Draw the path of an estimator; `score` None is the one that decided, or accuracy, or R2."""
        cls._check_matplotlib()
        if not hasattr(estimator, "path_"):
            raise ValueError(
                f"{type(estimator).__name__} has no path_: call path(X, y) of a TamisClassifier, or fit a search such "
                "as EM2NOLCClassifierCV"
            )
        usual = "accuracy" if "accuracy" in estimator.path_ else "r2"
        score = getattr(estimator, "scoring_", usual) if score is None else score
        names = ("max_instances", "max_features")
        found = [getattr(estimator, f"{name}_", getattr(estimator, name)) for name in names]
        on_grid = all(value in estimator.path_[name] for name, value in zip(names, found, strict=True))
        chosen = (found[0], found[1]) if on_grid else None
        return cls(estimator.path_, score=score, chosen=chosen).plot(ax)

    def plot(self, ax: Any = None) -> BudgetPathDisplay:
        """Draw."""
        cases, features = self.path["max_instances"].tolist(), self.path["max_features"].tolist()
        scores = [name for name in self.path if not name.startswith("max_")]
        if self.score not in scores:
            raise ValueError(f"score={self.score!r} is not in the path: use one of {scores}")
        values = self.path[self.score]
        size = (2.2 + 0.42 * max(6, len(features)), 1.4 + 0.32 * max(6, len(cases)))
        axis = self._panels(ax, (1, 1), size)[0, 0]
        lower = self.score in LOWER
        self.image_ = axis.imshow(values, origin="lower", cmap=SCALE + "_r" if lower else SCALE, aspect="auto")
        if max(values.shape) <= MOST_NUMBERS:
            low, high = float(np.nanmin(values)), float(np.nanmax(values))
            bright = (values - low) / ((high - low) or 1.0)
            cell_texts(axis, values, ".3f", (1.0 - bright if lower else bright) < 0.5)
        axis.set_xticks(range(len(features)), features)
        axis.set_yticks(range(len(cases)), cases)
        axis.set(xlabel="most features", ylabel="most cases")
        self.colorbar_ = axis.figure.colorbar(self.image_, ax=axis, label=WORDS.get(self.score, self.score))
        if self.chosen is not None:
            x, y = features.index(self.chosen[1]), cases.index(self.chosen[0])
            corners = np.array([[-0.5, 0.5, 0.5, -0.5, -0.5], [-0.5, -0.5, 0.5, 0.5, -0.5]])
            (self.chosen_mark_,) = axis.plot(x + corners[0], y + corners[1], color=MINUS, linewidth=3, clip_on=False)
            axis.set_title("framed: the chosen budgets", fontsize="small")
        return self
