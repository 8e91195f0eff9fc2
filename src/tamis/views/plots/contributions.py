"""What a model keeps and how its decisions add up: importance, stability of the selection, contributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from tamis.base import explaining
from tamis.base.classifier import ReadableClassifier
from tamis.base.estimator import ReadableEstimator
from tamis.explain import AdditiveExplanation
from tamis.explain.explanation import PREDICTION, Explanation, Kept
from tamis.explain.intervals import Interval
from tamis.explain.measures import Stability
from tamis.results.additive import shuffled_losses
from tamis.results.text import LOG_ODDS, shortened
from tamis.views.plots.drawing import (
    COLOURS,
    DECISION,
    HATCH,
    PLAIN,
    PLUS,
    SCALE,
    SCORE,
    Display,
    cell_texts,
    decision_name,
    label,
    legend_beside,
    name_rows,
    score_name,
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

    Of an additive model, if rows are given, the mean modulus of what every part contributes to their scores instead,
    and beside it by how much the log-loss grows when a feature is shuffled, if their classes are given too.

    Parameters
    ----------
    features, cases : Kept
    outputs : names of the outputs, the rows of the arrays in `features` and `cases`
    sizes : (outputs, parts) mean moduli of contributions, or None
    losses : (1, parts) growth of the log-loss, NaN for what is no feature, or None
    score : what the contributions are added to

    Attributes
    ----------
    figure_, ax_ : figure, and array of axes
    importance_bars_, variation_bars_ : lists of bar containers, one per kind and output; the first list
        is empty for a method without such factors; with `sizes` the first has these, and the second is empty
    loss_bars_ : list of one bar container, with `losses`
    """

    features: Kept
    cases: Kept
    _: KW_ONLY
    outputs: Sequence[Any]
    sizes: np.ndarray | None = None
    losses: np.ndarray | None = None
    score: str = DECISION

    @classmethod
    def from_estimator(
        cls,
        estimator: ReadableEstimator,
        X: Any = None,
        y: Any = None,
        *,
        of: str = "both",
        ax: Any = None,
        max_display: int = MAX_KEPT,
    ) -> ImportanceDisplay:
        """Draw what a fitted estimator keeps.

        Parameters
        ----------
        estimator : fitted classifier or regressor
        X : rows on which the contributions of an additive model are measured, or None
        y : their classes, with which features are shuffled; better of rows that the model has not seen; or None
        of, ax, max_display : see `plot`
        """
        cls._check_matplotlib()
        kept = explaining.kept_features(estimator), explaining.kept_cases(estimator)
        found: dict[str, Any] = {}
        if X is not None and estimator.model_.is_additive:
            found["sizes"] = np.abs(estimator.explain(X).by_part).mean(axis=0)
            if y is not None and isinstance(estimator, ReadableClassifier):
                rows = explaining.kept_values(estimator, X)
                losses = shuffled_losses(estimator, rows, np.asarray(y))
                found["losses"] = np.array([[losses.get(name, np.nan) for name in kept[0].names]])
        display = cls(*kept, outputs=explaining.outputs(estimator), score=score_name(estimator), **found)
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
        shown = {name: k for name, k in kinds.items() if of == name or (of == "both" and len(k))} or kinds
        counts = [max(1, min(len(k), max_display)) for k in shown.values()]
        if self.sizes is not None and of != "cases":
            return self._plot_sizes(ax, max_display)
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

    def _plot_sizes(self, ax: Any, max_display: int) -> ImportanceDisplay:
        """Mean moduli of contributions, and losses beside them."""
        assert self.sizes is not None
        order = np.argsort(-self.sizes.sum(axis=0), kind="stable")[:max_display]
        columns = 1 if self.losses is None else 2
        height = 0.26 * max(1.0, 0.6 * len(self.outputs)) * max(1, len(order))
        axes = self._panels(ax, (1, columns), (1.5 + 3.5 * columns, 1.4 + height))[0]
        for panel in axes:
            name_rows(panel, [self.features.names[k] for k in order])
        self.variation_bars_ = []
        self.importance_bars_ = self._bars(axes[0], self.sizes[:, order], signed=False, digits=2)
        axes[0].set_xlabel(f"moves the {decision_name(self.outputs[0], self.score)} by, on average")
        if self.losses is not None:
            axes[1].tick_params(labelleft=False)
            self.loss_bars_ = self._bars(axes[1], self.losses[:, order], signed=True, digits=3)
            axes[1].axvline(0.0, color="black", linewidth=0.8)
            axes[1].set_xlabel("log-loss added by shuffling")
        if len(self.outputs) > 1:
            legend_beside(axes[-1], self.importance_bars_, self.outputs, "class")
        return self

    def _bars(self, ax: Any, values: np.ndarray, *, signed: bool, digits: int | None = None) -> list[Any]:
        """Bars of each output (outputs, p), side by side, with numbers of so many digits; None: as percentages."""
        n, p = values.shape
        height, out = 0.8 / n, []
        known = np.isfinite(values)
        for q, row in enumerate(np.nan_to_num(values)):
            at = np.arange(p) + (q - (n - 1) / 2) * height
            if n == 1 and signed:
                bars = signed_bars(ax, row, at=at, height=height)
            else:
                bars = ax.barh(at, row, height=height, color=PLAIN if n == 1 else COLOURS[q % len(COLOURS)])
                for bar, value in zip(bars, row, strict=True):
                    bar.set(hatch=HATCH if value < 0 else None, edgecolor="white", linewidth=0.0)
            places = [digits if digits is not None else 0 if abs(v) >= 1 else 1 for v in row]
            texts = [f"{v:+.{d}f}" if signed else f"{v:.{d}f}" for v, d in zip(row, places, strict=True)]
            if digits is None:
                texts = ["" if n > 1 and abs(v) < 0.05 else text for v, text in zip(row, texts, strict=True)]
            texts = [text if there else "" for text, there in zip(texts, known[q], strict=True)]
            ax.bar_label(bars, texts, padding=2, fontsize="small" if n < 3 else "x-small")
            out.append(bars)
        ax.margins(x=0.15 if digits is None else 0.25)
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
        cls, estimator: ReadableEstimator, X: Any, y: Any, *, cv: Any = 5, groups: Any = None, ax: Any = None
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
    score : what the contributions are added to

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
    score: str = DECISION

    @property
    def decision(self) -> np.ndarray:
        """Base value plus contributions (rows,)."""
        return self.base_value + self.contributions.sum(axis=1)

    @classmethod
    def from_estimator(cls, estimator: ReadableEstimator, X: Any, **options: Any) -> ContributionDisplay:
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
            Contributions of features and groups of features, or of kept cases. In an additive model both add up
            together: the waterfall of the parts has each case in a line, and among the cases stands one line for what
            features and pairs contribute.
        row : position of the row of a waterfall
        output : name of the output; None: the only one, or the class with the largest decision about
            `row` (waterfall), or the first (beeswarm). A waterfall of an additive model of several classes shows the
            log-odds of that class against the most likely other one
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
        score = DECISION
        if isinstance(explanation, AdditiveExplanation) and outputs[q] != PREDICTION:
            score = LOG_ODDS if len(outputs) == 1 else SCORE
            if score == SCORE and kind == "waterfall":
                ranked = np.argsort(-explanation.decision[row], kind="stable").tolist()
                explanation = explanation.against(outputs[q], outputs[next(k for k in ranked if k != q)])
                outputs, q, score = list(explanation.outputs), 0, LOG_ODDS
        of_parts = by == "part"
        values = explanation.part_values(data) if of_parts and data is not None else None
        contributions = (explanation.by_part if of_parts else explanation.by_instance)[:, q]
        names = explanation.part_names if of_parts else [f"case {name}" for name in explanation.instances]
        if isinstance(explanation, AdditiveExplanation):
            if not of_parts:
                rest = explanation.decision[:, q] - explanation.base_value[q] - contributions.sum(axis=1)
                contributions = np.column_stack([rest, contributions])
                names = ["features and pairs", *names]
            elif kind == "waterfall":
                contributions, names, values = _with_each_case(explanation, row, q, values)
        display = cls(
            contributions,
            base_value=float(explanation.base_value[q]),
            names=names,
            rows=explanation.rows,
            output=outputs[q],
            values=values,
            score=score,
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
        return "" if self.output == PREDICTION else f", above zero favours {label(self.output, 60)}"

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
        form = "+.2f" if self.score == LOG_ODDS else "+.3g"
        ax.bar_label(self.bars_, [format(v, form) for v in values], padding=2, fontsize="small", bbox=box)
        ax.vlines(ends[1:-1], np.arange(n - 1), np.arange(1, n), color=PLAIN, linewidth=0.8)
        name_rows(ax, names, width=62)
        ax.axvline(self.base_value, color=PLAIN, linestyle=":")
        ax.axvline(decision, color="black", linestyle="--", linewidth=0.9)
        low, high = min(*ends, self.base_value), max(*ends, self.base_value)
        room = 0.2 * ((high - low) or 1.0)  # for the numbers next to the bars
        ax.set_xlim(low - room, high + room)
        value = "decision value" if self.score == DECISION else self.score
        ax.set_xlabel(f"{value}{self._favoured}" if self._favoured else PREDICTION)
        named = decision_name(self.output, self.score)
        number = ".2f" if self.score == LOG_ODDS else ".4g"
        words = f"base value {self.base_value:{number}} (dotted), {named} {decision:{number}} (dashed)"
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
        ax.set_xlabel(f"contribution to the {decision_name(self.output, self.score)}{self._favoured}")
        ax.set_title(f"{len(rows)} rows, base value {self.base_value:.3g}", fontsize="small")
        if coloured is not None:
            bar = ax.figure.colorbar(coloured, ax=ax, ticks=[0.0, 1.0], label="feature value")
            bar.ax.set_yticklabels(["low", "high"])


def _with_each_case(
    explanation: AdditiveExplanation, row: int, q: int, values: np.ndarray | None
) -> tuple[np.ndarray, list[str], np.ndarray | None]:
    """Contributions to one output, their names, and values: of features and pairs, and of every case by itself."""
    n = len(explanation.features) + len(explanation.pairs)
    contributions = np.concatenate([explanation.by_part[:, q, :n], explanation.by_case[:, q]], axis=1)
    alike = explanation.similarity[row]
    cases = [f"resembles case {case}: {share:.2f} of 1" for case, share in zip(explanation.instances, alike)]
    if values is not None:
        none = np.full((len(values), len(cases)), np.nan, dtype=values.dtype)
        values = np.concatenate([values[:, :n], none], axis=1)
    return contributions, [*explanation.part_names[:n], *cases], values


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
