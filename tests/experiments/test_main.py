"""The command `python -m experiments reproduce`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments.__main__ import app
from experiments.cells import FAILED
from experiments.store import Store

from small_experiments import wait_for

ROOT = Path(__file__).parents[2]


def run(*args, **env):
    return CliRunner().invoke(app, ["reproduce", *args], env=env)


def started(*args):
    command = [sys.executable, "-m", "experiments", "reproduce", "l01-svm", "--json", *args]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_killed_run_continues(tmp_path):
    out = tmp_path / "results"
    args = ["--only", "quadrants,SimpleMKL on 10 (d + 1) kernels,SVC,majority", "--out", str(out)]
    process = started(*args)
    path = out / "rows.sqlite"
    wait_for(lambda: path.exists() and len(Store(path).done()) >= 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stderr.close()
    before = Store(path).rows()
    assert 2 <= len(before) < 9
    summary = json.loads(run("l01-svm", "--json", *args).stdout)
    assert summary["found"] == len(before) and summary["ran"] == 9 - len(before) and summary["failed"] == 0
    assert Store(path).rows()[: len(before)] == before and len(Store(path).rows()) == 9
    assert (out / "l01-svm.md").is_file() and (out / "l01-svm.html").is_file()


def test_two_runs_share_the_cells(tmp_path):
    only = ["--only", "quadrants,SimpleMKL,mean kernel,SVC,majority", "--store", str(tmp_path / "s")]
    runs = [started("--out", str(tmp_path / name), *only) for name in ("one", "two")]
    printed = [json.loads(process.communicate()[0]) for process in runs]
    found = Store(tmp_path / "s").rows()
    assert len(found) == 12 and all(r.status != FAILED for r in found)
    assert sum(one["ran"] for one in printed) == 12


def test_numbers_are_printed_and_pages_and_rows_written(tmp_path):
    pytest.importorskip("pyarrow")
    out, export = tmp_path / "results", tmp_path / "rows.csv"
    found = run("l01-svm", "--only", "quadrants,SVC,majority", "--out", str(out), "--export", str(export))
    assert found.exit_code == 0, found.stderr
    assert "6 of 6 cells ran (0 had a row)" in " ".join(found.stdout.split())
    names = {path.name for path in out.iterdir()}
    assert names >= {"l01-svm.md", "l01-svm.html", "README.md", "index.html", "rows.sqlite"}
    lines = export.read_text().splitlines()
    assert len(lines) == 7 and lines[0].startswith("paper,protocol,size,dataset,split,setting,method,accuracy")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("x",), "paper 'x' is unknown: use one of em2nolc"),
        (("l01-svm", "--protocol", "x"), "--protocol 'x' is unknown"),
        (("l01-svm", "--only", "x"), "only='x' is unknown"),
        (("l01-svm", "--backend", "x"), "backend='x' is unknown"),
        (("l01-svm", "--export", "rows.xls"), "is of no known kind"),
    ],
)
def test_bad_usage_is_one_sentence(tmp_path, args, sentence):
    found = run(*args, "--out", str(tmp_path / "r"))
    assert found.exit_code == 2 and sentence in found.stderr and isinstance(found.exception, SystemExit)


def test_missing_datasets_are_warned_of(tmp_path):
    found = run(
        "absent-mkl", "--only", "protein_fold", "--out", str(tmp_path), TAMIS_DATA="", TAMIS_CACHE=str(tmp_path)
    )
    assert found.exit_code == 2 and "there is nothing to run" in found.stderr
    assert "without psort_pos (Absent MKL" in found.stderr and "without protein_fold" in found.stderr
