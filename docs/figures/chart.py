"""Draw the chart from a need to an estimator.

    python docs/figures/chart.py        writes docs/_static/chart.svg

Colours come from the site's style sheet, so that the chart follows its light and dark themes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TARGET = Path(__file__).parents[1] / "_static" / "chart.svg"
WIDE, HIGH, STEP = 372, 54, 82  # a question
RIGHT, ANSWER = 470, 380  # where answers begin, and how wide they are
LEFT = 8


@dataclass(frozen=True)
class Turn:
    """A question in two lines, the estimators for the answer yes, and what they keep."""

    question: tuple[str, str]
    estimators: tuple[str, ...]
    keeps: str


TURNS = (
    Turn(("Are the inputs images, sound or free text,", "without columns that have a meaning?"), (), ""),
    Turn(("Is a number to be predicted?", ""), ("TamisRegressor",), "at most m features, k cases and p pairs"),
    Turn(
        ("Do samples lack whole channels:", "a panel not ordered, an image not taken?"),
        ("AbsentMKLClassifier",),
        "uses the channels that are there, fills nothing in",
    ),
    Turn(
        ("Thousands of columns for few rows, or", "similarities that are no positive kernels?"),
        ("L0MKLClassifier",),
        "few features, out of any number",
    ),
    Turn(
        ("Are typical cases wanted, for many classes", "or for time series?"),
        ("IMKPLClassifier",),
        "prototypes: small groups of real cases",
    ),
    Turn(
        ("Are there several kernels or views to weight,", "and many cases may be kept?"),
        ("SimpleMKLClassifier", "EasyMKLClassifier"),
        "weights of kernels; AverageMKLClassifier is the baseline",
    ),
    Turn(
        ("Are some labels wrong, so that a few rows", "should be ignored?"),
        ("ZeroOneMKLClassifier",),
        "weights of kernels, rows on the margin",
    ),
    Turn(
        ("Rows at sites that cannot", "share them, but can share sums?"),
        ("EM2NOLCClassifier", "EM2NOLCClassifierCV"),
        "at most k cases and m features, from sums over rows",
    ),
)
ELSE = Turn(("", ""), ("TamisClassifier",), "at most m features, k cases, p pairs: begin here")


def drawn() -> str:
    """The chart as SVG."""
    height = len(TURNS) * STEP + HIGH + 12
    out = [
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {RIGHT + ANSWER + 8} {height}" role="img" '
        'aria-labelledby="chart-title">',
        '<title id="chart-title">From a need to an estimator: the first question answered with yes decides.</title>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path class="tip" d="M0 0.5L8 4L0 7.5z"/></marker></defs>',
    ]
    middle = LEFT + WIDE / 2
    for place, turn in enumerate(TURNS):
        y = 6 + place * STEP
        out.append(f'<rect class="question" x="{LEFT}" y="{y}" width="{WIDE}" height="{HIGH}" rx="8"/>')
        out += _lines(middle, y, [line for line in turn.question if line])
        out.append(_edge(f"M{LEFT + WIDE} {y + HIGH / 2}H{RIGHT - 3}"))
        out.append(f'<text class="faint" x="{(LEFT + WIDE + RIGHT) / 2 - 4}" y="{y + HIGH / 2 - 7}">yes</text>')
        out.append(_edge(f"M{middle} {y + HIGH}V{y + STEP - 3}"))
        out.append(f'<text class="faint" x="{middle + 16}" y="{y + HIGH + 18}">no</text>')
        out += _answer(RIGHT, y, ANSWER, turn)
    out += _answer(LEFT, 6 + len(TURNS) * STEP, WIDE, ELSE)
    return "\n".join([*out, "</svg>", ""])


def _answer(x: float, y: float, width: float, turn: Turn) -> list[str]:
    kind = "answer" if turn.estimators else "elsewhere"
    out = [f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{HIGH}" rx="8"/>']
    centre = x + width / 2
    if not turn.estimators:
        return out + _lines(centre, y, ["Use something else: a network, or its", "features as columns for tamis"])
    links = [f'<a href="api/generated/tamis.{name}.html"><tspan>{name}</tspan></a>' for name in turn.estimators]
    out.append(f'<text x="{centre}" y="{y + 23}">{" or ".join(links)}</text>')
    return [*out, f'<text class="faint" x="{centre}" y="{y + 42}">{turn.keeps}</text>']


def _lines(x: float, y: float, lines: list[str]) -> list[str]:
    first = y + HIGH / 2 + 5 - 9 * (len(lines) - 1)
    return [f'<text x="{x}" y="{first + 18 * k}">{line}</text>' for k, line in enumerate(lines)]


def _edge(path: str) -> str:
    return f'<path class="edge" d="{path}" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    TARGET.write_text(drawn())
