"""Fitted models and explanations as small pieces of HTML for notebooks: pure functions of plain data.

Everything is inline, there is no script, and colours of text and background are those of the page, for light and dark
notebooks. The side of a bar and its number show the sign, and not its colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from tamis.explain.explanation import PREDICTION, Explanation, Kept
from tamis.explain.kernel_explanation import ChannelExplanation

PLUS, MINUS, PLAIN = "#3b8ec8", "#db7a1c", "#8a8a8a"  # visible on white and on black, and to the colour-blind
SHOWN_ROWS = 10  # of an explanation
MAX_KEPT = 20  # kept features or cases in a table
MAX_PARTS = 8  # parts with a column of their own
MAX_LINES = 60  # of a table of contributions
BOX = "font-family:sans-serif;font-size:13px;line-height:1.4;overflow-x:auto;color:inherit"
TABLE = "border-collapse:collapse;font-size:inherit;margin:4px 0 8px 0;color:inherit;background:none"
CELL = "padding:1px 8px;border:none;border-top:1px solid rgba(128,128,128,.35);background:none;text-align:"


def model_html(
    title: str, sentence: str, features: Kept, cases: Kept, outputs: Sequence[Any], facts: Mapping[str, Any]
) -> str:
    """Return a fitted model: the name of its class, what it is in a sentence, what it keeps, and further facts.

    `outputs` names the rows of the arrays in `features` and `cases`.
    """
    tables = _kept_table("kept features", features, outputs) + _kept_table("kept cases", cases, outputs)
    line = "; ".join(f"{_text(name)}: {_text(value)}" for name, value in facts.items())
    return _box(f"<b>{_text(title)}</b><div>{_text(sentence)}</div>{tables}<div>{line}</div>")


def explanation_html(explanation: Explanation, limit: int = SHOWN_ROWS) -> str:
    """Return the contributions by part to the decisions about at most `limit` rows, and how exactly they add up."""
    e = explanation
    n, several = len(e.rows), len(e.outputs) > 1
    limit = min(limit, n, max(1, MAX_LINES // max(1, len(e.outputs))))
    names, parts = _largest_parts(e)
    top = float(np.max(np.abs(parts[:limit]), initial=0.0))
    head = ["row", *(["output"] if several else []), "base value", *names, "= decision"]
    lines = []
    for i in range(limit):
        for q, output in enumerate(e.outputs):
            cells = [_cell(_text(e.rows[i]), "left")] + ([_cell(_text(output), "left")] if several else [])
            cells.append(_cell(f"{e.base_value[q]:.3g}"))
            cells += [_cell(_signed_bar(value, top)) for value in parts[i, q]]
            lines.append([*cells, _cell(f"<b>{e.decision[i, q]:+.3g}</b>")])
    gap = float(np.max(np.abs(e.base_value + e.by_part.sum(axis=2) - e.decision), initial=0.0))
    first = f"Explanation of {n} row{'' if n == 1 else 's'}"
    first += f", the first {limit} shown" if limit < n else ""
    if not several and e.outputs and e.outputs[0] != PREDICTION:
        first += f"; above zero favours {e.outputs[0]}"
    last = f"Base value and contributions add up to the decision (largest difference {gap:.1g})."
    return _box(f"<b>{_text(first)}</b>{_table(head, lines)}<div>{_text(last)}</div>")


def absence_html(explanation: ChannelExplanation) -> str:
    """Return the channels that the first rows lack, and what these contribute to rows that have them."""
    e = explanation
    lacking = np.flatnonzero(~e.present[:SHOWN_ROWS].all(axis=1))
    if not len(lacking):
        return ""
    lines = []
    for i in lacking.tolist():
        absent = e.absence(i, int(np.argmax(e.decision[i])))
        lines.append([_cell(_text(e.rows[i]), "left"), _cell(_text(absent), "left")])
    score = "the score" if len(e.outputs) == 1 else "the highest score"
    head = ["row", f"lacks (what it adds to {score} of nine in ten training rows that have it)"]
    return _box(_table(head, lines))


def _largest_parts(e: Explanation) -> tuple[list[str], np.ndarray]:
    """Names and contributions (rows, outputs, columns) of the largest parts and of the sum of all others."""
    parts, names = e.by_part, e.part_names
    if len(names) <= MAX_PARTS + 1:
        return names, parts
    order = np.argsort(-np.abs(parts).sum(axis=(0, 1)), kind="stable")
    kept, others = order[:MAX_PARTS], order[MAX_PARTS:]
    rest = parts[:, :, others].sum(axis=2, keepdims=True)
    return [names[k] for k in kept] + [f"{len(others)} others"], np.concatenate([parts[:, :, kept], rest], axis=2)


def _kept_table(title: str, kept: Kept, outputs: Sequence[Any]) -> str:
    if not len(kept):
        return f"<div>{_text(title)}: none</div>"
    suffix = [f" ({output})" for output in outputs] if len(outputs) > 1 else [""]
    columns = [] if kept.importance is None else ["importance %"]
    head = [title, *(f"{column}{text}" for text in suffix for column in (*columns, "share of variation %"))]
    top = 0.0 if kept.importance is None else float(np.max(np.abs(kept.importance)))
    most, lines = float(np.max(kept.variation)), []
    for k in kept.order[:MAX_KEPT]:
        cells = [_cell(_text(kept.names[k]), "left")]
        for q in range(len(outputs)):
            if kept.importance is not None:
                cells.append(_cell(_signed_bar(kept.importance[q, k], top, "+.1f")))
            share = float(kept.variation[q, k])
            cells.append(_cell(_bar(f"{share:.1f}", 0.0, 100.0 * share / most if most > 0 else 0.0, PLAIN, "none")))
        lines.append(cells)
    more = len(kept) - len(lines)
    return _table(head, lines) + (f"<div>and {more} more</div>" if more > 0 else "")


def _signed_bar(value: float, top: float, form: str = "+.3g") -> str:
    """A signed number with a bar from the middle to the right (plus) or to the left (minus)."""
    width = 50.0 * abs(float(value)) / top if top > 0 else 0.0
    start, colour = (50.0, PLUS) if value >= 0 else (50.0 - width, MINUS)
    middle = "linear-gradient(currentColor,currentColor) 50% 0/1px 100% no-repeat"
    number = format(value, form)
    return _bar(number if float(number) else "0", start, width, colour, middle)


def _bar(number: str, start: float, width: float, colour: str, background: str) -> str:
    inner = f"display:block;height:9px;margin-left:{start:.1f}%;width:{width:.1f}%;background:{colour}"
    outer = f"display:inline-block;width:64px;margin-left:6px;vertical-align:middle;background:{background}"
    return f'{number}<span style="{outer}"><span style="{inner}"></span></span>'


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    first = "".join(f'<th style="{CELL}left;font-weight:600">{_text(name)}</th>' for name in head)
    body = "".join(f'<tr style="background:none">{"".join(cells)}</tr>' for cells in lines)
    return f'<table style="{TABLE}"><tr style="background:none">{first}</tr>{body}</table>'


def _cell(content: str, align: str = "right") -> str:
    return f'<td style="{CELL}{align};white-space:nowrap">{content}</td>'


def _box(content: str) -> str:
    return f'<div style="{BOX}">{content}</div>'


def _text(value: Any) -> str:
    return escape(str(value))
