"""ContributionDisplay: how decisions come about, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.base import kept
from tamis.base.estimator import KernelEstimator
from tamis.explain.explanation import PREDICTION, Explanation
from tamis.results.text import shortened
from tamis.views.plots.drawing import PLAIN, SCALE, Display, decision_name, label, name_rows, signed_bars

MOST = 20  # parts that get a line of their own
KINDS = ("waterfall", "beeswarm")


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

    def __init__(
        self,
        contributions: np.ndarray,
        *,
        base_value: float,
        names: Sequence[Any],
        rows: Sequence[Any],
        output: Any,
        values: np.ndarray | None = None,
    ):
        self.contributions = contributions
        self.base_value = base_value
        self.names = names
        self.rows = rows
        self.output = output
        self.values = values

    @property
    def decision(self) -> np.ndarray:
        """Base value plus contributions (rows,)."""
        return self.base_value + self.contributions.sum(axis=1)

    @classmethod
    def from_estimator(cls, estimator: KernelEstimator, X: Any, **options: Any) -> ContributionDisplay:
        """Explain rows and draw, with the values of the features; options as in `from_explanation`."""
        cls._check_matplotlib()
        return cls.from_explanation(estimator.explain(X), data=kept.kept_values(estimator, X), **options)

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
        max_display: int = MOST,
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
        self, ax: Any = None, *, kind: str = "waterfall", row: int = 0, max_display: int = MOST
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
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.85}
        ax.bar_label(self.bars_, [f"{v:+.3g}" for v in values], padding=2, fontsize="small", bbox=ground)
        ax.vlines(ends[1:-1], np.arange(n - 1), np.arange(1, n), color=PLAIN, linewidth=0.8)
        name_rows(ax, names, width=62)
        ax.axvline(self.base_value, color=PLAIN, linestyle=":")
        ax.axvline(decision, color="black", linestyle="--", linewidth=0.9)
        low, high = min(*ends, self.base_value), max(*ends, self.base_value)
        room = 0.2 * ((high - low) or 1.0)  # for the numbers beside the bars
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
