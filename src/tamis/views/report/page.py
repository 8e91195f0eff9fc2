"""The report and the comparison as HTML pages: panels for the template and data for the scripts, in one file."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

from tamis.codec import replacing
from tamis.results import tables
from tamis.results.data import Results
from tamis.results.tables import sentence
from tamis.results.text import number
from tamis.views.report import features, pairs, scores
from tamis.views.report.embedded import embedded, to_json
from tamis.views.report.style import DARK, NAMED, Chart

SHOWING = ("data.js", "draw.js", "charts.js")  # scripts of a page that only shows
EVALUATING = {True: ("tables.js", "turns.js"), False: ("model.js",)}  # what computes, of additive models and of kernels
TITLES = {
    "chart-importance": "Signed importance",
    "chart-share": "Share of variation",
    "chart-size": "How far each part moves the {score}",
    "chart-shuffled": "What shuffling a feature adds to the log-loss",
}
DIGITS = 6  # significant ones of the numbers in charts


def render(results: Results) -> str:
    """Return the page as text: one HTML document that needs no other file and no network."""
    panels = _panels(results)
    return document("page.html.jinja", _charts(panels), embedded(results), results=results, **panels)


def render_comparison(found: dict[str, Any]) -> str:
    """Return the page of a comparison, as `Comparison.to_dict` gives it."""
    entries = [entry for entry in found["entries"] if not entry["failure"]]
    charts = [
        scores.size_chart(entries, "n_features", "features kept"),
        scores.size_chart(entries, "n_cases", "training cases kept"),
    ]
    shown = [chart for chart in charts if chart is not None]
    return document(
        "comparison.html.jinja", shown, {}, found=found, table=tables.comparison_table(found["entries"]), charts=shown
    )


def document(template: str, charts: Sequence[Chart], data: dict[str, Any], /, **context: Any) -> str:
    """Return a page made from one of the templates, with styles, scripts and data inside.

    Parameters
    ----------
    template : its name
    charts : everything to draw
    data : what the page computes with; empty for a page that only shows
    context : further names of the template
    """
    jinja2 = _jinja2()
    loader = jinja2.FunctionLoader(_asset)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["pieces"] = _pieces
    names = (*SHOWING, *EVALUATING[data["additive"]], "waterfall.js", "whatif.js") if data else SHOWING
    scripts = [_asset(name) for name in names]
    figures = {chart.id: _rounded(chart.figure) for chart in charts}
    return environment.get_template(template).render(
        css=_asset("page.css"),
        data_json=to_json({**data, "charts": figures, "dark": DARK, "colours": NAMED}),
        scripts=scripts,
        policy=_policy(scripts),
        **context,
    )


def write(results: Results, path: str | os.PathLike) -> None:
    """Write the page to a file, completely or not at all."""
    text = render(results).encode("utf-8", "replace")
    with replacing(path) as temporary:
        temporary.write_bytes(text)


def _jinja2() -> Any:
    try:
        import jinja2
    except ImportError:
        raise ImportError("the report needs jinja2: pip install 'tamis[report]'") from None
    return jinja2


def _asset(name: str) -> str:
    return (files("tamis.views.report") / "assets" / name).read_text(encoding="utf-8")


def _pieces(name: str, longest: int) -> list[str]:
    """A name in pieces between which a line may end: after an underscore of a word of more letters than these."""
    words = [re.findall("[^_]*_+|[^_]+", w) if len(w) > longest else [w] for w in re.split("(?= )", str(name))]
    return [piece for word in words for piece in word]


def _policy(scripts: list[str]) -> str:
    """What the browser may do: run these scripts and no others, load nothing."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )


def _panels(results: Results) -> dict[str, Any]:
    """What the template shows, by panel; None where there is no such panel."""
    classes = results.model.classes_.tolist()
    panels = {
        "sentence": sentence(results),
        "how_to_read": tables.how_to_read(results),
        "refits": tables.refits(results),
        "classes": classes,
        "outputs": results.outputs,
        "score_name": results.score_name,
        "additive": results.is_additive,
        "learned": _learned(results, classes),
        "features": _features(results),
        "cases": _cases(results),
        "path": _path(results),
        "stability": _stability(results),
        "data": {
            "warnings": results.notes.warnings,
            "facts": tables.data_facts(results),
            "tables": tables.data_tables(results),
            "settings": tables.setting_facts(results),
            "citations": tables.citations(results),
        },
    }
    return {**panels, "contents": _contents(panels)}


def _contents(panels: dict[str, Any]) -> list[tuple[str, str]]:
    """(id, title) of the panels that are there."""
    titles = {
        "learned": "What was learned",
        "features": "The features",
        "cases": "The cases",
        "why": "Why this prediction",
        "path": "How many features" if panels["additive"] else "Choice of the budgets",
        "stability": "Stability of the selection",
        "data": "Data and settings",
    }
    return [(name, title) for name, title in titles.items() if name == "why" or panels[name] is not None]


