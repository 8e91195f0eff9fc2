"""Parts, cases, tables and sentences of additive models."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from tamis.results import tables
from tamis.results.additive import part_keys, shuffled_losses
from tamis.results.describe import calibration_of
from tamis.results.shapes import (
    LINEAR,
    LOG,
    QUANTILE,
    bin_edges,
    choose_scale,
    count_rows,
    direction_of,
    value_edges,
)
from tamis.results.text import LOG_ODDS, effect, odds_factor

from report_fits import ADDITIVE, additive_fit, additive_iris_fit, constant_fit, mixed_table


@pytest.fixture(scope="module", params=ADDITIVE, ids=list(ADDITIVE))
def results(request):
    return ADDITIVE[request.param]()


def test_parts_are_features_pairs_and_all_cases_together(results):
    model = results.model
    kinds = [part.kind for part in results.parts]
    assert sum(kind in ("number", "category") for kind in kinds) == len(model.features_)
    assert kinds.count("pair") == len(model.pairs_) and kinds.count("cases") == bool(len(model.instances_))
    assert len(part_keys(model)) == len(results.parts)
    sizes = [float(part.size.mean()) for part in results.parts]
    assert sizes == sorted(sizes, reverse=True)
    np.testing.assert_allclose(sum(part.variation for part in results.parts), 100.0)


def test_curves_are_those_of_the_model(results):
    for part in results.parts:
        if part.kind not in ("number", "category"):
            continue
        grid, values = results.model.curve(part.name)
        n = len(part.grid)  # one point where a number never changes
        np.testing.assert_array_equal(part.grid, grid[:n])
        np.testing.assert_array_equal(part.shape, np.reshape(values, (len(grid), -1))[:n])
        gap = np.array([None], dtype=object) if part.kind == "category" else [np.nan]
        np.testing.assert_array_equal(part.at_missing, np.ravel(results.model.curve(part.name, gap)[1]))
        rows = sum(row[0] for row in results.notes.balance.values())
        assert part.counts.sum() + part.missing == rows


def test_a_pair_has_one_value_in_each_coarse_cell(results):
    model = results.model
    for part in results.parts:
        if part.kind != "pair":
            continue
        for k in range(len(part.shape)):
            for j in range(part.shape.shape[1]):
                one = [middle(part.grid, k), middle(part.across, j)]
                values = model.surface(*part.features, ([one[0]], [one[1]]))[2]
                np.testing.assert_array_equal(np.ravel(values), part.shape[k, j])


def middle(grid, k):
    """A value in a coarse cell; after the last one a missing value."""
    if grid.dtype == object:
        return grid[k] if k < len(grid) else None
    return 0.5 * (grid[k] + grid[k + 1]) if k + 1 < len(grid) else np.nan


def test_sizes_are_mean_moduli_over_training_rows():
    results = additive_fit()
    table = mixed_table(240)
    explanation = results.model.explain({name: results.rows.values[name] for name in results.rows.values})
    assert results.score_name == LOG_ODDS and set(explanation.feature_names) <= {*table, "income"}
    for part in results.parts:
        assert part.size.shape == (1,) and np.all(part.size >= 0)
        assert np.isfinite(part.permuted) == (part.kind in ("number", "category"))


def test_shuffling_a_feature_without_a_curve_changes_nothing():
    results = additive_fit()
    model, rows = results.model, results.rows
    losses = shuffled_losses(model, rows.values, rows.truth)
    assert set(losses) == set(model.model_.encoder.names)
    constant = {**rows.values, "b": np.full(len(rows.labels), 0.5)}
    assert shuffled_losses(model, constant, rows.truth)["b"] == pytest.approx(0.0, abs=1e-12)
    strongest = next(part for part in results.parts if part.kind == "number")
    assert losses[strongest.name] > 0


def test_losses_do_not_depend_on_which_class_is_positive():
    results = additive_fit()
    rows, other = results.rows, results.model.oriented("no")
    first = shuffled_losses(results.model, rows.values, rows.truth)
    second = shuffled_losses(other, rows.values, rows.truth)
    assert first == pytest.approx(second)


def test_cases_are_not_centred_and_pull_to_their_class():
    results = additive_fit()
    for case in results.cases:
        same = {name: np.array([value], dtype=object) for name, value in case.values.items()}
        explanation = results.model.explain(same)
        place = list(results.model.instance_labels_).index(case.label)
        assert explanation.similarity[0, place] == pytest.approx(1.0)
        assert explanation.by_case[0, :, place] == pytest.approx(case.pull)
        assert (case.pull[0] > 0) == (case.truth == "yes")


# ---------------------------------------------------------------------- words


def test_sentences_name_log_odds_and_odds():
    text = tables.sentence(additive_fit())
    assert "the model adds up what 5 of 5 features contribute" in text
    assert "log-odds of 'yes' up or down by" in text and "odds times or divided by" in text
    assert re.search(r"how much a row resembles \d+ training case", text)
    bare = tables.sentence(constant_fit())
    assert "resembles" not in bare and "depends only on" in bare


def test_effects_name_the_factor_of_the_odds():
    assert effect(1.95, LOG_ODDS) == "+1.95 (odds \u00d7 7.0)"
    assert effect(-0.7, LOG_ODDS) == "\u22120.70 (odds \u00d7 0.50)" and effect(0.5, "score") == "+0.5"
    assert effect(-0.001, LOG_ODDS) == "0.00 (odds \u00d7 1.00)"
    assert odds_factor(0.01) == "1.01" and odds_factor(10.0) == "22000" and odds_factor(1e9) != "inf"


def test_the_difference_of_two_of_several_scores_is_a_log_odds():
    results = additive_iris_fit()
    rows, (first, second, _) = results.rows.values, results.model.classes_.tolist()
    found = results.model.explain(rows).against(first, second)
    probability = results.model.predict_proba(rows)
    np.testing.assert_allclose(found.decision[:, 0], np.log(probability[:, 0] / probability[:, 1]), atol=1e-9)
    np.testing.assert_allclose(found.base_value + found.by_part.sum(axis=2), found.decision, atol=1e-9)
    assert results.score_name == "score"
    with pytest.raises(ValueError, match="'nobody' has no score"):
        results.model.explain(rows).against(first, "nobody")


def test_calibration_groups_hold_every_row_once():
    rng = np.random.default_rng(0)
    probability = rng.random(203)
    truth = rng.random(203) < probability**2
    found = calibration_of(truth, probability, "yes")
    assert found.counts.sum() == 203 and len(found.counts) == 10 and np.all(np.diff(found.predicted) > 0)
    assert np.average(found.predicted, weights=found.counts) == pytest.approx(probability.mean())
    assert np.average(found.observed, weights=found.counts) == pytest.approx(truth.mean())
    assert found.brier == pytest.approx(brier_score_loss(truth, probability))
    assert np.all((found.low <= found.observed) & (found.observed <= found.high))
    assert len(calibration_of(truth, probability, "yes", independent=False).low) == 0


def test_sensitivity_and_predictive_value_are_of_the_second_class():
    evaluation = replace(additive_fit().evaluation, confusion=np.array([[60, 40], [5, 20]]))
    text = tables.diagnosis(evaluation, ["well", "ill"])
    assert "20 of the 25 rows that are 'ill' (sensitivity 80.0%)" in text
    assert "60 of the 100 rows that are 'well' (specificity 60.0%)" in text
    assert "Of the 60 rows it predicts as 'ill', 20 are 'ill' (positive predictive value 33.3%)" in text


def test_named_odds_are_those_of_frequent_values():
    results = additive_fit()
    category = next(part for part in results.parts if part.kind == "category")
    (words,) = tables.odds_range(category, results)
    lowest = category.shape[:, 0].argmin()
    factor = odds_factor(float(category.shape[lowest, 0]))
    assert words.startswith(f"the odds are lowest at\u00a0{category.grid[lowest]} (\u00d7\u00a0{factor}) and highest")
    number = next(part for part in results.parts if part.name == "b")
    far = np.array([number.edges[0] - 9.0])  # a rare value that adds more than all others
    edges, counts = np.r_[far, number.edges], np.c_[[[1], [0]], number.counts]
    rare = replace(
        number, edges=edges, counts=counts, grid=np.r_[far, number.grid], shape=np.r_[[[50.0]], number.shape]
    )
    (words,), (before,) = tables.odds_range(rare, results), tables.odds_range(number, results)
    assert words == f"among frequent values {before.removeprefix('among frequent values ')}"
    assert "among" not in tables.odds_range(replace(number, counts=number.counts[:, :0]), results)[0]


@pytest.mark.parametrize(("missing", "named"), [(40, True), (1, False)])
def test_missing_values_are_among_the_named_odds_unless_they_are_rare(missing, named):
    results = additive_fit()
    number = next(part for part in results.parts if part.name == "b")
    (words,) = tables.odds_range(replace(number, missing=missing, at_missing=np.array([-20.0])), results)
    assert ("lowest if missing (\u00d7\u00a02.1e\u22129)" in words) == named
    assert words.startswith("among frequent values") or named


def test_class_weights_are_taken_out_of_probabilities_in_words():
    plain, weighted = additive_fit(), ADDITIVE["class weights"]()
    assert plain.weight_shift == 0.0 and "at 0 both are equally likely" in tables.how_to_read(plain)
    probability = weighted.model.calibrator_.probabilities(np.array([[0.0]]))[0, 1]
    assert probability == pytest.approx(1 / (1 + np.exp(weighted.weight_shift)))
    words = tables.how_to_read(weighted)
    assert "equally likely" not in words and words.endswith(f"the probability of 'yes' is {100 * probability:.1f}%.")
    assert ("Class weights", "balanced") in tables.setting_facts(weighted)
    assert "Class weights" not in dict(tables.setting_facts(plain))
    assert tables.how_to_read(additive_iris_fit()).endswith("multiplies them by ten.")


def test_refits_are_explained_by_what_the_model_keeps():
    words = tables.refits(additive_fit())
    assert "5 more times" in words and "the same feature or pair, or any cases" in words
    words = tables.refits(constant_fit())
    assert "the same feature. " in words
    assert tables.refits(replace(constant_fit(), parts=())) == ""
    assert tables.part_table(constant_fit()).head[-1] == "Kept in refits"


def test_small_pairs_are_one_line():
    results = additive_fit()
    pairs = [part for part in results.parts if part.kind == "pair"]
    assert pairs
    faint = tuple(replace(p, variation=np.array([0.3])) if p.kind == "pair" else p for p in results.parts)
    folded = replace(results, parts=faint)
    for brief in (False, True):
        rows = tables.part_table(folded, brief=brief).rows
        assert len({len(row) for row in rows}) == 1
        assert rows[-1][0].endswith("of little influence") and f"{0.3 * len(pairs):.1f}%" in rows[-1]
        assert not any(part.name in [row[0] for row in rows] for part in pairs)


def test_summary_has_both_importances():
    feature = next(f for f in tables.summary(additive_fit())["features"] if f["loss_when_shuffled"] is not None)
    assert feature["mean_contribution"][0] >= 0 and isinstance(feature["loss_when_shuffled"], float)


# ---------------------------------------------------------------------- axes and bins


def test_scale_follows_the_tail():
    rng = np.random.default_rng(0)
    assert choose_scale(rng.normal(size=500)) == LINEAR
    assert choose_scale(np.exp(1.5 * rng.normal(size=500))) == LOG
    zeros = np.where(rng.random(500) < 0.9, 0.0, np.exp(3 * rng.normal(size=500)))
    assert choose_scale(zeros) == QUANTILE
    assert choose_scale(np.r_[np.arange(5.0), 1e9, np.nan]) == LINEAR, "few values have a bin each"


@pytest.mark.parametrize("scale", [LINEAR, LOG, QUANTILE])
def test_every_row_is_in_a_bin(scale):
    rng = np.random.default_rng(1)
    values = np.exp(2 * rng.normal(size=300))
    y = rng.integers(2, size=300)
    edges = bin_edges(values, scale)
    assert np.all(np.diff(edges) > 0)
    _, counts, missing = count_rows(np.r_[values, np.nan], np.r_[y, 0], np.array([0, 1]), None, edges)
    assert counts.sum() == 300 and missing == 1


def test_few_values_have_a_bin_each():
    np.testing.assert_allclose(value_edges(np.array([1.0, 2.0, 4.0, 2.0])), [0.5, 1.5, 3.0, 5.0])
    assert value_edges(np.ones(3)) is None and value_edges(np.arange(100.0)) is None


def test_direction_is_judged_over_steps():
    assert direction_of(np.array([[0.0], [0.0], [1.0], [1.0]])) == "rises"
    assert direction_of(np.array([[1.0], [0.0], [0.5], [-1.0]])) == "mostly falls"
    assert direction_of(np.zeros((3, 1))) == "flat"
