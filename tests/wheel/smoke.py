"""What an installed tamis does in an environment with its core dependencies, and with one extra: smoke.py [EXTRA]."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

import tamis
from tamis import io

DATA = load_breast_cancer()
X, y = DATA.data[::4], DATA.target[::4]
os.environ.setdefault("MPLBACKEND", "Agg")
FOLDER = Path(tempfile.mkdtemp())


def model() -> tamis.EM2NOLCClassifier:
    return tamis.EM2NOLCClassifier(5, 4, calibration=2).fit(X, y)


def core() -> None:
    """Every estimator fits, predicts, explains, is saved and loaded."""
    small = {"max_instances": 4, "max_features": 3, "cv": 2, "calibration": 2, "max_iter": 5, "rounds": 1}
    for cls in tamis.all_estimators().values():
        given = {key: value for key, value in small.items() if key in cls().get_params()}
        fitted = cls(**given).fit(X[:, :6], y)
        explanation = fitted.explain(X[:5, :6])
        parts = explanation.by_part.sum(axis=2) + explanation.base_value
        np.testing.assert_allclose(parts, explanation.decision, rtol=1e-8, atol=1e-8)
        io.save(fitted, FOLDER / "m.tamis")
        np.testing.assert_array_equal(io.load(FOLDER / "m.tamis").predict(X[:, :6]), fitted.predict(X[:, :6]))


def refused(action: Callable[[], object], extra: str) -> None:
    """The action needs an extra that is not there, and says how to get it."""
    try:
        action()
    except ImportError as error:
        assert f"pip install 'tamis[{extra}]'" in str(error), error
    else:
        raise AssertionError(f"without the extra {extra!r} something worked that should need it")


def tables() -> None:
    path = FOLDER / "table.csv"
    path.write_text("a,b,y\n" + "".join(f"{row[0]},{row[1]},{label}\n" for row, label in zip(X, y, strict=True)))
    assert len(io.read(path)["a"]) == len(X)
    assert len(model().explain(X[:2]).to_frame()) > 0


def conic() -> None:
    tamis.AbsentMKLClassifier(pattern_weight="share", solver="conic", calibration=None).fit(X[:40, :3], y[:40])


def plots() -> None:
    from tamis.views.plots import ImportanceDisplay

    ImportanceDisplay.from_estimator(model())


def results() -> tamis.Results:
    columns = {str(name): X[:, k] for k, name in enumerate(DATA.feature_names[:5])}
    return tamis.run({**columns, "y": y}, tamis.Job(target="y", max_features=3, max_instances=4))


def report() -> None:
    from tamis.views.report import write

    write(results(), FOLDER / "report.html")
    assert "<html" in (FOLDER / "report.html").read_text()


def device() -> None:
    import torch

    on = model().predict(torch.as_tensor(X))
    np.testing.assert_array_equal(np.asarray(on), model().predict(X))


def cluster() -> None:
    import dask.array as da

    rows = da.from_array(X, chunks=(50, X.shape[1]))
    lazy = tamis.EM2NOLCClassifier(4, 3).fit(rows, da.from_array(y, chunks=50)).predict(rows)
    assert len(lazy.compute()) == len(X)


def graph() -> None:
    import onnxruntime

    fitted = model()
    session = onnxruntime.InferenceSession(io.to_onnx(fitted).SerializeToString())
    rows = {session.get_inputs()[0].name: X.astype(np.float32)}
    assert np.mean(session.run(None, rows)[0] == fitted.predict(X)) > 0.99


def command_line() -> None:
    from typer.testing import CliRunner

    from tamis.cli.commands import app

    done = CliRunner().invoke(app, ["demo", "--out", str(FOLDER / "demo")])
    assert done.exit_code == 0, done.output


EXTRAS: dict[str, Callable[[], None]] = {
    "io": tables,
    "plot": plots,
    "report": report,
    "solvers": conic,
    "gpu": device,
    "dist": cluster,
    "onnx": graph,
    "cli": command_line,
}
WITHOUT: dict[str, Callable[[], object]] = {  # what says which extra it needs
    "io": tables,
    "plot": plots,
    "report": report,
    "solvers": conic,
    "gpu": lambda: tamis.EM2NOLCClassifier(4, 3, device="cpu").fit(X, y),
    "onnx": lambda: io.to_onnx(model()),
}

if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    assert "site-packages" in tamis.__file__, tamis.__file__
    if len(sys.argv) > 1:
        EXTRAS[sys.argv[1]]()
    else:
        for package in ("pandas", "pyarrow", "polars", "matplotlib", "torch", "dask", "typer", "jinja2", "onnx"):
            assert find_spec(package) is None, f"{package} is there"
        core()
        for extra, action in WITHOUT.items():
            refused(action, extra)
