"""The main job, and what it says of tables that it should not be given."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, confusion_matrix, roc_auc_score

from tamis import io, per_feature, product, progress
from tamis.io.tables import level
from tamis.results import Results
from tamis.results.tables import sentence, summary
from tamis.workflow import Job, UnknownColumn, describe, evaluate_on, run
from tamis.workflow.prepare import positive_class, prepare, split_rows

QUICK = {"max_pairs": 0, "cv": 3}  # so that cases take what a product leaves
N = 160


def columns(n=N, seed=0):
    rng = np.random.default_rng(seed)
    a, b, noise = rng.normal(size=(3, n))
    colour = np.array(["red", "green", "blue"], dtype=object)[rng.integers(3, size=n)]
    score = np.sin(2 * a) + b + np.where(colour == "red", 1.0, -0.5) + 2.5 * a * b
    y = np.where(score + 0.3 * noise > 0, "yes", "no")
    gaps = b.copy()
    gaps[rng.random(n) < 0.1] = np.nan
    return {
        "a": a,
        "b": gaps,
        "colour": colour,
        "noise": rng.normal(size=n),
        "who": np.array([f"P{k:03d}" for k in range(n)], dtype=object),
        "site": np.arange(n) // 4,
        "y": y,
    }


@pytest.fixture(scope="module")
def results():
    job = Job("y", max_instances=4, max_features=3, id="who", group="site", options=QUICK)
    return run(columns(), job, "people.csv")


class TestResults:
    def test_test_rows_are_not_training_rows(self, results):
        table = columns()
        kept = {case.label for case in results.cases}
        assert not kept & set(results.rows.labels.tolist())
        site = dict(zip(table["who"], table["site"], strict=True))
        assert not {site[w] for w in kept} & {site[w] for w in results.rows.labels}

    def test_numbers_of_the_test(self, results):
        rows, test = results.rows, results.evaluation
        assert results.model.classes_.tolist() == ["no", "yes"]
        np.testing.assert_array_equal(
            test.confusion, confusion_matrix(rows.truth, rows.predicted, labels=["no", "yes"])
        )
        assert test.accuracy.value == pytest.approx(accuracy_score(rows.truth, rows.predicted))
        assert test.auc.value == pytest.approx(roc_auc_score(rows.truth == "yes", rows.decision[:, 0]))
        assert test.n_rows == len(rows.labels) and test.accuracy.value > 0.7

    def test_contributions_add_up_to_the_shown_decisions(self, results):
        explanation = results.explanation
        np.testing.assert_allclose(
            explanation.base_value + explanation.by_part.sum(axis=2), results.rows.decision, atol=1e-12
        )
        assert explanation.rows == results.rows.labels.tolist()

    def test_shapes_are_what_features_add(self, results):
        part = next(p for p in results.parts if p.kind == "number")
        grid, values = results.model.curve(part.name)
        np.testing.assert_array_equal(part.grid, grid)
        np.testing.assert_array_equal(part.shape[:, 0], values)
        assert part.counts.sum() + part.missing == sum(v[0] for v in results.notes.balance.values())

    def test_cases_have_names_values_and_pulls(self, results):
        table = columns()
        for case in results.cases:
            row = table["who"].tolist().index(case.label)
            assert case.truth == table["y"][row]
            for name, value in case.values.items():
                assert value == table[name][row] or (value is None and np.isnan(table[name][row]))
        first = results.cases[0]
        same = {name: np.array([value], dtype=object) for name, value in first.values.items()}
        by_instance = results.model.explain(same).by_instance[0, 0]
        place = list(results.model.instance_labels_).index(first.label)
        assert by_instance[place] == pytest.approx(first.pull[0])

    def test_stability_has_five_folds(self, results):
        assert results.stability.chosen.shape[0] == 5
        assert len(results.parts[0].by_fold) == 5 and results.parts[0].by_fold.max() > 0

    def test_notes(self, results):
        notes = results.notes
        assert notes.n_rows == N and notes.n_features == 4 and notes.groups == 40
        assert notes.missing == {"b": int(np.isnan(columns()["b"]).sum())} and notes.categories == ("colour",)

    def test_saved_results_are_the_same(self, results, tmp_path):
        results.save(tmp_path / "m.tamis")
        again = Results.load(tmp_path / "m.tamis")
        assert summary(again) == summary(results)
        np.testing.assert_array_equal(again.explanation.by_part, results.explanation.by_part)
        model = io.load(tmp_path / "m.tamis")
        np.testing.assert_array_equal(model.predict(columns()), results.model.predict(columns()))
        assert (tmp_path / "m.tamis").stat().st_size < 100_000
        json.dumps(summary(again), allow_nan=False)

    def test_sentence(self, results):
        text = sentence(results)
        assert "'yes' from 'no'" in text and "of 4 features" in text and "held-out" in text

    def test_same_seed_same_result(self, results):
        job = Job("y", max_instances=4, max_features=3, id="who", group="site", options=QUICK, n_jobs=2)
        again = run(columns(), job, "people.csv")
        np.testing.assert_array_equal(again.rows.decision, results.rows.decision)
        assert summary(again)["stability"] == summary(results)["stability"]

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_frames_are_as_good_as_columns(self, frame, results):
        job = Job("y", max_instances=4, max_features=3, id="who", group="site", options=QUICK)
        again = run(frame(columns()), job)
        np.testing.assert_allclose(again.rows.decision, results.rows.decision)


def test_test_rows_that_training_has_seen_are_counted():
    table = {k: v for k, v in columns().items() if k in ("a", "b", "y")}
    twice = {k: np.r_[v, v] for k, v in table.items()}
    side = np.repeat(["train", "test"], N)
    found = run(twice | {"side": side}, Job("y", split="side", max_instances=2, max_features=1, options=QUICK))
    assert found.notes.repeated == N
    assert any(f"{N} of {N} test rows are equal to a training row" in warning for warning in found.notes.warnings)


def test_other_rows_can_be_tested(results):
    fresh = columns(seed=1)
    again = evaluate_on(results, fresh, "fresh.csv")
    assert again.evaluation.n_rows == N and again.evaluation.source == f"{N} rows of fresh.csv"
    assert again.evaluation.accuracy.value == pytest.approx(np.mean(results.model.predict(fresh) == fresh["y"]))
    without = evaluate_on(results, {k: v for k, v in fresh.items() if k != "y"}, "fresh.csv")
    assert without.evaluation is None and without.rows.truth is None
    with pytest.raises(ValueError, match="'maybe', which is not a class"):
        evaluate_on(results, fresh | {"y": np.full(N, "maybe", dtype=object)}, "fresh.csv")


def test_a_model_alone_can_be_described(results):
    alone = describe(results.model, "model.tamis")
    assert alone.evaluation is None and len(alone.parts) == len(results.parts)
    kept = {case.place: case for case in results.cases}
    for case in alone.cases:
        for name, value in case.values.items():
            assert value == pytest.approx(kept[case.place].values[name])
    assert sentence(alone).endswith("%).") and "for None" in repr(alone)
    with pytest.raises(ValueError, match="no rows to explain"):
        _ = alone.explanation
    fresh = columns(seed=1)
    assert evaluate_on(alone, fresh, "fresh.csv").evaluation is None  # nobody has said what the target is
    found = evaluate_on(alone, fresh, "fresh.csv", target="y").evaluation
    assert found.n_rows == N and np.isnan(found.majority)


def test_several_classes_and_groups_of_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = np.digitize(X[:, 0] * X[:, 1], [-0.4, 0.4])
    options = {"kernels": per_feature() + product(), "coupling": "full"}
    found = run(
        {"u": X[:, 0], "v": X[:, 1], "w": X[:, 2], "y": y},
        Job("y", method="EM2NOLCClassifier", max_instances=6, max_features=3, options=options),
    )
    assert found.model.classes_.tolist() == [0, 1, 2] and len(found.evaluation.curves) == 3
    assert any(part.kind == "group" and part.direction == "together" for part in found.parts)
    assert 0.5 < found.evaluation.auc.low < found.evaluation.auc.high <= 1.0
    json.dumps(summary(found), allow_nan=False)


def test_codes_that_are_categories_are_known_as_numbers_too():
    table = pd.DataFrame(columns()).drop(columns=["who", "site"]).assign(stage=np.arange(N) % 3 + 1)
    table["y"] = np.where(table["stage"] == 2, "yes", "no")
    found = run(table, Job("y", categorical=["stage"], max_instances=3, max_features=1, options=QUICK))
    assert (found.model.predict(table.drop(columns="y")) == table["y"]).all()


def test_rows_are_called_by_the_index_of_a_frame():
    frame = pd.DataFrame(columns()).drop(columns=["who", "site"])
    frame.index = [f"pt{k}" for k in range(N)]
    found = run(frame, Job("y", max_instances=3, max_features=2, options=QUICK))
    case = found.cases[0]
    assert frame.loc[case.label, "y"] == case.truth
    assert "Results(TamisClassifier for 'y'" in repr(found) and "<table" in found._repr_html_()
    assert repr(found.explanation).startswith("AdditiveExplanation(40 rows")


def test_classes_of_all_kinds():
    base = {k: v for k, v in columns().items() if k in ("a", "b")}
    for labels, expected in (
        (["01", "1"], ["01", "1"]),
        (["0", "1"], [0, 1]),
        ([0.5, 1.5], ["0.5", "1.5"]),
        ([True, False], [False, True]),
        (["true", "false"], ["false", "true"]),
    ):
        y = np.array(labels, dtype=object)[np.arange(N) % 2]
        assert np.unique(prepare(base | {"y": y}, "y").y).tolist() == expected


def test_flags_and_odd_types_of_frames():
    rng = np.random.default_rng(0)
    flag = rng.random(N) < 0.5
    y = np.where(flag ^ (rng.random(N) < 0.05), "yes", "no")
    frame = pd.DataFrame({"flag": flag, "x": [Decimal(f"{v:.3f}") for v in rng.normal(size=N)], "y": y})
    job = Job("y", max_instances=3, max_features=2, options=QUICK)
    found = run(frame, job)
    assert found.notes.categories == ("flag",) and found.evaluation.accuracy.value > 0.85
    expected = np.mean(found.model.predict(frame[["flag", "x"]].astype({"x": float})) == y)
    nullable = frame.assign(flag=frame["flag"].astype("boolean"))
    words = frame.assign(flag=frame["flag"].map({True: "True", False: "FALSE"}))
    assert evaluate_on(found, frame, "t").evaluation.accuracy.value == pytest.approx(expected)
    for table in (nullable, words):
        assert evaluate_on(found, table, "t").evaluation.accuracy.value == pytest.approx(expected)
        np.testing.assert_allclose(run(table, job).rows.decision, found.rows.decision)


def test_classes_written_in_other_ways_are_known(results):
    numbers = {k: v for k, v in columns().items() if k in ("a", "b")}
    code = (np.nan_to_num(numbers["b"]) > 0).astype(int)
    found = run(numbers | {"y": code}, Job("y", max_instances=2, max_features=1, options=QUICK))
    for labels in (["0", "1"], ["0.0", "1.0"], [0.0, 1.0]):
        other = numbers | {"y": np.array(labels, dtype=object)[code]}
        assert evaluate_on(found, other, "t").evaluation.n_rows == N


def test_large_values_in_a_narrow_range():
    rng = np.random.default_rng(0)
    t = 1.7e18 + 1000.0 * rng.integers(0, 6, size=N)
    found = run({"t": t, "y": (t > np.median(t)).astype(int)}, Job("y", max_instances=2, max_features=1, options=QUICK))
    assert found.parts[0].counts.sum() == 120


class TestLongNumbers:
    def test_floats_as_text(self):
        texts = [level(v) for v in (1234567.0, 0.1234567891, 2.0**60, True, float("nan"), None)]
        assert texts == ["1234567", "0.1234567891", str(2**60), "true", None, None]

    def test_classes(self):
        labels = np.array(["9007199254740993", "9007199254740997"], dtype=object)[np.arange(N) % 2]
        assert np.unique(prepare(columns() | {"y": labels}, "y").y).tolist() == [9007199254740993, 9007199254740997]

    def test_codes_of_a_model(self):
        codes = 2**53 + np.arange(N) % 6
        frame = pd.DataFrame({"code": codes, "y": np.where(codes % 2 == 1, "yes", "no")})
        found = run(frame, Job("y", categorical=["code"], max_instances=6, max_features=1, options=QUICK))
        assert len(found.model.model_.encoder.columns[0].levels) == 6
        words = frame.assign(code=codes.astype(str))
        for table in (frame, words):
            told = evaluate_on(found, table, "t").evaluation.accuracy.value
            assert told == pytest.approx(np.mean(found.model.predict(words[["code"]]) == frame["y"]))
        with pytest.raises(ValueError, match="beyond 2"):
            found.model.predict(frame[["code"]])
        gaps = pd.Series(codes, dtype="Int64").where(np.arange(N) != 3)
        assert len(set(prepare(frame.assign(id=gaps), "y", id_column="id").labels)) == 7

    """Ids, groups, classes and codes stay apart however long they are."""

    @pytest.mark.parametrize("first", [1_234_560, 10**17])
    def test_ids_and_groups(self, first):
        table = columns() | {"who": first + np.arange(N), "site": first + np.arange(N) // 4}
        data = prepare(table, "y", id_column="who", group_column="site")
        assert len(set(data.labels.tolist())) == N and data.labels[1] == str(first + 1)
        assert len(np.unique(data.groups)) == N // 4

    def test_categories_and_classes(self):
        codes = 2_139_000 + np.arange(N) % 3
        data = prepare(columns() | {"zip": codes, "y": 1_000_000 + np.arange(N) % 2}, "y", categorical=["zip"])
        assert set(data.columns["zip"]) == {"2139000", "2139001", "2139002"}
        assert np.unique(data.y).tolist() == [1_000_000, 1_000_001]

    def test_files(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"who": [10**17, 10**17 + 1, None], "x": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
        assert io.read(tmp_path / "t.parquet", text=["who"])["who"].tolist() == [str(10**17), str(10**17 + 1), None]


def test_a_column_called_categorical_is_a_column():
    table = pd.DataFrame(columns()).assign(categorical=np.arange(N) % 3 * 1.0)
    assert "a" not in prepare(table, "y").categories


def test_categories_that_training_never_saw_are_told(results):
    fresh = columns(seed=1)
    fresh["colour"] = np.where(np.arange(N) % 4 == 0, "purple", fresh["colour"])
    again = evaluate_on(results, fresh, "fresh.csv")
    assert any("40 of 160 cells are categories not seen in training and add nothing, such as 'purple'" in w
               for w in again.notes.warnings)  # fmt: skip


def test_the_majority_is_that_of_training():
    table = {k: v for k, v in columns().items() if k in ("a", "b")}
    y = np.where(np.arange(N) % 4 == 0, "rare", "often")
    side = np.where((y == "rare") & (np.arange(N) < 120) | (np.arange(N) % 16 == 1), "test", "train")
    job = Job("y", split="side", max_instances=2, max_features=1, options=QUICK)
    with pytest.warns(UserWarning, match="kept no feature"):
        found = run(table | {"y": y, "side": side}, job)
    truth = y[side == "test"]
    assert np.mean(truth == "rare") > 0.5
    assert found.evaluation.majority == pytest.approx(np.mean(truth == "often"))


def test_who_listens_hears_of_every_stage():
    heard = []
    table = {k: v for k, v in columns().items() if k in ("a", "b", "y")}
    options = {"bandwidths": (1.0,), "alphas": (0.01,), "cv": 3}
    job = Job("y", "EM2NOLCClassifierCV", max_instances=2, max_features=1, options=options)
    with progress.listening(lambda *words: heard.append(words)):
        run(table, job)
    run(table, job)  # nobody listens any more
    stages = list(dict.fromkeys(what for what, _, _ in heard))
    assert stages[-1] == "stability of the selection" and any("tuning" in stage for stage in stages[:-1])
    for stage in stages[-1:]:
        counts = [(done, total) for what, done, total in heard if what == stage]
        assert counts == [(k, counts[0][1]) for k in range(counts[0][1] + 1)]


def test_values_out_of_range_are_told(results):
    fresh = columns(seed=1)
    fresh["a"] = fresh["a"] * 100  # other units
    again = evaluate_on(results, fresh, "fresh.csv")
    assert any("'a'" in w and "outside the training range" in w for w in again.notes.warnings)
    assert not any("range" in w for w in evaluate_on(results, columns(seed=2), "fresh.csv").notes.warnings)


def test_rows_without_a_class_are_told(results):
    fresh = columns(seed=1)
    fresh["y"] = np.where(np.arange(N) < 5, None, fresh["y"].astype(object))
    again = evaluate_on(results, fresh, "fresh.csv")
    assert again.evaluation.n_rows == N - 5
    assert any("5 rows of fresh.csv have no class" in w for w in again.notes.warnings)


def test_warnings_of_a_fit_are_heard_and_noted():
    table = {k: v for k, v in columns().items() if k in ("a", "b", "y")}
    job = Job("y", method="EM2NOLCClassifier", max_instances=3, max_features=2, options={"max_iter": 1, "tol": 1e-300})
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        found = run(table, job)
    assert any("max_iter" in warning for warning in found.notes.warnings)


class TestPositiveClass:
    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            (["no", "yes"], "yes"),
            (["malignant", "benign"], "malignant"),
            ([0, 1], 1),
            ([-1, 1], 1),
            (["good", "bad"], "bad"),
            ([False, True], True),
        ],
    )
    def test_by_name(self, labels, expected):
        assert positive_class(np.array(labels * 3)) == expected

    def test_the_rarer_class_otherwise(self):
        assert positive_class(np.array(["x"] * 3 + ["w"] * 2)) == "w"
        assert positive_class(np.array(["x", "y", "z"])) is None

    def test_as_asked(self):
        assert positive_class(np.array([0, 1]), "0") == 0
        with pytest.raises(ValueError, match="positive='2' is not a class"):
            positive_class(np.array([0, 1]), "2")

    def test_signs_follow(self):
        table = columns()
        ways = [run(table, Job("y", max_instances=3, max_features=2, positive=p, drop=("who",), options=QUICK)) for p in
                ("yes", "no")]  # fmt: skip
        one, two = ways
        assert two.model.classes_.tolist() == ["yes", "no"]
        np.testing.assert_allclose(one.rows.decision, -two.rows.decision)
        np.testing.assert_array_equal(one.rows.predicted, two.rows.predicted)
        np.testing.assert_allclose(one.rows.probability, two.rows.probability[:, ::-1])
        np.testing.assert_allclose(one.cases[0].pull, -two.cases[0].pull)
        assert one.evaluation.auc.value == pytest.approx(two.evaluation.auc.value)


class TestSplit:
    def test_by_column(self):
        table = columns()
        side = np.where(np.arange(N) % 3 == 0, "test", "train")
        data = prepare(table | {"side": side}, "y", split_column="side", drop=["who"])
        train, test, _ = split_rows(data, 0.25, 0)
        np.testing.assert_array_equal(test, np.arange(0, N, 3))
        assert not set(train) & set(test) and "side" not in data.columns

    def test_groups_stay_together(self):
        data = prepare(columns(), "y", group_column="site", drop=["who"])
        train, test, _ = split_rows(data, 0.25, 3)
        assert not set(data.groups[train]) & set(data.groups[test])
        assert 0.15 < len(test) / N < 0.35
        assert 0.65 < len(split_rows(data, 0.75, 3)[1]) / N < 0.85

    @pytest.mark.parametrize(
        ("side", "match"),
        [
            (np.where(np.arange(N) % 3, "train", "maybe"), "split column holds 'maybe'"),
            (np.where(np.arange(N) % 3, "train", "test"), "has rows on both sides of the split"),
            (np.full(N, "train"), "none to test on"),
        ],
    )
    def test_bad_split_columns(self, side, match):
        data = prepare(columns() | {"side": side}, "y", split_column="side", group_column="site", drop=["who"])
        with pytest.raises(ValueError, match=match):
            split_rows(data, 0.25, 0)


class TestBadInput:
    def refused(self, match, table=None, target="y", error=ValueError, **options):
        with pytest.raises(error, match=match):
            prepare(table if table is not None else columns(), target, **options)

    def test_unknown_columns(self):
        self.refused("no column 'colur': did you mean 'colour'", target="colur", error=UnknownColumn)
        self.refused("did you mean 'y'", target=" Y", error=UnknownColumn)
        self.refused("no column 'zzz': it has 'a', 'b'", drop=["zzz"], error=UnknownColumn)

    def test_target(self):
        table = columns()
        self.refused("has one class only", table | {"y": np.full(N, "yes")})
        self.refused("has no value in any row", table | {"y": np.full(N, np.nan)})
        self.refused("160 different numbers", target="a")
        self.refused("is it an id", target="who")
        self.refused("160 different numbers.*TamisRegressor", table | {"y": table["a"].astype(str)})
        self.refused("class 'rare' of 'y' has 1 row: at least 3", table | {"y": np.r_[["rare"], table["y"][1:]]})
        self.refused("has 1 group: at least 3", table | {"y": np.r_[["rare"] * 4, table["y"][4:]]}, group_column="site")
        self.refused("holds dates", table | {"y": np.full(N, "2020-01-01", dtype="datetime64[D]")})

    def test_columns(self):
        table = columns()
        self.refused("column 'e' has no value in any row", table | {"e": np.full(N, np.nan)})
        self.refused("column 'd' holds dates", table | {"d": np.arange(N).astype("datetime64[D]")})
        self.refused("column 'd' holds dates", table | {"d": np.array(["2020-01-01", "2020-02-01"] * 80, dtype=object)})
        self.refused("column 'd' holds dates", table | {"d": np.array(["1.2.2020", "31/12/99"] * 80, dtype=object)})
        infinite = table["a"].copy()
        infinite[6] = np.inf
        self.refused("column 'a' holds an infinite value in row 7", table | {"a": infinite})
        mixed = np.array(["1", "2", "n.d.", "4"] * 40, dtype=object)
        self.refused(r"column 'm' mixes numbers and text: row 3 holds 'n.d.' \(40 of 160 cells", table | {"m": mixed})
        assert prepare(table | {"m": mixed}, "y", categorical=["m"]).categories == ("colour", "m")
        self.refused("two columns are named 'a'", pd.DataFrame([[1, 2, 3]] * 9, columns=["a", "a", "y"]))
        self.refused("equally many in each column", {"a": np.ones(3), "y": np.ones(4)})
        self.refused("has no value in row 2", table | {"g": np.r_[[1.0, np.nan], np.ones(N - 2)]}, group_column="g")

    def test_roles(self):
        self.refused("two roles", id_column="y")
        self.refused("both dropped and used", drop=["y"])
        self.refused("need not be declared", categorical=["y"])
        self.refused("no column is left", drop=[c for c in columns() if c != "y"])
        self.refused("give a DataFrame or a dict", table=np.ones((3, 3)))

    def test_what_looks_like_an_id_is_dropped_and_said(self):
        data = prepare(columns() | {"count": np.arange(N) + 7, "same": np.ones(N)}, "y")
        assert set(data.dropped) == {"who", "count", "same"}
        assert any("'who'" in w and "id" in w for w in data.warnings)
        assert any("'count' counts the rows" in w for w in data.warnings)

    def test_copies_of_the_target_are_warned_of(self):
        table = columns()
        codes = np.where(table["y"] == "yes", 7.0, 3.0)
        assert any("'copy' is a copy of the target" in w for w in prepare(table | {"copy": codes}, "y").warnings)
        sure = codes + np.random.default_rng(0).random(N)
        assert any("'sure' separates" in w for w in prepare(table | {"sure": sure}, "y").warnings)
        assert not any("'a'" in w for w in prepare(table, "y").warnings)

    def test_rows_without_a_class_are_left_out(self):
        table = columns()
        y = table["y"].astype(object)
        y[:5] = None
        data = prepare(table | {"y": y}, "y", id_column="who")
        assert data.no_target == 5 and data.labels[0] == "P005"
        assert prepare(table | {"y": y}, "y", drop=["who"]).labels[0] == 6

    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"test_size": 1.5}, "test_size=1.5"),
            ({"seed": -1}, "seed=-1"),
            ({"method": "Nothing"}, "method='Nothing' is unknown: use one of Tamis"),
            ({"options": {"nonsense": 1}}, "has no parameter 'nonsense'"),
        ],
    )
    def test_jobs(self, options, match):
        with pytest.raises(ValueError, match=match):
            Job("y", **options)

    def test_class_weights_are_named_by_class(self):
        with pytest.raises(ValueError, match="class_weight names 'maybe'"):
            run(columns(), Job("y", class_weight={"maybe": 2}))


def test_class_weights_move_the_boundary():
    table = {k: v for k, v in columns().items() if k not in ("who", "site")}
    base = {"max_instances": 3, "max_features": 2, "options": QUICK}
    said = [np.mean(run(table, Job("y", class_weight=w, **base)).rows.predicted == "yes") for w in
            (None, {"yes": 20, "no": 1})]  # fmt: skip
    assert said[1] > said[0]


def test_a_table_that_says_nothing():
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=60), "y": np.arange(60) % 2}
    with pytest.warns(UserWarning, match="kept no feature"):
        found = run(table, Job("y", max_instances=2, max_features=1, options=QUICK))
    assert found.evaluation.accuracy.low < 0.5 and not found.parts and not found.cases
    json.dumps(summary(found), allow_nan=False)
