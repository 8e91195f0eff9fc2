"""Draw the idea in one picture: the log-odds of one row as a sum of curves, a pair and two cases.

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
ROW = 3330
LINE, TOP, BAR = 44, 62, 18  # height of a line of the picture, where the first one begins, and height of a bar
NAMES, SKETCH, SKETCH_WIDTH, SKETCH_HEIGHT = 212, 232, 104, 36  # where names end and drawings begin
LEFT, RIGHT, NUMBERS, WIDTH = 376, 712, 780, 800  # of the bars, where numbers end, and of the picture
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
svg.idea .step { stroke: var(--pst-color-text-muted, var(--grey)); stroke-opacity: 0.6; }
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
    """What is drawn: the base value and the summands of one score, and how probable the predicted class is."""

    base: float
    parts: list[Part]
    classes: tuple[str, ...]
    truth: str
    probability: float


def table(n: int = 4000) -> tuple[pd.DataFrame, np.ndarray]:
    """The made-up loans of the README."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "late payments": rng.poisson(0.7, n),
            "limit used": rng.uniform(0, 1, n).round(2),
            "income": rng.normal(3000, 800, n).round(-1),
            "age": rng.integers(20, 75, n),
        }
    )
    risky = (X["late payments"] > 0) & (X["limit used"] > 0.7) & (X["age"] < 60)
    odds = np.exp(X["late payments"] - X["income"] / 1600 + 4 * risky)
    return X, np.where(rng.random(n) < odds / (1 + odds), "unpaid", "paid")


def fitted() -> Picture:
    """Fit the model of the README, and explain one row that it has not seen."""
    X, y = table()
    clf = TamisClassifier(max_features=4, max_pairs=1, max_instances=2).fit(X[:3000], y[:3000])
    row = X.loc[[ROW]]
    why = clf.explain(row)
    parts = []
    curves = {name: _middle(*clf.curve(name), X[name]) for name in why.features}
    ends = [end for _, values in curves.values() for end in (values.min(), values.max())]
    for name, added in zip(why.features, why.by_feature[0, 0], strict=True):
        value = row[name].iloc[0]
        parts.append(Part(name, f"{value:g}", _curve(*curves[name], value, min(ends), max(ends)), float(added)))
    for (a, b), added in zip(why.pairs, why.by_pair[0, 0], strict=True):
        sketch = _surface(*clf.surface(a, b), row[a].iloc[0], row[b].iloc[0])
        parts.append(Part(f"{a} \u00d7 {b}", "both together", sketch, float(added)))
    for case, added, near in zip(why.instances, why.by_case[0, 0], why.similarity[0], strict=True):
        parts.append(Part(f"case {case} ({y[case]})", f"similarity {near:.2f}", _bar(float(near)), float(added)))
    probability = float(clf.predict_proba(row).max())
    return Picture(float(why.base_value[0]), parts, tuple(map(str, clf.classes_)), str(y[ROW]), probability)


def drawn(picture: Picture) -> str:
    """Return the picture as SVG."""
    ends = picture.base + np.cumsum([0.0, *(part.added for part in picture.parts)])
    score = float(ends[-1])
    low, high = min(0.0, float(ends.min())), max(0.0, float(ends.max()))
    bottom = TOP + (len(picture.parts) + 2) * LINE + 8
    height = bottom + 44

    def at(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (value - low) / (high - low)

    lines = [
        (Part("base value", "", "", picture.base), 0.0, "base"),
        *((part, float(start), f"part{k}") for k, (part, start) in enumerate(zip(picture.parts, ends, strict=False))),
        (Part("log-odds", "the sum", "", score), 0.0, "score"),
    ]
    out = [
        f'<svg class="idea" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-labelledby="idea-title">',
        '<title id="idea-title">The log-odds of one row as a sum: the base value, a curve for each kept feature, a '
        "pair of features, and two kept cases.</title>",
        STYLE,
        _text(NAMES, 26, "one row", "strong end"),
        _text(SKETCH + SKETCH_WIDTH / 2, 26, "the model", "strong middle"),
        _text(NUMBERS, 26, f"added to the log-odds of {picture.classes[1]}", "strong end"),
        f'<path class="line dashed" d="M{at(0):.1f} {TOP - 14}V{bottom}"/>',
        _text(at(0), TOP - 18, "0", "faint middle number"),
    ]
    for k, end in enumerate(ends):  # from each bar to the next
        y = TOP + k * LINE + LINE / 2 + BAR / 2
        out.append(f'<path class="step" d="M{at(end):.1f} {y:g}v{LINE - BAR}"/>')
    for k, (part, start, key) in enumerate(lines):
        out += _line(part, TOP + k * LINE, at(start), at(start + part.added), key)
    side, predicted = ("above", picture.classes[1]) if score > 0 else ("below", picture.classes[0])
    words = f"{side} zero: {predicted}, with a probability of {picture.probability:.2f}. In truth: {picture.truth}."
    return "\n".join([*out, _text(NUMBERS, height - 12, words, "faint end"), "</svg>"]) + "\n"


def _line(part: Part, y: float, start: float, end: float, key: str) -> list[str]:
    middle, side = y + LINE / 2, "up" if part.added > 0 else "down"
    kind = "" if key.startswith("part") else " strong"
    left, wide = min(start, end), max(abs(end - start), 1.0)
    corner = f"{SKETCH} {middle - SKETCH_HEIGHT / 2:g}"
    return [
        _text(NAMES, middle - 3 if part.words else middle + 5, part.name, f"end{kind}"),
        *([_text(NAMES, middle + 13, part.words, "faint end")] if part.words else []),
        *([f'<g transform="translate({corner})">{part.sketch}</g>'] if part.sketch else []),
        f'<rect class="{side}" x="{left:.1f}" y="{middle - BAR / 2:g}" width="{wide:.1f}" height="{BAR}" rx="2"/>',
        _text(NUMBERS, middle + 5, _signed(part.added), f"number end{kind}", key),
    ]


def _middle(grid: np.ndarray, values: np.ndarray, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """A curve over the middle 99 per cent of a column."""
    ends = column.quantile([0.005, 0.995]).to_numpy(float)
    inside = (grid > ends[0]) & (grid < ends[1])
    first, last = np.interp(ends, grid, values)
    return np.r_[ends[0], grid[inside], ends[1]], np.r_[first, values[inside], last]


def _curve(grid: np.ndarray, values: np.ndarray, value: float, bottom: float, top: float) -> str:
    """A curve on a scale from bottom to top, the zero line, and the row as a dot."""

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
