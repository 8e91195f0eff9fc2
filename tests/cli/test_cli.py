"""Every command in a temporary folder, as a user would type it."""

from __future__ import annotations

import csv
import json
import runpy
import signal
import subprocess
import sys
from functools import partial
from io import StringIO

import numpy as np
import pytest

typer = pytest.importorskip("typer", reason="the command line needs typer and rich")
pytest.importorskip("pyarrow", reason="the command line needs pyarrow")
pytest.importorskip("jinja2", reason="the command line needs jinja2")

from rich.console import Console
from typer.testing import CliRunner

from tamis import io
from tamis.cli import main, screen
from tamis.cli.commands import app
from tamis.io import read
from tamis.workflow import ExplainedRow

QUICK = ["--max-pairs", "1", "--set", "cv=3", "--max-instances", "3",
         "--max-features", "3"]  # fmt: skip
N = 120


def write_csv(path, seed=0, n=N, header=("who", "age", "dose", "colour", "site", "outcome")):
    rng = np.random.default_rng(seed)
    age, dose = rng.normal(50, 10, n).round(1), rng.normal(size=n).round(3)
    colour = np.array(["red", "green", "<b>blue"])[rng.integers(3, size=n)]
    score = 0.1 * (age - 50) + np.where(colour == "red", 1.0, -0.5) + 0.5 * rng.normal(size=n)
    lines = [",".join(header)]
    for k in range(n):
        cells = [
            f"P{k:03d}",
            age[k],
            "" if k % 11 == 0 else dose[k],
            colour[k],
            k // 4,
            "ill" if score[k] > 0 else "well",
        ]
        lines.append(",".join(map(str, cells)))
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(a) for a in args])
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture
def typed(monkeypatch, capsys):
    """What a whole command, its parser and its exit included, writes and returns."""
    before = signal.getsignal(signal.SIGTERM)

    def go(*args, entry=main):
        monkeypatch.setattr(sys, "argv", ["tamis", *(str(a) for a in args)])
        with pytest.raises(SystemExit) as left:
            entry()
        return left.value.code, *capsys.readouterr()

    yield go
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    write_csv(folder / "people.csv")
    write_csv(folder / "new.csv", seed=1)
    args = ["--target", "outcome", "--id", "who", "--group", "site", "--positive", "ill", "--out", folder / "out"]
    (folder / "screen.txt").write_text(run("fit", folder / "people.csv", *args, *QUICK).output)
    return folder


def read_kept(text):
    return next(csv.reader(text.splitlines()))


class TestFit:
    def test_the_screen(self, folder):
        text = (folder / "screen.txt").read_text()
        assert (
            "To distinguish 'ill' from 'well', the model adds up" in " ".join(text.split()) and "95% interval" in text
        )
        for word in ("Predicted", "Accuracy", "AUC", "KS", "Variation", "kept", "log-odds", "Report:"):
            assert word in text, word
        assert len(text.splitlines()) < 45

    def test_the_files(self, folder):
        files = sorted(p.name for p in (folder / "out").iterdir())
        assert files == ["metrics.json", "model.tamis", "report.html"]
        metrics = json.loads((folder / "out" / "metrics.json").read_text())
        assert metrics["positive"] == "ill" and metrics["n_features"] <= 3 and metrics["n_instances"] <= 3
        assert metrics["data"]["groups"] == 30
        assert (folder / "out" / "model.tamis").stat().st_size < 100_000
        assert (folder / "out" / "report.html").stat().st_size < 1_000_000

    def test_json_is_one_document(self, folder, tmp_path):
        out = run(
            "fit", folder / "people.csv", "-t", "outcome", "--drop", "who", "--json", "-o", tmp_path / "o", *QUICK
        )
        document = json.loads(out.stdout)
        assert document["test"]["rows"] == 30 and document["files"]["model"].endswith("model.tamis")
        assert document == json.loads(json.dumps(document, allow_nan=False))

    def test_same_seed_same_model(self, folder, tmp_path):
        for name in ("a", "b"):
            run(
                "fit", folder / "people.csv", "-t", "outcome", "--seed", 3, "-o", tmp_path / name, "--id", "who", *QUICK
            )
        models = [io.load(tmp_path / name / "model.tamis") for name in ("a", "b")]
        table = read(folder / "new.csv")
        np.testing.assert_array_equal(models[0].decision_function(table), models[1].decision_function(table))

    @pytest.mark.parametrize(
        "options",
        [
            ["--method", "EM2NOLCClassifier", "--set", "bandwidth=1.0"],
            ["--class-weight", "balanced", *QUICK],
            ["--class-weight", "ill=3", "--class-weight", "well=1", *QUICK],
            ["--categorical", "site", "--test-size", "0.4", *QUICK],
        ],
    )
    def test_options(self, options, folder, tmp_path):
        run("fit", folder / "people.csv", "-t", "outcome", "--id", "who", "-o", tmp_path, *options)
        assert (tmp_path / "model.tamis").exists()

    def test_split_column(self, folder, tmp_path):
        lines = (folder / "people.csv").read_text().splitlines()
        marked = [
            lines[0] + ",side",
            *(f"{line},{'test' if k % 5 == 0 else 'train'}" for k, line in enumerate(lines[1:])),
        ]
        (tmp_path / "s.csv").write_text("\n".join(marked))
        out = run("fit", tmp_path / "s.csv", "-t", "outcome", "--split", "side", "--json", "-o", tmp_path, "--drop",
                  "who", *QUICK)  # fmt: skip
        assert json.loads(out.stdout)["test"]["rows"] == 24


