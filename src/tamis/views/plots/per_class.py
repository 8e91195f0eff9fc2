"""PrototypesPerClassDisplay: how many prototypes each class has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.base.prototypes import Prototype, PrototypeClassifier
from tamis.views.plots.drawing import PLUS, Display, name_rows


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
    texts_ : what is said of each class
    """

    def __init__(self, classes: Sequence[Any], prototypes: Sequence[Prototype]):
        self.classes = classes
        self.prototypes = prototypes

    @classmethod
    def from_estimator(cls, estimator: PrototypeClassifier, *, ax: Any = None) -> PrototypesPerClassDisplay:
        """Draw the prototypes of a fitted classifier."""
        cls._check_matplotlib()
        cls._check_classifier(estimator)
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
