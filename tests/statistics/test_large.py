"""The command line on Parquet tables that do not fit in memory."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tamis import Results, io
from tamis.cli.commands import app
from tamis.workflow import Job, is_large, large, run_large
from tamis.workflow import job as job_module

N = 6000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": [f"r{k}" for k in range(N)],
            "age": rng.normal(50, 10, N),
            "dose": rng.integers(0, 4, N),
            "site": rng.choice(["north", "south"], N),
            "smoker": rng.random(N) < 0.4,
            "noise": rng.normal(size=N),
            "constant": 1.0,
            "ward": rng.integers(0, 60, N),
            "part": np.where(rng.random(N) < 0.3, "test", "train"),
        }
    )
    score = (frame["age"] - 50) / 10 + (frame["site"] == "north") + 0.5 * frame["smoker"] - 0.7
    frame["ill"] = np.where(score + 0.5 * rng.normal(size=N) > 0, "yes", "no")
    frame.loc[:9, "ill"] = None
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for k in range(3):
        pq.write_table(table.slice(2000 * k, 2000), path / f"{k}.parquet", row_group_size=900)
    return path


DROP = ("ward", "part")


def job(**options):
    return Job("ill", **{"id": "id", "drop": DROP, "max_instances": 4, "max_features": 3, **options})


@pytest.fixture(scope="module", autouse=True)
def small_samples():
    """Of so many rows a sample decides nothing else, and quickly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "MAX_SAMPLE_ROWS", 3000)
        patch.setattr(large, "MAX_STABILITY_ROWS", 300)
        patch.setattr("tamis.flagship.estimator.MANY", 1000)
        patch.setattr("tamis.flagship.estimator.SAMPLE_ROWS", 2000)
        yield


@pytest.fixture(scope="module", params=["TamisClassifier", "EM2NOLCClassifierCV"])
def results(folder, small_samples, tmp_path_factory, request):
    return run_large(folder, job(method=request.param), tmp_path_factory.mktemp("out"))


