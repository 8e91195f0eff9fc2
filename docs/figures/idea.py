"""Draw the idea in one picture: the log-odds of one row as a sum of curves, a pair and similar cases.

    python docs/figures/idea.py        writes docs/_static/idea.svg

The table, the model and the row are those of the example in the README. The picture has its own style, so that it can
stand in the README; on the site it takes the colours of the theme.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tamis import TamisClassifier

TARGET = Path(__file__).parents[1] / "_static" / "idea.svg"
ROW = 4495
LINE, TOP = 42, 66  # height of a line of the picture, and where the first one begins
NAMES, SKETCH, SKETCH_WIDTH, SKETCH_HEIGHT = 212, 232, 104, 30  # where names end and drawings begin
LEFT, RIGHT, WIDTH = 372, 740, 800  # of the bars, and of the picture
STYLE = """<style>
svg.idea { --ink: #24292f; --grey: #59636e; }
@media (prefers-color-scheme: dark) { svg.idea { --ink: #d1d7e0; --grey: #9198a1; } }
svg.idea { display: block; width: 100%; max-width: 50rem; height: auto; margin: 1.5rem auto; }
svg.idea text { font: 14px var(--pst-font-family-base, system-ui, sans-serif); }
svg.idea text { fill: var(--pst-color-text-base, var(--ink)); }
svg.idea .end { text-anchor: end; }
svg.idea .middle { text-anchor: middle; }
svg.idea .faint { fill: var(--pst-color-text-muted, var(--grey)); font-size: 12.5px; }
svg.idea .strong { font-weight: 600; }
svg.idea .number { font-variant-numeric: tabular-nums; }
svg.idea .up { fill: var(--tamis-up, #d8485c); }
svg.idea .down { fill: var(--tamis-down, #2f88b4); }
svg.idea .curve { stroke: var(--pst-color-text-base, var(--ink)); stroke-width: 1.6; fill: none; }
svg.idea .dot { fill: var(--pst-color-text-base, var(--ink)); }
svg.idea .line { stroke: var(--pst-color-text-muted, var(--grey)); fill: none; }
svg.idea .dashed { stroke-dasharray: 3 3; }
svg.idea .empty { fill: var(--pst-color-text-muted, var(--grey)); fill-opacity: 0.18; }
</style>"""  # the second value of a var() holds where there is no style sheet


@dataclass(frozen=True)
class Part:
    """One summand: two lines of words, the drawing beside them as SVG, and what it adds."""

    name: str
    words: str
    sketch: str
    added: float


@dataclass(frozen=True)
class Picture:
    """What is drawn: the base value and the summands of one score."""

    base: float
    parts: list[Part]
    classes: tuple[str, str]
    truth: str


def table(n: int = 5000) -> tuple[pd.DataFrame, np.ndarray]:
    """The made-up loans of the README."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "late payments": rng.poisson(0.7, n),
            "limit used": rng.uniform(0, 1, n).round(2),
            "age": rng.integers(20, 75, n),
            "income": rng.normal(3000, 800, n).round(-1),
            "accounts": rng.integers(1, 9, n),
        }
    )
    pair = (X["late payments"] > 0) & (X["limit used"] > 0.8)
    group = (X["age"] < 32) & (X["income"] > 3500) & (X["limit used"] < 0.6)
    log_odds = X["late payments"] - X["income"] / 1600 + 3 * pair + 3 * group - 0.6
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-log_odds)), "unpaid", "paid")


def fitted() -> Picture:
    """Fit the model of the README, and explain one row that it has not seen."""
    X, y = table()
    clf = TamisClassifier(max_features=4, max_pairs=1, max_instances=3).fit(X[:4000], y[:4000])
    row = X.loc[[ROW]]
    why = clf.explain(row)
    parts = []
    for name, added in zip(why.features, why.by_feature[0, 0], strict=True):
        value = row[name].iloc[0]
        parts.append(Part(name, f"{value:g}", _curve(*clf.curve(name), value, X[name]), float(added)))
    for (a, b), added in zip(why.pairs, why.by_pair[0, 0], strict=True):
        sketch = _surface(*clf.surface(a, b), row[a].iloc[0], row[b].iloc[0])
        parts.append(Part(f"{a} and {b}", "as a pair, in addition", sketch, float(added)))
    for case, added, near in zip(why.instances, why.by_case[0, 0], why.similarity[0], strict=True):
        words = f"{y[case]}; similar by {near:.2f} of 1"
        parts.append(Part(f"resembles case {case}", words, _bar(float(near)), float(added)))
    return Picture(float(why.base_value[0]), parts, (str(clf.classes_[0]), str(clf.classes_[1])), str(y[ROW]))


def drawn(picture: Picture) -> str:
    """Return the picture as SVG."""
    ends = picture.base + np.cumsum([0.0, *(part.added for part in picture.parts)])
    score = float(ends[-1])
    low, high = min(0.0, float(ends.min())), max(0.0, float(ends.max()))
    height = TOP + (len(picture.parts) + 2) * LINE + 54

    def at(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (value - low) / (high - low)

    predicted = picture.classes[int(score > 0)]
    lines = [
        (Part("base value", "", "", picture.base), 0.0, "base"),
        *((part, float(start), f"part{k}") for k, (part, start) in enumerate(zip(picture.parts, ends, strict=False))),
        (Part("log-odds", "the sum", "", score), 0.0, "score"),
    ]
    out = [
        f'<svg class="idea" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-labelledby="idea-title">',
        '<title id="idea-title">The log-odds of one row as a sum: the base value, a curve for each kept feature, a '
        "pair of features, and similar cases.</title>",
        STYLE,
        _text(NAMES, 26, "one row", "strong end"),
        _text(SKETCH + SKETCH_WIDTH / 2, 26, "the model", "strong middle"),
        _text((LEFT + RIGHT) / 2, 26, f"added to the log-odds of {picture.classes[1]}", "strong middle"),
        f'<path class="line dashed" d="M{at(0):.1f} {TOP - 22}V{height - 46}"/>',
        _text(at(0), TOP - 26, "0", "faint middle number"),
    ]
    for k, (part, start, key) in enumerate(lines):
        out += _line(part, TOP + k * LINE, at(start), at(start + part.added), key)
    sign = "above" if score > 0 else "below"
    out += [
        _text(
            WIDTH - 12,
            height - 18,
            f"{sign} zero: {predicted} is predicted (odds {np.exp(score):.1f} to 1); the true class is {picture.truth}",
            "faint end",
        ),
        "</svg>",
    ]
    return "\n".join(out) + "\n"


def _line(part: Part, y: float, start: float, end: float, key: str) -> list[str]:
    middle, side = y + LINE / 2, "up" if part.added > 0 else "down"
    kind = "" if key.startswith("part") else " strong"
    left, wide = min(start, end), max(abs(end - start), 1.0)
    corner = f"{SKETCH} {middle - SKETCH_HEIGHT / 2:g}"
    return [
        _text(NAMES, middle - 3 if part.words else middle + 4, part.name, f"end{kind}"),
        *([_text(NAMES, middle + 13, part.words, "faint end")] if part.words else []),
        *([f'<g transform="translate({corner})">{part.sketch}</g>'] if part.sketch else []),
        f'<rect class="{side}" x="{left:.1f}" y="{middle - 9:g}" width="{wide:.1f}" height="18" rx="2"/>',
        _text(max(start, end) + 7, middle + 5, _signed(part.added), f"number{kind}", key),
    ]


def _curve(grid: np.ndarray, values: np.ndarray, value: float, column: pd.Series) -> str:
    """A curve over the middle 99 per cent of a column, the zero line, and the row as a dot."""
    low, high = column.quantile(0.005), column.quantile(0.995)
    inside = (grid >= low) & (grid <= high)
    grid, values = grid[inside].astype(float), values[inside]
    bottom, top = min(values.min(), 0.0), max(values.max(), 0.0)

    def place(x: float, v: float) -> str:
        return (
            f"{SKETCH_WIDTH * (x - grid[0]) / (grid[-1] - grid[0]):.1f} "
            f"{SKETCH_HEIGHT * (1 - (v - bottom) / (top - bottom)):.1f}"
        )

    points = " ".join(dict.fromkeys(place(x, v) for x, v in zip(grid, values, strict=True)))
    x, y = place(value, float(np.interp(value, grid, values))).split()
    zero = place(grid[0], 0.0).split()[1]
    return (
        f'<path class="line dashed" d="M0 {zero}H{SKETCH_WIDTH}"/><polyline class="curve" points="{points}"/>'
        f'<circle class="dot" cx="{x}" cy="{y}" r="4"/>'
    )


def _surface(first: np.ndarray, second: np.ndarray, values: np.ndarray, a: float, b: float) -> str:
    """The cells of a surface, the second feature across, and the row as a dot."""
    largest, out = float(np.abs(values).max()), []
    rows, columns = values[::2], values[:, ::2].shape[1]  # both ends of each coarse cell are listed
    high, wide = SKETCH_HEIGHT / len(rows), SKETCH_WIDTH / columns
    for i, line in enumerate(rows[:, ::2]):
        for j, v in enumerate(line):
            side = "up" if v > 0 else "down"
            out.append(
                f'<rect class="{side}" x="{j * wide:.1f}" y="{SKETCH_HEIGHT - (i + 1) * high:.1f}" width="{wide:.1f}" '
                f'height="{high:.1f}" fill-opacity="{min(1.0, 0.05 + abs(v) / largest):.2f}"/>'
            )
    i, j = (int(np.searchsorted(ends[1::2], value)) for ends, value in ((first, a), (second, b)))
    cx, cy = (j + 0.5) * wide, SKETCH_HEIGHT - (i + 0.5) * high
    return "".join(out) + f'<circle class="dot" cx="{cx:.1f}" cy="{cy:.1f}" r="4"/>'


def _bar(share: float) -> str:
    """A share of one."""
    y = SKETCH_HEIGHT / 2 - 3
    return (
        f'<rect class="empty" x="0" y="{y:g}" width="{SKETCH_WIDTH}" height="6" rx="3"/>'
        f'<rect class="dot" x="0" y="{y:g}" width="{SKETCH_WIDTH * share:.1f}" height="6" rx="3"/>'
    )


def _text(x: float, y: float, words: str, kind: str, key: str = "") -> str:
    mark = f' id="idea-{key}"' if key else ""
    return f'<text class="{kind.strip()}"{mark} x="{x:.1f}" y="{y:.1f}">{words}</text>'


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\u2212")


if __name__ == "__main__":
    TARGET.write_text(drawn(fitted()))
