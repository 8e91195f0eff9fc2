"""Draw the idea in one picture: the score of one row as a table of contributions, kept cases times kept features.

    python docs/figures/idea.py        writes docs/_static/idea.svg

The numbers are those of a model fitted to three quarters of the breast-cancer table, for one of the other rows. The
picture has its own style, so that it can stand in the README; on the site it takes the colours of the theme.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from tamis import EM2NOLCClassifier

TARGET = Path(__file__).parents[1] / "_static" / "idea.svg"
CELL, HIGH = 100, 40  # a cell's width and height
LEFT, TOP, GAP = 176, 96, 14
MARGIN = 112  # the column of sums
ROW = 0  # of the rows that were held out
STYLE = """<style>
svg.idea { --ink: #24292f; --grey: #59636e; }
@media (prefers-color-scheme: dark) { svg.idea { --ink: #d1d7e0; --grey: #9198a1; } }
svg.idea { display: block; width: 100%; max-width: 50rem; height: auto; margin: 1.5rem auto; }
svg.idea text { font: 14px var(--pst-font-family-base, system-ui, sans-serif); text-anchor: middle; }
svg.idea text { fill: var(--pst-color-text-base, var(--ink)); }
svg.idea .end { text-anchor: end; }
svg.idea .faint { fill: var(--pst-color-text-muted, var(--grey)); font-size: 13px; }
svg.idea .strong { font-weight: 600; }
svg.idea .number { font-variant-numeric: tabular-nums; }
svg.idea .sum.number { font-weight: 600; }
svg.idea .whole.number { font-size: 16px; }
svg.idea .up { fill: var(--tamis-up, #d8485c); }
svg.idea .down { fill: var(--tamis-down, #2f88b4); }
svg.idea .sum { stroke-width: 1.2; }
svg.idea rect.sum.up { stroke: var(--tamis-up, #d8485c); }
svg.idea rect.sum.down { stroke: var(--tamis-down, #2f88b4); }
svg.idea .line { stroke: var(--pst-color-text-muted, var(--grey)); fill: none; stroke-dasharray: 3 3; }
</style>"""  # the second value of a var() holds where there is no style sheet


@dataclass(frozen=True)
class Picture:
    """What is drawn: contributions (cases, features) with their names, the base value and the classes."""

    cells: np.ndarray
    cases: list[str]
    features: list[str]
    values: list[str]
    base: float
    classes: tuple[str, str]
    truth: str


def fitted() -> Picture:
    """Fit a model of six cases and five features, and explain one held-out row."""
    data = load_breast_cancer(as_frame=True)
    y = data.target.map({0: "malignant", 1: "benign"})
    X, rest, y, truth = train_test_split(data.data, y, test_size=0.25, random_state=0, stratify=y)
    clf = EM2NOLCClassifier(max_instances=6, max_features=5, random_state=0).fit(X, y)
    explanation = clf.explain(rest.iloc[[ROW]])
    names = [feature[0] for feature in explanation.features]
    return Picture(
        cells=explanation.contributions[0, 0],
        cases=[f"{y[label]} case {label}" for label in explanation.instances],
        features=names,
        values=[f"{rest.iloc[ROW][name]:.3g}" for name in names],
        base=float(explanation.base_value[0]),
        classes=(str(clf.classes_[0]), str(clf.classes_[1])),
        truth=str(truth.iloc[ROW]),
    )


def drawn(picture: Picture) -> str:
    """Return the picture as SVG."""
    n, m = picture.cells.shape
    right, below = LEFT + m * CELL + GAP, TOP + n * HIGH + GAP
    width, height = right + MARGIN + 8, below + HIGH + 104
    largest = float(np.abs(picture.cells).max())
    total = float(picture.cells.sum())
    score = picture.base + total
    predicted = picture.classes[int(score > 0)]
    out = [
        f'<svg class="idea" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-labelledby="idea-title">',
        f'<title id="idea-title">The score of one row as a table of {n} kept cases and {m} kept features: rows '
        "add up to the contribution of each case, columns to that of each feature, all cells to the score.</title>",
        STYLE,
    ]
    for k, (name, value) in enumerate(zip(picture.features, picture.values, strict=True)):
        x = LEFT + k * CELL + CELL / 2
        first, _, second = name.rpartition(" ")
        out += [_text(x, TOP - 58, first, "name"), _text(x, TOP - 41, second, "name")]
        out += [_text(x, TOP - 18, value, "faint")]
    out += [_text(LEFT - 12, TOP - 18, "value in this row", "faint end")]
    for j, case in enumerate(picture.cases):
        y = TOP + j * HIGH
        out.append(_text(LEFT - 12, y + HIGH / 2 + 5, case, "name end"))
        out += [_cell(LEFT + k * CELL, y, CELL, picture.cells[j, k], largest, f"c{j}-{k}") for k in range(m)]
        out.append(_cell(right, y, MARGIN, picture.cells[j].sum(), 4 * largest, f"case{j}", "sum"))
    out += [_text(right + MARGIN / 2, TOP - 18, "by case", "strong")]
    out += [_text(LEFT - 12, below + HIGH / 2 + 5, "by feature", "strong end")]
    for k in range(m):
        out.append(_cell(LEFT + k * CELL, below, CELL, picture.cells[:, k].sum(), 4 * largest, f"feature{k}", "sum"))
    out.append(_cell(right, below, MARGIN, total, 4 * largest, "total", "sum whole"))
    y = below + HIGH + 48
    out += [
        f'<path class="line" d="M{right + MARGIN / 2} {below + HIGH + 2}V{y - 22}"/>',
        _text(
            right + MARGIN,
            y,
            f'base value <tspan class="number" id="idea-base">{_signed(picture.base)}</tspan>, cases and features '
            f'<tspan class="number">{_signed(total)}</tspan>, score '
            f'<tspan class="number" id="idea-score">{_signed(score)}</tspan>: {predicted}',
            "strong end",
        ),
        _text(
            right + MARGIN,
            y + 26,
            f"above zero: {picture.classes[1]}, below zero: {picture.classes[0]}; the true class is {picture.truth}",
            "faint end",
        ),
        "</svg>",
    ]
    return "\n".join(out) + "\n"


def _cell(x: float, y: float, width: float, value: float, scale: float, key: str, kind: str = "") -> str:
    side = "up" if value > 0 else "down"
    strength = 0.07 + 0.58 * min(1.0, abs(value) / scale)
    words = _text(x + width / 2, y + HIGH / 2 + 5, _signed(value), f"number {kind}", key)
    return (
        f'<rect class="cell {side} {kind}" x="{x + 1.5}" y="{y + 1.5}" width="{width - 3}" height="{HIGH - 3}" rx="4" '
        f'fill-opacity="{strength:.2f}"/>{words}'
    )


def _text(x: float, y: float, words: str, kind: str, key: str = "") -> str:
    mark = f' id="idea-{key}"' if key else ""
    return f'<text class="{kind.strip()}"{mark} x="{x:g}" y="{y:g}">{words}</text>'


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\u2212")


if __name__ == "__main__":
    TARGET.write_text(drawn(fitted()))
