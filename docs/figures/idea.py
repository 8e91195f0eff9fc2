"""Draw the idea in one picture: the score of one row as a table of contributions, kept cases times kept features.

    python docs/figures/idea.py        writes docs/_static/idea.svg

The numbers are those of a model fitted to three quarters of the breast-cancer table, for one of the other rows. Colours
come from the site's style sheet, so that the picture follows its light and dark themes.
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


@dataclass(frozen=True)
class Picture:
    """What is drawn: contributions (cases, features) with names, the value where all begins, the answer."""

    cells: np.ndarray
    cases: list[str]
    features: list[str]
    values: list[str]
    base: float
    classes: tuple[str, str]
    truth: str


def fitted() -> Picture:
    """A model of six cases and five features, and one held-out row."""
    data = load_breast_cancer(as_frame=True)
    y = data.target.map({0: "malignant", 1: "benign"})
    X, rest, y, truth = train_test_split(data.data, y, test_size=0.25, random_state=0, stratify=y)
    clf = EM2NOLCClassifier(max_instances=6, max_features=5, random_state=0).fit(X, y)
    told = clf.explain(rest.iloc[[ROW]])
    names = [feature[0] for feature in told.features]
    return Picture(
        cells=told.contributions[0, 0],
        cases=[f"{y[label]} case {label}" for label in told.instances],
        features=names,
        values=[f"{rest.iloc[ROW][name]:.3g}" for name in names],
        base=float(told.base_value[0]),
        classes=(str(clf.classes_[0]), str(clf.classes_[1])),
        truth=str(truth.iloc[ROW]),
    )


def drawn(picture: Picture) -> str:
    """The picture as SVG."""
    n, m = picture.cells.shape
    right, below = LEFT + m * CELL + GAP, TOP + n * HIGH + GAP
    width, height = right + MARGIN + 8, below + HIGH + 104
    largest = float(np.abs(picture.cells).max())
    total = float(picture.cells.sum())
    score = picture.base + total
    says = picture.classes[int(score > 0)]
    out = [
        f'<svg class="idea" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-labelledby="idea-title">',
        f'<title id="idea-title">The score of one row as a table of {n} kept cases and {m} kept features: rows of the '
        "table add up to what each case says, columns to what each feature says, and all of it to the score.</title>",
    ]
    for k, (name, value) in enumerate(zip(picture.features, picture.values, strict=True)):
        x = LEFT + k * CELL + CELL / 2
        first, _, second = name.rpartition(" ")
        out += [_text(x, TOP - 58, first, "name"), _text(x, TOP - 41, second, "name")]
        out += [_text(x, TOP - 18, value, "faint")]
    out += [_text(LEFT - 12, TOP - 18, "this row has", "faint end")]
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
            f'start <tspan class="number" id="idea-base">{_signed(picture.base)}</tspan>, cases and features '
            f'<tspan class="number">{_signed(total)}</tspan>, score '
            f'<tspan class="number" id="idea-score">{_signed(score)}</tspan>: {says}',
            "strong end",
        ),
        _text(
            right + MARGIN,
            y + 26,
            f"above zero it says {picture.classes[1]}, below {picture.classes[0]}; the row is {picture.truth}",
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
