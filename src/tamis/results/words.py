"""Results in sentences and plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.explain import SIMILAR
from tamis.explain.measures import feature_reduction, instance_reduction
from tamis.results.data import Part, Results
from tamis.results.text import count, listed, percent, plain, share


def sentence(results: Results) -> str:
    """What the model does and how good it is, in two or three sentences."""
    model, evaluation = results.model, results.evaluation
    classes = [str(label) for label in model.classes_.tolist()]
    what = f"{classes[1]!r} from {classes[0]!r}" if len(classes) == 2 else f"{len(classes)} classes"
    if not results.cases or not results.parts:
        why = "" if model.status_.converged else f" ({model.status_.value})"
        return f"No feature distinguishes {what}: the model keeps no case and gives every row the same score{why}."
    text = (
        f"To distinguish {what}, the model compares a row with {count(len(results.cases), 'training case')} on "
        f"{len(model.features_)} of {results.notes.n_features} features. {_influence(results)}"
    )
    if evaluation is None:
        return text
    value, limits = share(evaluation.accuracy)
    text += f" It classifies {value}{f' (95% interval {limits})' if limits else ''} of {evaluation.source} correctly"
    if evaluation.majority != evaluation.majority:
        return f"{text}."
    return f"{text}; always predicting the largest class is correct for {percent(100 * evaluation.majority)}."


def _influence(results: Results) -> str:
    """What the score depends on most."""
    parts = results.parts
    if len(parts) == 1 and len(parts[0].features) > 1:
        return "The features act only together."
    shares = [f"{part.variation.mean():.0f}%" for part in parts[:3]]
    top = [f"{part.name} ({share})" for part, share in zip(parts, shares)]
    top[0] = f"{parts[0].name} ({shares[0]} of the variation)"
    return f"The score depends {'most' if len(parts) > 1 else 'only'} on {listed(top)}."


def counted(parts: Sequence[Part]) -> str:
    """How many features, pairs and larger groups these are, in words."""
    sizes = [len(set(part.features)) for part in parts]
    singles, pairs, larger = (sum(map(kind, sizes)) for kind in (lambda n: n == 1, lambda n: n == 2, lambda n: n > 2))
    words = [count(n, name) for n, name in ((singles, "feature"), (pairs, "pair")) if n]
    words += [SIMILAR if larger == 1 else f"{SIMILAR} by {larger} groups of features"] if larger else []
    return listed(words) if words else "0 features"


def summary(results: Results) -> dict[str, Any]:
    """Everything but the model itself, as JSON values."""
    model, notes, evaluation = results.model, results.notes, results.evaluation
    classes = model.classes_.tolist()
    train = sum(count[0] for count in notes.balance.values())
    return {
        "sentence": sentence(results),
        "target": results.task.target,
        "classes": classes,
        "positive": classes[1] if len(classes) == 2 else None,
        "method": type(model).__name__,
        "chosen": plain(model.summary()),
        "status": model.status_.name.lower(),
        "n_instances": len(model.instances_),
        "n_features": len(model.features_),
        "instance_reduction": instance_reduction(len(model.instances_), train) if train else None,
        "feature_reduction": feature_reduction(len(model.features_), notes.n_features),
        "test": None if evaluation is None else _evaluation(results),
        "features": [
            {
                "name": part.name,
                "features": list(part.features),
                "importance": plain(part.importance),
                "variation": plain(part.variation),
                "direction": part.direction,
            }
            for part in results.parts
        ],
        "cases": [
            {
                "label": case.label,
                "class": case.truth,
                "importance": plain(case.importance),
                "variation": plain(case.variation),
                "pull": plain(case.pull),
                "pull_as_similar_case": plain(case.whole_pull) if len(case.whole_pull) else None,
                "values": case.values,
            }
            for case in results.cases
        ],
        "stability": _stability(results),
        "data": {
            "source": notes.source,
            "rows": notes.n_rows,
            "rows_without_target": notes.no_target,
            "balance": [{"class": k, "train": v[0], "test": v[1]} for k, v in notes.balance.items()],
            "split": notes.split,
            "groups": notes.groups,
            "dropped_columns": notes.dropped,
            "categories": list(notes.categories),
            "missing_cells": notes.missing,
            "test_rows_seen_in_training": notes.repeated,
        },
        "warnings": list(notes.warnings),
        "seed": results.task.seed,
        "seconds": {stage: round(seconds, 3) for stage, seconds in results.seconds.items()},
        "versions": results.versions,
    }


def _evaluation(results: Results) -> dict[str, Any]:
    evaluation = results.evaluation
    if evaluation is None:
        raise ValueError("there is no evaluation to describe")
    out: dict[str, Any] = {"source": evaluation.source, "rows": evaluation.n_rows}
    for name in ("accuracy", "auc", "ks"):
        out[name] = plain(getattr(evaluation, name)._asdict())
    return {**out, "majority": plain(evaluation.majority), "confusion": evaluation.confusion.tolist()}


def _stability(results: Results) -> dict[str, Any] | None:
    found = results.stability
    if found is None:
        return None
    means = {name: plain(getattr(found, name)._asdict()) for name in ("jaccard", "kuncheva", "correlated")}
    counts = {name: int(c) for name, c in zip(found.features, found.chosen.sum(axis=0), strict=True)}
    return {**means, "folds": len(found.chosen), "chosen_in": counts}
