"""The tables of a model give its scores, its parts and its probabilities in any language that reads JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tamis.flagship.tables import model_tables

from additive_models import random_flagship


def missing(value):
    return value is None or (isinstance(value, float) and math.isnan(value))


def place(feature, value):
    """Cell and share of a value, as the description says."""
    m, fill = len(feature["left"]) - 2, feature["fill"]
    if missing(value) and (fill is None or feature["kind"] == "category"):
        return m if fill is None else fill, 0.0
    if feature["kind"] == "category":
        return feature["levels"].index(value) if value in feature["levels"] else m + 1, 0.0
    x = min(max(fill if missing(value) else value, feature["low"]), feature["high"])
    edges = feature["edges"]
    cell = sum(edge < x for edge in edges[1:-1])
    width = edges[cell + 1] - edges[cell]
    return cell, (x - edges[cell]) / width if width > 0 else 0.0


def between(table, cell, share):
    left, right = np.array(table["left"][cell]), np.array(table["right"][cell])
    return left + share * (right - left)


def evaluated(tables, row):
    """Parts of one row: lists of contributions (q,) of features, pairs and cases."""
    places = [place(feature, row[feature["name"]]) for feature in tables["features"]]
    features = [between(f, *own) for f, own in zip(tables["features"], places)]
    pairs = []
    for pair in tables["pairs"]:
        a, b = (group[places[j][0]] for j, group in zip(pair["features"], pair["groups"]))
        pairs.append(np.array(pair["values"][a][b]))
    return features, pairs, [np.array(case["pull"]) * similarity(tables, case, places) for case in tables["cases"]]


def similarity(tables, case, places):
    total = 0.0
    for feature, (cell, share), theirs, at in zip(tables["features"], places, case["cells"], case["at"]):
        gap = len(feature["left"]) - 2
        if feature["kind"] == "number" and gap not in (cell, theirs):
            total += float(between(feature["similarity"], cell, share) - at) ** 2
        elif cell != theirs:
            total += feature["similarity"]["gap"]
    return math.exp(-total)


@pytest.mark.parametrize("fill", ["absent", "median", None])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_the_described_steps_give_the_contributions(classes, fill):
    made = random_flagship(1 + classes, classes, missing=fill)
    tables = json.loads(json.dumps(model_tables(made.estimator), allow_nan=False))
    scores, parts = made.parts()
    for i, row in enumerate(made.rows.to_dict("records")):
        found = evaluated(tables, row)
        for values, expected in zip(found, parts[:3], strict=True):
            assert len(values) == expected.shape[2]
            if values:
                np.testing.assert_allclose(np.stack(values, axis=1), expected[i], atol=1e-14)
        total = np.array(tables["intercept"]) + sum(sum(part) for part in found)
        np.testing.assert_allclose(total, scores[i], atol=1e-13)


def test_classes_outputs_and_probabilities_are_described():
    two, three, number = (model_tables(random_flagship(0, classes).estimator) for classes in (2, 3, 0))
    assert two["classes"] == ["no", "yes"] and two["outputs"] == ["yes"]
    assert three["outputs"] == three["classes"] == ["a", "b", "c"]
    assert number["classes"] is None and number["probability"] is None and len(number["outputs"]) == 1
    assert two["probability"] == {"slope": 1.0, "offset": 0.3}


def test_a_model_without_cases_has_no_coordinates():
    tables = model_tables(random_flagship(0, cases=0).estimator)
    assert tables["cases"] == [] and {feature["similarity"] for feature in tables["features"]} == {None}


def test_a_scaled_column_is_described_in_its_own_units():
    from dataclasses import replace

    made = random_flagship(2, kept=[1], pairs=0, cases=0)
    model = made.estimator.model_
    (column,), (cells,) = model.encoder.columns, model.cells
    scaled = replace(column, centre=10.0, scale=4.0)
    encoder = replace(model.encoder, columns=(scaled,))
    made.estimator.model_ = replace(model, encoder=encoder, cells=(replace(cells, edges=(cells.edges - 10.0) / 4.0),))
    (feature,) = model_tables(made.estimator)["features"]
    np.testing.assert_allclose(feature["edges"], cells.edges, rtol=1e-15)