class TestResults:
    def test_tell_a_good_model_from_few_features(self, results):
        assert results.evaluation.accuracy.value > 0.8
        assert {part.name for part in results.parts[:2]} == {"age", "site"}
        assert results.model.classes_.tolist() == ["no", "yes"]

    def test_cases_are_rows_of_the_files(self, results, folder):
        table = pq.read_table(folder).to_pandas().set_index("id")
        for case in results.cases:
            row = table.loc[case.label]
            assert case.truth == row["ill"]
            assert case.values["age"] == pytest.approx(row["age"])
            assert case.values["site"] == row["site"]

    def test_notes_are_about_all_rows(self, results):
        notes = results.notes
        assert notes.n_rows == N and notes.no_target == 10
        assert notes.dropped["constant"] and notes.repeated is None
        assert any("was not read into memory" in words for words in notes.warnings)

    def test_training_left_the_test_rows_out(self, folder):
        task = job()
        sample = large._Sample.of(folder, task)
        data, _ = large.prepared(sample.table, task)
        source = large._Training(folder, task, data)
        blocks = list(source.blocks())
        assert source.no_target == 10
        counted = np.concatenate([block.weight for block in blocks])
        assert 0.72 < counted.mean() < 0.78
        again = np.concatenate([block.weight for block in source.blocks()])
        np.testing.assert_array_equal(counted, again)
        table = pq.read_table(folder).to_pandas()
        ids = table["id"].to_numpy()
        test = set(ids[(counted == 0) & table["ill"].notna().to_numpy()])
        sampled = np.array(sample.table["id"])[sample.test]
        known = {i for i in sampled if pd.notna(table.set_index("id").loc[i, "ill"])}
        assert known <= test

    def test_the_sample_is_drawn_from_all_files(self, folder, monkeypatch):
        monkeypatch.setattr(large, "MAX_SAMPLE_ROWS", 600)
        sample = large._Sample.of(folder, job())
        rows = np.array([int(i[1:]) for i in sample.table["id"]])
        assert 450 < len(rows) < 750
        assert all(np.sum(rows // 2000 == k) > 100 for k in range(3))


class TestNobodyIsTestedOnWhatItLearned:
    """Rows that count in training, rows that are tested, and rows that should be, by their ids."""

    @pytest.mark.parametrize(("how", "cells"), [("rows", 4000), ("rows", 1 << 23), ("ward", 4000), ("part", 4000)])
    def test_whatever_the_split_and_the_blocks(self, folder, tmp_path, monkeypatch, how, cells):
        monkeypatch.setattr("tamis.table.sources.source.BLOCK_CELLS", cells)
        monkeypatch.setattr("tamis.table.sources.source.block_rows", lambda d: max(100, cells // d))
        monkeypatch.setattr("tamis.table.sources.parquet.block_rows", lambda d: max(100, cells // d))
        frame = pq.read_table(folder).to_pandas().set_index("id")
        options = {
            "rows": {},
            "ward": {"group": "ward", "drop": ("part",)},
            "part": {"split": "part", "drop": ("ward",)},
        }
        seen = {}
        original = job_module.evaluate
        monkeypatch.setattr(
            job_module, "evaluate", lambda m, X, y, **k: seen.update(X=X, y=y, **k) or original(m, X, y, **k)
        )
        weights = {}
        block_of = large._Training._block

        def noted(self, number, table):
            block = block_of(self, number, table)
            weights[number] = block.weight, block.groups
            return block

        monkeypatch.setattr(large._Training, "_block", noted)
        notes = run_large(folder, job(**options[how]), tmp_path).notes
        counted = np.concatenate([weights[k][0] for k in sorted(weights)])
        assert len(counted) == N and (len(weights) > 9) == (cells == 4000)
        ids = frame.index.to_numpy()
        learned = set(ids[counted > 0])
        ages = {round(float(age), 9): i for i, age in frame["age"].items()}
        tested = {ages[round(float(age), 9)] for age in seen["X"]["age"]}
        assert tested and not tested & learned
        assert set(frame.index[frame["ill"].notna()]) >= learned
        if how == "part":
            assert notes.split.startswith("as the split column says")
            assert set(frame.loc[list(learned), "part"]) == {"train"} and set(frame.loc[list(tested), "part"]) == {
                "test"
            }
        elif how == "ward":
            assert "whole groups" in notes.split and notes.groups == 60
            assert not set(frame.loc[list(learned), "ward"]) & set(frame.loc[list(tested), "ward"])
            assert len(set(frame.loc[list(tested), "ward"])) < 30
            groups = np.concatenate([weights[k][1] for k in sorted(weights)])
            np.testing.assert_array_equal(groups, frame["ward"].astype(str).to_numpy())
        else:
            assert 0.2 < len(tested) / 3000 < 0.3

    def test_files_of_one_side_each(self, folder, tmp_path):
        table = pq.read_table(folder)
        part = np.array(table.column("part").to_pylist())
        for side in ("train", "test"):
            pq.write_table(table.filter(pa.array(part == side)), tmp_path / f"{side}.parquet")
        found = run_large(tmp_path, job(split="part", drop=("ward",)), tmp_path / "out")
        assert found.evaluation.accuracy.value > 0.8

    def test_a_table_sorted_by_class(self, folder, tmp_path, monkeypatch):
        monkeypatch.setattr(large, "MAX_STABILITY_ROWS", 1000)
        table = pq.read_table(folder).filter(pc.field("ill").is_valid()).sort_by("ill")
        pq.write_table(table, tmp_path / "rows.parquet", row_group_size=1000)
        found = run_large(tmp_path / "rows.parquet", job(), tmp_path / "out")
        assert found.stability is not None


class TestRefusals:
    def test_of_methods_that_need_all_rows(self, folder, tmp_path):
        with pytest.raises(ValueError, match=r"SimpleMKLClassifier needs all rows.*EM2NOLCClassifier"):
            run_large(folder, Job("ill", method="SimpleMKLClassifier"), tmp_path)

    def test_of_columns_that_are_not_there(self, folder, tmp_path):
        with pytest.raises(ValueError, match="did you mean 'ill'"):
            run_large(folder, Job("il"), tmp_path)

    def test_of_classes_that_the_sample_missed(self, tmp_path, monkeypatch):
        rng = np.random.default_rng(0)
        y = np.where(rng.random(2000) < 0.5, "a", "b").astype(object)
        y[1999] = "c"
        pq.write_table(pa.table({"x": rng.normal(size=2000), "y": y.tolist()}), tmp_path / "rows.parquet")
        monkeypatch.setattr(large, "MAX_SAMPLE_ROWS", 300)
        with pytest.raises(ValueError, match=r"target 'y' holds 'c'.*too rare"):
            run_large(tmp_path / "rows.parquet", Job("y"), tmp_path / "out")


def test_large_is_what_does_not_fit(folder):
    assert is_large(folder)
    assert is_large(folder / "0.parquet", "100kB")
    assert not is_large(folder / "0.parquet", "1GB")
    assert not is_large(folder / "nothing.csv")
    with pytest.raises(ValueError, match="memory_limit='much'"):
        is_large(folder, "much")


class TestCommand:
    def test_fits_writes_and_predicts(self, folder, tmp_path):
        out = tmp_path / "out"
        options = ["--target", "ill", "--id", "id", "--drop", "ward", "--drop", "part", "--json"]
        done = CliRunner().invoke(app, ["fit", str(folder), *options, "--out", str(out), "--max-features", "3"])
        assert done.exit_code == 0, done.output
        document = json.loads(done.stdout)
        assert document["method"] == "TamisClassifier"
        assert {path.name for path in out.iterdir()} >= {"model.tamis", "metrics.json"}
        assert not (out / "pass.tamis").exists()
        done = CliRunner().invoke(
            app, ["predict", str(out / "model.tamis"), str(folder / "1.parquet"), "--out", str(tmp_path / "p.csv")]
        )
        assert done.exit_code == 0, done.output
        assert len(io.read(tmp_path / "p.csv")["prediction"]) == 2000
        done = CliRunner().invoke(
            app, ["predict", str(out / "model.tamis"), str(folder), "--out", str(tmp_path / "all.csv")]
        )
        assert done.exit_code == 0, done.output
        assert len(io.read(tmp_path / "all.csv")["prediction"]) == N

    def test_words_for_missing_cells_and_settings_of_the_method(self, tmp_path):
        rng = np.random.default_rng(0)
        x = rng.normal(size=400)
        cells = [f"{v:.3f}" if k % 9 else "unknown" for k, v in enumerate(x)]
        pq.write_table(pa.table({"x": cells, "y": (x > 0).astype(int)}), tmp_path / "rows.parquet")
        command = ["fit", str(tmp_path / "rows.parquet"), "--target", "y", "--memory-limit", "1kB", "--json"]
        command += ["--out", str(tmp_path / "out"), "--set", "cv=3"]
        done = CliRunner().invoke(app, [*command, "--missing", "unknown"])
        assert done.exit_code == 0, done.output
        assert Results.load(tmp_path / "out" / "model.tamis").notes.missing == {"x": 45}

    def test_takes_other_methods_that_read_blocks(self, folder, tmp_path):
        command = ["fit", str(folder), "--target", "ill", "--method", "EM2NOLCClassifier", "--json", "--id", "id"]
        done = CliRunner().invoke(app, [*command, "--drop", "ward", "--out", str(tmp_path / "out")])
        assert done.exit_code == 0 and json.loads(done.stdout)["method"] == "EM2NOLCClassifier"

    def test_says_what_is_wrong_with_a_limit(self, folder):
        done = CliRunner().invoke(app, ["fit", str(folder), "--target", "ill", "--memory-limit", "much"])
        assert done.exit_code == 2
