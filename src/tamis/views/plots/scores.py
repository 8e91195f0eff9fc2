"""KSCurveDisplay: how far apart the scores of two classes are."""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.results.data import Curve
from tamis.results.describe import curve_of
from tamis.views.plots.drawing import COLOURS, Display, label


class KSCurveDisplay(Display):
    """The distributions of the scores of two classes, and the Kolmogorov-Smirnov distance between them.

    Parameters
    ----------
    curve : Curve

    Attributes
    ----------
    figure_, ax_ : figure and axes
    negative_line_, positive_line_, gap_line_ : lines; the last one marks the distance
    """

    def __init__(self, curve: Curve):
        self.curve = curve

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, pos_label: Any = None, ax: Any = None) -> KSCurveDisplay:
        """Draw the decision values of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier with `decision_function`
        X, y : rows, preferably rows that the classifier has not seen, and their classes
        pos_label : the class to set against all others; None: ``classes_[1]`` of two
        ax : axes
        """
        cls._check_matplotlib()
        cls._check_classifier(estimator)
        classes = estimator.classes_.tolist()
        if pos_label is None and len(classes) == 2:
            pos_label = classes[1]
        if pos_label not in classes:
            raise ValueError(f"pos_label={pos_label!r} is not a class: use one of {classes}")
        score = np.asarray(estimator.decision_function(X), dtype=float)
        if score.ndim == 2:
            score = score[:, classes.index(pos_label)]
        elif pos_label == classes[0]:
            score = -score
        return cls.from_predictions(y, score, pos_label=pos_label, ax=ax)

    @classmethod
    def from_predictions(cls, y_true: Any, y_score: Any, *, pos_label: Any = None, ax: Any = None) -> KSCurveDisplay:
        """Draw given scores.

        Parameters
        ----------
        y_true : (n,) classes
        y_score : (n,) numbers that should be high for `pos_label`
        pos_label : None: the greater of two classes
        ax : axes
        """
        cls._check_matplotlib()
        y_true, y_score = np.asarray(y_true), np.asarray(y_score, dtype=float)
        labels = np.unique(y_true).tolist()
        if pos_label is None:
            if len(labels) != 2:
                raise ValueError(f"y_true has the classes {labels}: name the positive one by pos_label")
            pos_label = labels[1]
        if pos_label not in labels or len(labels) < 2:
            raise ValueError(f"y_true has the classes {labels}: rows of pos_label={pos_label!r} and others are needed")
        return cls(curve_of(y_true == pos_label, y_score, pos_label)).plot(ax)

    def plot(self, ax: Any = None) -> KSCurveDisplay:
        """Draw."""
        axis = self._panels(ax, (1, 1), (5.5, 4.0))[0, 0]
        found = self.curve
        x, at = np.r_[found.threshold[0], found.threshold], int(np.argmin(np.abs(found.threshold - found.ks_at)))
        lines = []
        for share, name, dash, colour in (
            (found.negative, "other rows", "--", COLOURS[1]),
            (found.positive, f"rows of class {label(found.label)}", "-", COLOURS[0]),
        ):
            lines += axis.step(x, np.r_[0.0, share], where="post", linestyle=dash, color=colour, label=name)
        self.negative_line_, self.positive_line_ = lines
        ends = [found.negative[at], found.positive[at]]
        words = f"KS {found.ks.value:.2f} (95% interval {found.ks.low:.2f} to {found.ks.high:.2f})"
        (self.gap_line_,) = axis.plot([found.ks_at] * 2, ends, color="black", marker="_", markersize=9, label=words)
        axis.set(xlabel="decision value", ylabel="share of rows with at most this value", ylim=(-0.02, 1.02))
        axis.legend(loc="upper left", bbox_to_anchor=(0.0, -0.16), frameon=False, fontsize="small", borderaxespad=0.0)
        return self