def _learned(results: Results, classes: list) -> dict[str, Any]:
    evaluation = results.evaluation
    if evaluation is None:
        return {"charts": [], "calibration": None}
    return {
        "metrics": tables.measures(evaluation),
        "confusion": tables.confusion(evaluation, classes),
        "diagnosis": tables.diagnosis(evaluation, classes),
        "charts": scores.score_charts(evaluation, classes, results.score_name),
        "calibration": scores.calibration_chart(evaluation, classes),
        "calibrated": tables.calibrated(evaluation, len(classes)),
    }


def _features(results: Results) -> dict[str, Any]:
    parts, outputs = results.parts, results.outputs
    empty: dict[str, Any] = {"charts": [], "shapes": [], "surfaces": [], "table": None, "undrawn": 0, "folded": ()}
    if not parts:
        return empty
    if results.is_additive:
        bars = [features.size_chart(results), features.shuffled_chart(results)]
    else:
        bars = [features.importance_chart(parts, outputs), features.share_chart(parts, outputs)]
    folded = [part for part in parts if part.is_folded]
    maps = [part for part in parts if part.is_surface and not part.is_folded]
    single = [part for part in parts if not part.is_surface and part.kind != "cases"]
    ends = features.shape_range(results)
    drawn = [
        {"part": part, "note": _note(results, part), "chart": features.shape_chart(results, part, k, ends)}
        for k, part in enumerate(single[: features.MAX_SHAPES])
    ]
    drawn_pairs = [
        {"part": part, "note": _note(results, part), "chart": pairs.surface_chart(results, part, k)}
        for k, part in enumerate(maps[: pairs.MAX_SURFACES])
    ]
    return {
        **empty,
        "charts": [(TITLES[chart.id].format(score=results.score_name), chart) for chart in bars if chart is not None],
        "shapes": drawn,
        "surfaces": drawn_pairs,
        "table": tables.part_table(results),
        "counted": any(part.counts.size for part in parts),
        "sized": any(part.size.size for part in parts),
        "undrawn": len(single) - len(drawn) + len(maps) - len(drawn_pairs),
        "folded": [part.name for part in folded],
    }


def _note(results: Results, part: Any) -> str:
    """What is known of a part in one line."""
    if not part.size.size:
        words = [f"{part.variation.mean():.1f}% of the variation"]
        if part.kind == "number" and len(results.outputs) == 1:
            words.append(tables.course(part, results.score_name))
    else:
        plural = "s" if len(results.outputs) > 1 else ""
        words = [f"moves the {results.score_name}{plural} up or down by {tables.moved(part, results)} on average"]
        if part.kind == "number" and len(results.outputs) == 1:
            words.append(tables.course(part, results.score_name))
        words += tables.odds_range(part, results)
        if len(part.by_fold):
            words.append(f"kept in {tables.chosen_in_refits(part)} refits")
    if part.missing:
        lacking = tables.without_value(results.model, part, results.score_name)
        words.append(f"training rows without a value: {number(part.missing)}, {lacking}")
    text = " ".join(f"{text[0].upper()}{text[1:]}." for text in words)
    return text.replace("\u00d7 ", "\u00d7\u00a0")  # no line ends within a factor


def _cases(results: Results) -> dict[str, Any] | None:
    """The kept cases; None where there are none."""
    if not results.cases:
        return None
    size = next((tables.moved(p, results) for p in results.parts if p.kind == "cases" and p.size.size), "")
    return {"table": tables.case_table(results), "size": size}


def _path(results: Results) -> dict[str, Any] | None:
    path, model = results.path, results.model
    if path and results.is_additive:
        chart = scores.feature_path_chart(path, len(model.features_))
        return None if chart is None else {"charts": [("Held-out log-loss", chart)], "chosen": None}
    if not path or "max_instances" not in path:
        return None
    chosen = None
    if hasattr(model, "max_instances_") and hasattr(model, "max_features_"):
        chosen = int(model.max_instances_), int(model.max_features_)
    charts = scores.path_charts(path, getattr(model, "scoring_", None), chosen)
    return {"charts": charts, "chosen": chosen} if charts else None


def _stability(results: Results) -> dict[str, Any] | None:
    stability = results.stability
    if stability is None:
        return None
    return {
        "agreement": tables.agreement_table(stability),
        "chosen": tables.chosen_table(stability),
        "chart": scores.correlation_chart(stability),
        "left_out": max(0, len(stability.features) - scores.MAX_FEATURES),
        "most": scores.MAX_FEATURES,
        "folds": len(stability.chosen),
    }


def _charts(value: Any) -> list[Chart]:
    """All charts in the panels."""
    if isinstance(value, Chart):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [chart for item in items for chart in _charts(item)]


def _rounded(value: Any) -> Any:
    """The same figure with numbers of so few digits that no difference is seen."""
    if isinstance(value, dict):
        return {key: _rounded(v) for key, v in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
