"""The command line on Parquet tables that do not fit in memory."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tamis import io
from tamis.cli.commands import app
from tamis.workflow import Job, is_large, large, run_large

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


@pytest.fixture(scope="module")
def results(folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "SAMPLE", 3000)
        return run_large(folder, job(), tmp_path_factory.mktemp("out"))


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
        monkeypatch.setattr(large, "SAMPLE", 600)
        sample = large._Sample.of(folder, job())
        rows = np.array([int(i[1:]) for i in sample.table["id"]])
        assert 450 < len(rows) < 750
        assert all(np.sum(rows // 2000 == k) > 100 for k in range(3))


class TestSplits:
    def test_by_a_column(self, folder, tmp_path):
        found = run_large(folder, job(split="part", drop=("ward",)), tmp_path)
        assert found.notes.split.startswith("as the split column says")

    def test_by_groups(self, folder, tmp_path):
        found = run_large(folder, job(group="ward", drop=("part",)), tmp_path)
        assert "whole groups" in found.notes.split
        assert found.notes.groups == 60


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
        monkeypatch.setattr(large, "SAMPLE", 300)
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
        assert document["method"] == "EM2NOLCClassifierCV"
        assert {path.name for path in out.iterdir()} >= {"model.tamis", "metrics.json"}
        assert not (out / "pass.tamis").exists()
        done = CliRunner().invoke(
            app, ["predict", str(out / "model.tamis"), str(folder / "1.parquet"), "--out", str(tmp_path / "p.csv")]
        )
        assert done.exit_code == 0, done.output
        assert len(io.read(tmp_path / "p.csv")["prediction"]) == 2000

    def test_says_what_is_wrong_with_a_limit(self, folder):
        done = CliRunner().invoke(app, ["fit", str(folder), "--target", "ill", "--memory-limit", "much"])
        assert done.exit_code == 2
