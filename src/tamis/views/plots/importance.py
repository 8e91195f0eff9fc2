"""ImportanceDisplay: what the model keeps and how much each counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.base import kept
from tamis.base.estimator import KernelEstimator
from tamis.explain.importance import Kept
from tamis.views.plots.drawing import COLOURS, HATCH, PLAIN, Display, label, legend_beside, name_rows, signed_bars

MOST = 30  # rows of a panel, unless the caller wants more


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
