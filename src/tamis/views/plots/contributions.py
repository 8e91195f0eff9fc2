"""What a model keeps and how its decisions add up: importance, stability of the selection, contributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from tamis.base import explaining
from tamis.base.estimator import KernelEstimator
from tamis.explain.explanation import PREDICTION, Explanation, Kept
from tamis.explain.intervals import Interval
from tamis.explain.measures import Stability
from tamis.results.text import shortened
from tamis.views.plots.drawing import (
    COLOURS,
    HATCH,
    PLAIN,
    PLUS,
    SCALE,
    Display,
    cell_texts,
    decision_name,
    label,
    legend_beside,
    name_rows,
    signed_bars,
)
from tamis.views.studies import stability_across_folds

MAX_KEPT = 30  # rows of a panel of importance, unless the caller wants more
MAX_NUMBERED_FEATURES = 14  # of a heat map whose cells hold numbers
MAX_PARTS = 20  # of a waterfall or beeswarm that get a line of their own
KINDS = ("waterfall", "beeswarm")


@dataclass(eq=False, repr=False)
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

    features: Kept
    cases: Kept
    _: KW_ONLY
    outputs: Sequence[Any]

    @classmethod
    def from_estimator(
        cls, estimator: KernelEstimator, *, of: str = "both", ax: Any = None, max_display: int = MAX_KEPT
    ) -> ImportanceDisplay:
        """Draw what a fitted classifier keeps; see `plot`."""
        cls._check_matplotlib()
        display = cls(
            explaining.kept_features(estimator), explaining.kept_cases(estimator), outputs=explaining.outputs(estimator)
        )
        return display.plot(ax, of=of, max_display=max_display)

    def plot(self, ax: Any = None, *, of: str = "both", max_display: int = MAX_KEPT) -> ImportanceDisplay:
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
            axes[-1, 0].set_title(f"likeness to a case with + favours {label(self.outputs[0])}", fontsize="small")
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


@dataclass(eq=False, repr=False)
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

    stability: Stability

    @classmethod
    def from_estimator(
        cls, estimator: KernelEstimator, X: Any, y: Any, *, cv: Any = 5, groups: Any = None, ax: Any = None
    ) -> StabilityDisplay:
        """Fit the same kind of model on folds, and draw how well the choices of features agree.

        Parameters
        ----------
        estimator : a search must be fitted; its choices are kept
        X, y, cv, groups : as in `tamis.views.studies.stability_across_folds`
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
        if n <= MAX_NUMBERED_FEATURES:
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
                f"agreement of folds: Jaccard {_with_interval(found.jaccard)}, "
                f"above chance {_with_interval(found.kuncheva)},\n"
                f"of correlated features {_with_interval(found.correlated)}",
                fontsize="small",
            )
        return self


def _with_interval(interval: Interval) -> str:
    """An estimate with its interval, where it has one."""
    if not np.isfinite(interval.low):
        return f"{interval.value:.2f}"
    return f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})"