class TestPredict:
    def test_columns_are_added(self, folder, tmp_path):
        model = folder / "out" / "model.tamis"
        run("predict", model, folder / "new.csv", "-o", tmp_path / "p.csv", "--explain", "--top", 2)
        told, table = read(tmp_path / "p.csv"), read(folder / "new.csv")
        classifier = io.load(model)
        np.testing.assert_allclose(told["score"], classifier.decision_function(table), rtol=1e-12)
        np.testing.assert_allclose(told["probability"], classifier.predict_proba(table)[:, 1], rtol=1e-12)
        assert told["prediction"].tolist() == classifier.predict(table).tolist()
        assert told["who"].tolist() == table["who"].tolist()
        total = told["base_value"] + told["top_1_contribution"] + told["top_2_contribution"] + told["rest"]
        np.testing.assert_allclose(total, told["score"], atol=1e-12)
        assert np.all(np.abs(told["top_1_contribution"]) >= np.abs(told["top_2_contribution"]))

    def test_streams_in_blocks(self, folder, tmp_path, monkeypatch):
        model = folder / "out" / "model.tamis"
        whole = run("predict", model, folder / "new.csv").stdout
        monkeypatch.setattr("tamis.io.readers.BLOCK", 1 << 9)
        assert run("predict", model, folder / "new.csv").stdout == whole
        assert len(whole.splitlines()) == N + 1

    def test_kinds_of_files(self, folder, tmp_path):
        model = folder / "out" / "model.tamis"
        run("predict", model, folder / "new.csv", "-o", tmp_path / "p.parquet")
        again = json.loads(run("predict", model, tmp_path / "p.parquet", "--json").stdout)
        assert again[0]["tamis_score"] == pytest.approx(again[0]["score"]) and len(again) == N
        run("predict", model, tmp_path / "p.parquet", "-o", tmp_path / "p.jsonl")
        assert [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()] == again
        run("predict", model, tmp_path / "p.parquet", "-o", tmp_path / "q.parquet")
        third = read_kept(run("predict", model, tmp_path / "q.parquet").stdout)
        assert third[-3:] == ["tamis_tamis_prediction", "tamis_tamis_score", "tamis_tamis_probability"]

    def test_only_kept_columns_are_needed(self, folder, tmp_path):
        model = io.load(folder / "out" / "model.tamis")
        kept = list(model.model_.encoder.names)
        rows = read(folder / "new.csv", text=kept)
        lines = [",".join(kept), *(",".join(str(rows[c][k] or "") for c in kept) for k in range(5))]
        (tmp_path / "few.csv").write_text("\n".join(lines))
        assert len(run("predict", folder / "out" / "model.tamis", tmp_path / "few.csv").stdout.splitlines()) == 6

    def test_unseen_categories_are_told(self, folder, tmp_path):
        if "colour" not in io.load(folder / "out" / "model.tamis").model_.encoder.names:
            pytest.skip("the category was not kept")
        (tmp_path / "n.csv").write_text((folder / "new.csv").read_text().replace(",red,", ",crimson,"))
        said = run("predict", folder / "out" / "model.tamis", tmp_path / "n.csv", "-o", tmp_path / "p.csv").stderr
        assert "categories not seen in training and add nothing, such as 'crimson'" in " ".join(said.split())

    def test_what_goes_wrong(self, folder, tmp_path):
        model = folder / "out" / "model.tamis"
        kept = io.load(model).model_.encoder.names
        lines = (folder / "new.csv").read_text().splitlines()
        (tmp_path / "short.csv").write_text("\n".join(line.replace(kept[0], "other") for line in lines))
        assert f"no column {kept[0]!r}" in run("predict", model, tmp_path / "short.csv", code=2).stderr
        (tmp_path / "bad.csv").write_text("\n".join([*lines[:50], lines[50].replace(",", ",x", 1), *lines[51:]]))
        (tmp_path / "old.csv").write_text("old")
        if "age" in kept:
            error = run("predict", model, tmp_path / "bad.csv", "-o", tmp_path / "old.csv", code=1).stderr
            assert "row 50" in error and "'age' is not a number" in error
        assert (tmp_path / "old.csv").read_text() == "old"
        assert "is one of the files to read" in run("predict", model, folder / "new.csv", "-o", model, code=1).stderr

    def test_no_rows(self, folder, tmp_path):
        (tmp_path / "none.csv").write_text((folder / "new.csv").read_text().splitlines()[0] + "\n")
        model = folder / "out" / "model.tamis"
        for _ in range(5):
            result = run("predict", model, tmp_path / "none.csv", "-o", tmp_path / "p.csv", code=1)
            assert "no rows below its header" in result.stderr and not (tmp_path / "p.csv").exists()

    def test_flags_are_the_same_in_every_kind_of_file(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        rng = np.random.default_rng(0)
        flag, x = rng.random(100) < 0.5, rng.normal(size=100)
        y = np.where(flag ^ (rng.random(100) < 0.1), "a", "b")
        table = pa.table({"flag": flag, "x": x, "y": y})
        pq.write_table(table, tmp_path / "t.parquet")
        lines = ["flag,x,y", *(f"{f},{v!r},{c}" for f, v, c in zip(flag, x.tolist(), y, strict=True))]
        (tmp_path / "t.csv").write_text("\n".join(lines))
        scores = []
        for fitted in ("t.csv", "t.parquet"):
            run("fit", tmp_path / fitted, "-t", "y", "-o", tmp_path / "out", *QUICK)
            for told in ("t.csv", "t.parquet"):
                run("predict", tmp_path / "out" / "model.tamis", tmp_path / told, "-o", tmp_path / "p.parquet")
                scores.append(read(tmp_path / "p.parquet")["score"])
        for other in scores[1:]:
            np.testing.assert_allclose(other, scores[0])


class TestExplain:
    def test_brackets_are_no_markup(self, tmp_path):
        text = write_csv(tmp_path / "t.csv").read_text()
        text = text.replace("ill", "grade [low]").replace("well", "[/z]").replace("P003", "P [site]")
        (tmp_path / "t.csv").write_text(text)
        out = tmp_path / "x[b]"
        assert "x[b]" in run("fit", tmp_path / "t.csv", "-t", "outcome", "--id", "who", "-o", out, *QUICK).output
        told = run("explain", out / "model.tamis", tmp_path / "t.csv", "--row", 4).output
        assert "(P [site])" in told and "grade [low]" in told

    def test_one_row(self, folder):
        model = folder / "out" / "model.tamis"
        told = json.loads(run("explain", model, folder / "new.csv", "--row", 7, "--json").stdout)
        table = read(folder / "new.csv")
        one = {name: values[6:7] for name, values in table.items()}
        assert told["score"] == pytest.approx(io.load(model).decision_function(one)[0])
        assert told["label"] == "P006" and told["truth"] == table["outcome"][6]
        summands = [part["contribution"] for parts in ("by_feature", "by_case") for part in told[parts]]
        assert told["base_value"] + sum(summands) == pytest.approx(told["score"], abs=1e-12)
        assert all(0 <= case["similarity"] <= 1 for case in told["by_case"])
        text = run("explain", model, folder / "new.csv", "--id", "P006").output
        assert "Row 7 (P006) is predicted" in text and "sum = log-odds" in text

    def test_the_other_class(self, folder):
        args = ["explain", folder / "out" / "model.tamis", folder / "new.csv", "--row", 1, "--json"]
        one, two = json.loads(run(*args).stdout), json.loads(run(*args, "--class", "well").stdout)
        assert one["score"] == pytest.approx(-two["score"])
        assert one["probability"] == pytest.approx(1 - two["probability"])

    def test_what_rounds_to_nothing_is_one_line(self):
        values, by_part, by_case = [(1.0,), (2.0,), (3.0,)], np.array([0.5, 0.004, -0.003]), np.array([-0.3, 0.002])
        cases, similarity = (["row 1", "row 2"], [None, None], by_case), np.array([0.5, 0.0])
        sums = 0.0, 0.203, ["a", "b", "c"], values, by_part
        found = ExplainedRow(1, None, "x", "x", None, None, *sums, *cases, "", "log-odds", similarity, "y")
        console = Console(width=80, record=True, file=StringIO())
        console.print(screen.explained(found, 40))
        lines = [line.split("  ")[0] for line in console.export_text().splitlines()[-5:]]
        assert lines == ["starting value", "a = 1", "resembles row 1: 0.50 of 1", "all other (3)", "sum = log-odds"]

    def test_class_weights_are_named(self, folder):
        fitted = ["fit", folder / "people.csv", "-t", "outcome", "--id", "who", "--class-weight", "ill=4"]
        run(*fitted, "-o", folder / "weighted", *QUICK)
        args = ["explain", folder / "weighted" / "model.tamis", folder / "new.csv", "--row", 1, "--json"]
        for name in ("ill", "well"):
            told = json.loads(run(*args, "--class", name).stdout)
            log_odds = told["score"] - told["weight_shift"]
            assert told["probability"] == pytest.approx(1 / (1 + np.exp(-log_odds)))
            assert f"'{name}' is predicted from {100 / (1 + np.exp(told['weight_shift'])):.1f}% on" in told["sentence"]

    def test_one_of_three_classes_is_compared_with_the_next_one(self, tmp_path):
        table, target = io.load_dataset("iris")
        run("datasets", "iris", "-o", tmp_path / "iris.csv")
        run("fit", tmp_path / "iris.csv", "-t", target, "-o", tmp_path, *QUICK)
        told = json.loads(run("explain", tmp_path / "model.tamis", tmp_path / "iris.csv", "--row", 60, "--json").stdout)
        one = {name: values[59:60] for name, values in table.items() if name != target}
        likely = np.sort(io.load(tmp_path / "model.tamis").predict_proba(one)[0])[::-1]
        assert told["score"] == pytest.approx(np.log(likely[0] / likely[1]))
        summands = [part["contribution"] for parts in ("by_feature", "by_case") for part in told[parts]]
        assert told["base_value"] + sum(summands) == pytest.approx(told["score"])
        assert f"against '{told['against']}'" in told["sentence"]

    def test_ids_that_stand_twice(self, folder, tmp_path):
        text = (folder / "new.csv").read_text().replace("P003,", "P001,")
        (tmp_path / "twice.csv").write_text(text)
        args = ["explain", folder / "out" / "model.tamis", tmp_path / "twice.csv"]
        assert "is the id of the rows 2, 4" in run(*args, "--id", "P001", code=2).stderr

    def test_rows_that_are_not_there(self, folder):
        args = ["explain", folder / "out" / "model.tamis", folder / "new.csv"]
        assert "has no row 999: it has 120 rows" in run(*args, "--row", 999, code=2).stderr
        assert "has no id 'nobody'" in run(*args, "--id", "nobody", code=2).stderr
        assert "class 'what' is unknown" in run(*args, "--row", 1, "--class", "what", code=2).stderr
        run(*args, code=2)

    def test_another_table(self, folder, tmp_path):
        (tmp_path / "o.csv").write_text("alpha,beta\n1,2\n")
        said = run("explain", folder / "out" / "model.tamis", tmp_path / "o.csv", "--row", 1, code=2).stderr
        assert "it has 'alpha' and 'beta'" in " ".join(said.split())


class TestReport:
    def test_again_and_on_new_rows(self, folder, tmp_path):
        model = folder / "out" / "model.tamis"
        run("report", model, "-o", tmp_path / "a.html")
        document = json.loads(run("report", model, folder / "new.csv", "-o", tmp_path / "b.html", "--json").stdout)
        assert document["test"]["rows"] == N
        assert "<b>blue" not in (tmp_path / "a.html").read_text() and (tmp_path / "b.html").exists()

    def test_of_a_model_saved_alone(self, folder, tmp_path):
        io.save(io.load(folder / "out" / "model.tamis"), tmp_path / "alone.tamis")
        run("report", tmp_path / "alone.tamis", "-o", tmp_path / "a.html")
        assert (tmp_path / "a.html").stat().st_size > 50_000

    def test_in_a_new_process_the_model_is_read(self, folder, tmp_path):
        command = [sys.executable, "-m", "tamis", "report", folder / "out" / "model.tamis", "-o", tmp_path / "a.html"]
        assert subprocess.run(command, check=False).returncode == 0


class TestOthers:
    def test_datasets(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert "breast_cancer" in run("datasets").output
        assert {d["name"] for d in json.loads(run("datasets", "--json").stdout)} >= {"iris", "wine", "digits"}
        assert "--target species" in run("datasets", "iris").output.replace("\n", " ")
        assert len(read("iris.csv")["species"]) == 150
        assert "no dataset 'nothing'" in run("datasets", "nothing", code=2).stderr

    def test_compare(self, folder, tmp_path, monkeypatch):
        monkeypatch.setattr("tamis.workflow.comparison.SVC_GRID", {"svc__C": [1.0]})
        monkeypatch.setattr("tamis.workflow.peers.has_ebm", lambda: False)
        args = ["-t", "outcome", "--drop", "who", "--group", "site", "--folds", 2, "--max-instances", 2,
                "--max-features", 2, "--only", "EM2NOLCClassifier", "--only", "SVC, tuned", "--only",
                "gradient boosting", "--only", "majority class"]  # fmt: skip
        out = run("compare", folder / "people.csv", *args, "-o", tmp_path, "--json")
        document = json.loads(out.stdout)
        found = {entry["method"]: entry for entry in document["entries"]}
        assert set(found) == {"EM2NOLCClassifier", "SVC, tuned", "gradient boosting", "majority class"}
        assert not any(entry["failure"] for entry in found.values())
        share = read(folder / "people.csv")["outcome"].tolist().count("ill") / N
        assert found["majority class"]["accuracy"]["value"] == pytest.approx(max(share, 1 - share), abs=0.05)
        assert found["EM2NOLCClassifier"]["n_features"] <= 2
        assert (tmp_path / "compare.html").stat().st_size < 1_000_000 and (tmp_path / "compare.json").exists()

    def test_version_and_help(self):
        assert run("--version").output.startswith("tamis ")
        for command in ("fit", "predict", "explain", "report", "compare", "datasets", "demo"):
            assert "--json" in run(command, "--help").output


class TestBadInput:
    """Each is a clear sentence and a non-zero exit, and what was there before stays."""

    def refused(self, tmp_path, text, match, *options, code=1, target="y"):
        (tmp_path / "t.csv").write_text(text)
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        (out / "metrics.json").write_text("earlier")
        result = run("fit", tmp_path / "t.csv", "-t", target, "-o", out, *QUICK, *options, code=code)
        assert match in result.stderr.replace("\n", " "), result.stderr
        assert "Traceback" not in result.output
        assert [p.name for p in out.iterdir()] == ["metrics.json"] and (out / "metrics.json").read_text() == "earlier"

    def rows(self, n=40, **more):
        rng = np.random.default_rng(0)
        columns = {"a": rng.normal(size=n).round(3), "b": rng.normal(size=n).round(3), "y": np.arange(n) % 2} | more
        return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))])

    def test_target(self, tmp_path):
        self.refused(tmp_path, self.rows(), "did you mean 'y'", code=2, target="yy")
        self.refused(tmp_path, self.rows(y=np.ones(40)), "one class only")
        self.refused(tmp_path, self.rows(n=3), "at least 3 are needed")
        self.refused(tmp_path, self.rows(n=2), "class '0' of 'y' has 1 row")

    def test_columns(self, tmp_path):
        self.refused(tmp_path, self.rows(c=[""] * 40), "column 'c' has no value in any row")
        self.refused(tmp_path, "a,a,y\n1,2,0\n", "two columns named 'a'")
        self.refused(tmp_path, self.rows(c=["1", "x"] * 20), "mixes numbers and text")
        self.refused(tmp_path, self.rows(c=[1.0, "inf"] * 20), "infinite value in row 2")
        self.refused(tmp_path, self.rows(c=["2020-01-02"] * 40), "holds dates")
        self.refused(tmp_path, self.rows() + "\n1,2", "line 42 has 2 cells")

    def test_usage(self, tmp_path):
        self.refused(tmp_path, self.rows(), "method='Nothing' is unknown", "--method", "Nothing", code=2)
        self.refused(tmp_path, self.rows(), "has no parameter 'x'", "--set", "x=1", code=2)
        self.refused(tmp_path, self.rows(), "NAME=VALUE", "--set", "x", code=2)
        self.refused(tmp_path, self.rows(), "CLASS=NUMBER", "--class-weight", "x", code=2)
        self.refused(tmp_path, self.rows(), "max_instances=-1", "--max-instances", "-1", code=2)
        self.refused(tmp_path, self.rows(), "max_pairs=-1", "--max-pairs", "-1", code=2)
        self.refused(tmp_path, self.rows(), "missing='x'", "--set", "missing=x", code=2)
        self.refused(tmp_path, self.rows(), "positive='x' is not a class", "--positive", "x", code=2)
        self.refused(tmp_path, self.rows(), "n_jobs=0", "--jobs", "0", code=2)
        self.refused(tmp_path, self.rows(), "test_size=0.99 leaves", "--test-size", "0.99")
        self.refused(tmp_path, self.rows(), "encoding='x' is unknown", "--encoding", "x", code=2)
        run("fit", tmp_path / "none.csv", "-t", "y", code=2)
        run("fit", tmp_path / "t.csv", code=2)
        assert json.loads(run("fit", tmp_path / "none.csv", "-t", "y", "--json", code=2).stdout)["error"]

    def test_dropped_and_warned(self, tmp_path):
        codes = [f"id{k}" for k in range(40)]
        copy = ["p" if k % 2 else "q" for k in range(40)]
        (tmp_path / "t.csv").write_text(self.rows(code=codes, copy=copy))
        result = run("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path, *QUICK)
        said = result.stderr.replace("\n", " ")
        assert "'code' has another value in every row" in said and "'copy' is a copy of the target" in said

    def test_model_files(self, folder, tmp_path):
        whole = (folder / "out" / "model.tamis").read_bytes()
        (tmp_path / "half.tamis").write_bytes(whole[: len(whole) // 2])
        result = run("predict", tmp_path / "half.tamis", folder / "new.csv", "-o", tmp_path / "p.csv", code=1)
        assert "truncated or damaged" in result.stderr and not (tmp_path / "p.csv").exists()

    def test_an_output_folder_that_is_a_file(self, tmp_path):
        (tmp_path / "t.csv").write_text(self.rows())
        result = run("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "t.csv", *QUICK, code=1)
        assert "is a file" in result.stderr

    def test_a_mistake_of_ours_is_a_sentence_too(self, tmp_path, monkeypatch):
        (tmp_path / "t.csv").write_text(self.rows())
        monkeypatch.setattr("tamis.workflow.run", lambda *a: [][1])
        result = run("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path, code=1)
        assert "unexpected IndexError" in result.stderr and "TAMIS_DEBUG" in result.stderr


INTERRUPTED = """
import os, signal
from tamis import TamisClassifier
from tamis.cli import main

def begun(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGINT)

TamisClassifier.fit = begun
main()
"""


def test_an_interrupt_leaves_nothing_half_written(tmp_path):
    rng = np.random.default_rng(0)
    rows = "\n".join(",".join(map(str, [*r.round(3), int(r.sum() > 0)])) for r in rng.normal(size=(3000, 12)))
    (tmp_path / "t.csv").write_text(",".join(f"x{j}" for j in range(12)) + ",y\n" + rows)
    command = [sys.executable, "-c", INTERRUPTED, "fit", "t.csv", "-t", "y", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "stopped; nothing was written" in done.stderr and "Traceback" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.csv"]


def test_an_interrupt_while_the_commands_are_imported_is_a_sentence_too(typed, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("tamis.cli._run", interrupted)
    assert typed("fit", "t.csv") == (1, "", "error: stopped; nothing was written\n")


def test_usage_errors_are_json_too(typed):
    code, out, _ = typed("fit", "t.csv", "--json")
    assert code == 2 and "--target" in json.loads(out)["error"]


def test_what_is_missing_is_one_sentence(typed, monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "tamis.cli.commands")
    said = "error: the command line needs typer and rich: pip install 'tamis[cli]'\n"
    assert typed() == (1, "", said)


def test_an_unbounded_fit_says_so_on_the_screen_and_as_a_module(folder, typed, monkeypatch):
    """The settings may say None; the sentence does not blame the data."""
    monkeypatch.setenv("COLUMNS", "200")
    args = ["--target", "outcome", "--id", "who", "--out", folder / "paper", "--method", "L0MKLClassifier"]
    sets = ["--set", "beta_step=paper", "--set", "calibration=None"]
    as_module = partial(runpy.run_module, "tamis", run_name="__main__")
    code, *shown = typed("fit", folder / "people.csv", *args, *sets, entry=as_module)
    text = " ".join("".join(shown).split())
    assert code == 0, text
    assert "No feature distinguishes 'ill' from 'well'" in text and "the objective has no minimum" in text
    assert "Nothing in the data" not in text


class TestScorecard:
    def fitted(self, tmp_path, *more):
        write_csv(tmp_path / "people.csv")
        args = ["-t", "outcome", "--drop", "who", "-o", tmp_path / "out", *more]
        run("fit", tmp_path / "people.csv", *args)
        return tmp_path / "out" / "model.tamis"

    def test_points_are_written_and_rounding_is_measured(self, tmp_path):
        model = self.fitted(tmp_path, "--max-instances", "0", "--max-pairs", "1", "--max-features", "3")
        card = tmp_path / "card.csv"
        out = run("scorecard", model, card, "--pdo", "50", "--good", "well", "--data", tmp_path / "people.csv").output
        assert "50 more points double them" in out and "odds of 50 to 1 for 'well'" in " ".join(out.split())
        assert "Rounding on" in out and "log-loss" in out
        rows = list(csv.DictReader(card.read_text().splitlines()))
        assert rows[0]["feature"] == "(base points)" and all(int(row["points"]) is not None for row in rows)
        document = json.loads(run("scorecard", model, card, "--json").stdout)
        assert document["good"] == "well" and document["rounding"] is None

    def test_cases_and_other_methods_are_refused(self, tmp_path):
        model = self.fitted(tmp_path, "--max-instances", "4")
        if len(io.load(model).instances_):
            said = run("scorecard", model, tmp_path / "card.csv", code=2).stderr
            assert "--max-instances 0" in " ".join(said.split())
        model = self.fitted(tmp_path, "--method", "EM2NOLCClassifier", "--set", "bandwidth=1.0")
        assert "needs a TamisClassifier" in run("scorecard", model, tmp_path / "card.csv", code=2).stderr
        assert not (tmp_path / "card.csv").exists()
