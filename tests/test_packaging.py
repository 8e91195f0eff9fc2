"""What an installation loads, and what importing costs beside scikit-learn."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = {"pandas", "polars", "pyarrow", "matplotlib", "jinja2", "plotly", "clarabel", "torch", "dask", "distributed"}
EXTRAS |= {"onnx", "onnxruntime", "typer", "rich", "shap", "interpret", "xgboost", "ray", "triton"}
PEER = "import sklearn.base, sklearn.svm, sklearn.linear_model, sklearn.model_selection, sklearn.feature_selection"


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


@cache
def loaded(code: str) -> set[str]:
    words = python(f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))")
    return {name.partition(".")[0] for name in json.loads(words)}


@pytest.mark.parametrize(
    "code",
    ["import tamis", "import tamis; tamis.all_estimators()", "import tamis.io", "from tamis import Job, Results, run"],
)
def test_nothing_loads_an_extra(code):
    peer = loaded(PEER)  # what scikit-learn itself loads where it finds it
    assert not (loaded(code) - peer) & EXTRAS


def test_import_loads_nothing_else():
    assert not loaded("import tamis") & {"numpy", "scipy", "sklearn"}


def seconds(code: str) -> float:
    """The least processor time of a few runs."""
    times = []
    for _ in range(2):
        before = os.times()
        python(code)
        after = os.times()
        times.append(sum(after[2:4]) - sum(before[2:4]))
    return min(times)


def test_import_is_quick_beside_that_of_scikit_learn():
    """Under 0.3 s on a quiet machine, where scikit-learn takes 0.7: the ratio does not depend on the machine."""
    peer = seconds(PEER)
    assert seconds("import tamis") < 0.15 * peer
    assert seconds(f"{PEER}\nimport tamis; tamis.all_estimators()") < 1.8 * peer


def test_every_sentence_on_a_missing_extra_names_one_that_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"pip install 'tamis\[(\w+)\]'", path.read_text())
    }
    assert named == set(extras)


def test_dependency_floors_are_tested_ones():
    """`make test-oldest` installs exactly the floors of the core."""
    core = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    floors = dict(part.split(">=") for part in core)
    makefile = (ROOT / "Makefile").read_text()
    for name in ("numpy", "scipy", "scikit-learn"):
        assert f"'{name}=={floors[name]}.0'" in makefile, name
