"""What an installation loads, and what importing costs beside scikit-learn."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = {"pandas", "polars", "pyarrow", "matplotlib", "jinja2", "clarabel", "torch", "dask", "distributed"}
EXTRAS |= {"onnx", "onnxruntime", "typer", "rich", "shap", "interpret", "xgboost"}
PEER = "import sklearn.base, sklearn.svm, sklearn.linear_model, sklearn.model_selection, sklearn.feature_selection"


STAGES = ["import tamis", "tamis.all_estimators()", "import tamis.io, tamis.views.plots", "from tamis import run"]
TOLD = """
import json, sys, time
told = []
for code in json.loads(sys.argv[1]):
    start = time.process_time()
    exec(code)
    told.append([time.process_time() - start, sorted({name.partition(".")[0] for name in sys.modules})])
print(json.dumps(told))
"""


@cache
def told(*stages: str) -> list[tuple[float, set[str]]]:
    """Processor seconds of some statements, one after the other in a new process, and what is loaded then."""
    words = [sys.executable, "-c", TOLD, json.dumps(stages)]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return [(seconds, set(names)) for seconds, names in found]


def test_nothing_loads_an_extra():
    ((_, peer),) = told(PEER)  # what scikit-learn itself loads where it finds it
    for code, (_, loaded) in zip(STAGES, told(*STAGES), strict=True):
        assert not (loaded - peer) & EXTRAS, code


def test_import_loads_nothing_else():
    assert not told(*STAGES)[0][1] & {"numpy", "scipy", "sklearn"}


def test_import_is_quick_beside_that_of_scikit_learn():
    """Under 0.3 s on a quiet machine, where scikit-learn takes 0.7: the ratio does not depend on the machine."""
    (peer, _), (first, _), (rest, _) = told(PEER, *STAGES[:2])
    assert first < 0.15 * peer
    assert first + rest < 0.8 * peer


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