@dataclass(eq=False, repr=False)
class ContributionDisplay(Display):
    """Contributions of parts (features, groups) or of kept cases to decisions.

    Parameters
    ----------
    contributions : (rows, parts) to one output
    base_value : the decision when nothing contributes
    names : of the parts
    rows : names of the rows
    output : name of the output
    values : (rows, parts) values of the features, or None

    Attributes
    ----------
    decision : (rows,) base value plus contributions
    figure_, ax_ : figure and axes
    bars_ : of the waterfall, the bar container, the largest contribution first
    points_ : of the beeswarm, one collection per line, the largest mean modulus first; colours are ranks
        of the values of the feature, grey where there is none
    """

    contributions: np.ndarray
    _: KW_ONLY
    base_value: float
    names: Sequence[Any]
    rows: Sequence[Any]
    output: Any
    values: np.ndarray | None = None

    @property
    def decision(self) -> np.ndarray:
        """Base value plus contributions (rows,)."""
        return self.base_value + self.contributions.sum(axis=1)

    @classmethod
    def from_estimator(cls, estimator: KernelEstimator, X: Any, **options: Any) -> ContributionDisplay:
        """Explain rows and draw, with the values of the features; options as in `from_explanation`."""
        cls._check_matplotlib()
        return cls.from_explanation(estimator.explain(X), data=explaining.kept_values(estimator, X), **options)

    @classmethod
    def from_explanation(
        cls,
        explanation: Explanation,
        *,
        kind: str = "waterfall",
        by: str = "part",
        row: int = 0,
        output: Any = None,
        data: Any = None,
        max_display: int = MAX_PARTS,
        ax: Any = None,
    ) -> ContributionDisplay:
        """Draw an explanation.

        Parameters
        ----------
        explanation : what `explain` gives
        kind : {"waterfall", "beeswarm"}
            One row from its base value to its decision, or all rows at once.
        by : {"part", "instance"}
            Contributions of features and groups of features, or of kept cases.
        row : position of the row of a waterfall
        output : name of the output; None: the only one, or the class with the largest decision about
            `row` (waterfall), or the first (beeswarm)
        data : values of the features, as in `Explanation.part_values`
        max_display : most lines; the smallest contributions are added up in the last one
        ax : axes
        """
        cls._check_matplotlib()
        if by not in ("part", "instance"):
            raise ValueError(f"by={by!r} is unknown: use 'part' or 'instance'")
        if not -len(explanation.rows) <= row < len(explanation.rows):
            raise ValueError(f"row={row!r} is not the position of one of {len(explanation.rows)} explained rows")
        outputs = list(explanation.outputs)
        if output is None:
            q = int(np.argmax(explanation.decision[row])) if kind == "waterfall" else 0
        elif output in outputs:
            q = outputs.index(output)
        else:
            raise ValueError(f"output={output!r} is not explained: use one of {outputs}")
        of_parts = by == "part"
        display = cls(
            (explanation.by_part if of_parts else explanation.by_instance)[:, q],
            base_value=float(explanation.base_value[q]),
            names=explanation.part_names if of_parts else [f"case {name}" for name in explanation.instances],
            rows=explanation.rows,
            output=outputs[q],
            values=explanation.part_values(data) if of_parts and data is not None else None,
        )
        return display.plot(ax, kind=kind, row=row, max_display=max_display)

    def plot(
        self, ax: Any = None, *, kind: str = "waterfall", row: int = 0, max_display: int = MAX_PARTS
    ) -> ContributionDisplay:
        """Draw; parameters as in `from_explanation`."""
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r} is unknown: use one of {KINDS}")
        rows = np.array([row]) if kind == "waterfall" else np.arange(len(self.rows))
        order = np.argsort(-np.abs(self.contributions[rows]).mean(axis=0), kind="stable")
        if len(order) > max_display:
            order, others = order[: max_display - 1], order[max_display - 1 :]
        else:
            others = order[:0]
        lines = min(max_display, len(self.names))
        axis = self._panels(ax, (1, 1), (6.8, 1.6 + 0.3 * max(2, lines)))[0, 0]
        draw = self._waterfall if kind == "waterfall" else self._beeswarm
        draw(axis, rows, order, others)
        return self

    @property
    def _favoured(self) -> str:
        return "" if self.output == PREDICTION else f", above zero favours {label(self.output)}"

    def _lines(self, rows: np.ndarray, order: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, list[str]]:
        """Contributions (rows, lines) and the names of the lines."""
        values, names = self.contributions[rows][:, order], [shortened(self.names[k], 44) for k in order]
        if len(others):
            values = np.column_stack([values, self.contributions[rows][:, others].sum(axis=1)])
            names.append(f"{len(others)} others")
        return values, names

    def _waterfall(self, ax: Any, rows: np.ndarray, order: np.ndarray, others: np.ndarray) -> None:
        (values,), names = self._lines(rows, order, others)
        if self.values is not None:
            cells = [self.values[rows[0], k] for k in order]
            for k, cell in enumerate(cells):
                names[k] += "" if cell != cell else f" = {shortened(f'{cell:.4g}' if _is_number(cell) else cell, 14)}"
        n, decision = len(values), float(self.decision[rows[0]])
        ends = decision - np.r_[0.0, np.cumsum(values)]  # from the decision at the top down to the base value
        self.bars_ = signed_bars(ax, values, at=np.arange(n), left=ends[1:])
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.85}
        ax.bar_label(self.bars_, [f"{v:+.3g}" for v in values], padding=2, fontsize="small", bbox=box)
        ax.vlines(ends[1:-1], np.arange(n - 1), np.arange(1, n), color=PLAIN, linewidth=0.8)
        name_rows(ax, names, width=62)
        ax.axvline(self.base_value, color=PLAIN, linestyle=":")
        ax.axvline(decision, color="black", linestyle="--", linewidth=0.9)
        low, high = min(*ends, self.base_value), max(*ends, self.base_value)
        room = 0.2 * ((high - low) or 1.0)  # for the numbers next to the bars
        ax.set_xlim(low - room, high + room)
        ax.set_xlabel(f"decision value{self._favoured}" if self._favoured else PREDICTION)
        words = f"base value {self.base_value:.4g} (dotted), {decision_name(self.output)} {decision:.4g} (dashed)"
        ax.set_title(f"row {label(self.rows[rows[0]])}: {words}", fontsize="small")

    def _beeswarm(self, ax: Any, rows: np.ndarray, order: np.ndarray, others: np.ndarray) -> None:
        values, names = self._lines(rows, order, others)
        span = float(np.ptp(values)) or 1.0
        self.points_, coloured = [], None
        for k, column in enumerate(values.T):
            y = k + _spread(column, span)
            rank = None if self.values is None or k >= len(order) else _ranks(self.values[:, order[k]])
            if rank is None:
                self.points_.append(ax.scatter(column, y, s=10, color=PLAIN, linewidths=0.0))
                continue
            known = np.isfinite(rank)
            ax.scatter(column[~known], y[~known], s=10, color=PLAIN, linewidths=0.0)
            coloured = ax.scatter(
                column[known], y[known], c=rank[known], cmap=SCALE, vmin=0, vmax=1, s=10, linewidths=0.0
            )
            self.points_.append(coloured)
        name_rows(ax, names, width=62)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_xlabel(f"contribution to the {decision_name(self.output)}{self._favoured}")
        ax.set_title(f"{len(rows)} rows, base value {self.base_value:.3g}", fontsize="small")
        if coloured is not None:
            bar = ax.figure.colorbar(coloured, ax=ax, ticks=[0.0, 1.0], label="feature value")
            bar.ax.set_yticklabels(["low", "high"])


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float | np.number) and not isinstance(cell, bool)


def _ranks(values: np.ndarray) -> np.ndarray | None:
    """Ranks in [0, 1], NaN for missing cells; None for a category or where nothing is known."""
    if not all(_is_number(v) for v in values):
        return None
    values = values.astype(float)
    known = np.isfinite(values)
    if not known.any():
        return None
    distinct, place = np.unique(values[known], return_inverse=True)
    out = np.full(len(values), np.nan)
    out[known] = place / max(1, len(distinct) - 1)
    return out


def _spread(x: np.ndarray, span: float) -> np.ndarray:
    """Heights within (-0.4, 0.4) that keep points of nearly equal x apart."""
    cell = np.floor(100.0 * (x - x.min()) / span).astype(int)
    order = np.argsort(cell, kind="stable")
    counts = np.bincount(cell)
    within = np.empty(len(x), dtype=int)
    within[order] = np.arange(len(x)) - np.repeat(np.cumsum(counts) - counts, counts)
    step = min(0.08, 0.8 / max(1, counts.max()))
    return step * np.where(within % 2 == 1, (within + 1) // 2, -(within // 2))
