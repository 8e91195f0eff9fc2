"""Threads, processes, mapped files and full disks."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from tamis import EM2NOLCClassifier, Job, Plan, Statistics, TamisClassifier, all_estimators, io, run
from tamis.parallel import blas_threads

from small_fits import fitted, mixed, quick, same

EVERY = pytest.mark.parametrize("name", list(all_estimators()))
THREADS = 8


def said(model, X):
    """All that a model says about rows."""
    methods = [name for name in ("decision_function", "predict", "predict_proba") if hasattr(model, name)]
    return [getattr(model, name)(X) for name in methods] + [model.explain(X[:20]).by_part]


def equal(one, two):
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------------- threads


def from_threads(model, X):
    """What eight threads hear that ask at once, of a model that nobody has asked before."""
    fresh, barrier = pickle.loads(pickle.dumps(model)), threading.Barrier(THREADS)

    def ask(_):
        barrier.wait()
        return said(fresh, X)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(ask, range(THREADS)))


@EVERY
def test_threads_hear_the_same(name):
    X, expected = mixed()[0], said(fitted(name), mixed()[0])
    for heard in from_threads(fitted(name), X):
        equal(heard, expected)


def test_fits_in_threads_do_not_disturb_each_other():
    X, y = mixed()
    expected = TamisClassifier(max_instances=3, max_features=2, cv=2).fit(X, y).decision_function(X)
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(
                lambda _: TamisClassifier(max_instances=3, max_features=2, cv=2).fit(X, y).decision_function(X),
                range(4),
            )
        )
    for one in found:
        np.testing.assert_array_equal(one, expected)


# ---------------------------------------------------------------------- processes


def work(model, X):
    """Prediction, BLAS and a fit, as a worker does them."""
    again = EM2NOLCClassifier(max_instances=3, max_features=2).fit(*mixed())
    return [*said(model, X), again.decision_function(X), np.ones((300, 300)) @ np.ones((300, 1))]


def before():
    """Threads of BLAS and of ours are used, as they are in any process that has worked before it forks."""
    a = np.random.default_rng(0).normal(size=(600, 600))
    with blas_threads(2):
        a @ a
    return fitted("TamisClassifier"), mixed(3000)[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_says_the_same():  # test_exchange.py has a process that was not forked
    model, X = before()
    expected = work(model, X)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        equal(pool.apply_async(work, (model, X)).get(timeout=120), expected)


@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_joblib_workers_say_the_same(backend):
    model, X = before()
    expected = work(model, X)
    for heard in joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(work)(model, X) for _ in range(2)):
        equal(heard, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_does_not_inherit_a_lock_that_nobody_will_release():
    """Threads go in and out of the context all the time while the process forks."""
    done = threading.Event()

    def busy():
        while not done.is_set():
            with blas_threads(1):
                pass

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if not child:
                with blas_threads(1):
                    os._exit(0)
            until = time.monotonic() + 60
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
                time.sleep(0.002)
            if ended == (0, 0):
                os.kill(child, 9)
                os.waitpid(child, 0)
            assert ended == (child, 0)
    finally:
        done.set()
        for thread in threads:
            thread.join()


# ---------------------------------------------------------------------- mapped files


@EVERY
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_read_only_mapped_arrays_are_as_good_as_others(name, dtype, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3)).astype(dtype)
    y = (X[:, 0] > 0).astype(float)
    weight = rng.uniform(0.5, 1.0, size=24)
    mapped = []
    for what, array in (("X", X), ("y", y), ("weight", weight)):
        np.save(tmp_path / f"{what}.npy", array)
        mapped.append(np.load(tmp_path / f"{what}.npy", mmap_mode="r"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one = quick(name, calibration=None).fit(X, y, weight)
        two = quick(name, calibration=None).fit(*mapped)
    same(one, two, X)
    same(one, two, mapped[0])
    assert not mapped[0].flags.writeable


# ---------------------------------------------------------------------- full disks


class Full:
    """A file on a disk that has room for a few bytes more."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        size = len(memoryview(data).cast("B")) if not isinstance(data, str) else len(data)
        if size > self.room:
            self.file.write(data[: self.room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= size
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)


FULL = """
import json, os, resource, signal, sys
from pathlib import Path

import numpy as np
from tamis import Results, Statistics, io
from tamis.cli import main
from tamis.cli.commands import app
from tamis.io.writing import writing
from tamis.views.report.page import write
from tamis.workflow import files

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = Path(sys.argv[1])
results, sums = Results.load(folder / "results"), Statistics.load(folder / "statistics")


def rows(path):
    import pyarrow as pa

    with writing(path) as write:
        for _ in range(50):
            write(pa.RecordBatch.from_pydict({"a": np.random.default_rng(0).normal(size=1000)}))


jobs = {
    "model": lambda: io.save(results.model, folder / "model"),
    "results": lambda: results.save(folder / "results"),
    "statistics": lambda: sums.save(folder / "statistics"),
    "report.html": lambda: write(results, folder / "report.html"),
    "rows.csv": lambda: rows(folder / "rows.csv"),
    "rows.parquet": lambda: rows(folder / "rows.parquet"),
    "rows.jsonl": lambda: rows(folder / "rows.jsonl"),
    "metrics.json": lambda: files.write(results, folder),
}
told = {}
predict = ["predict", str(folder / "model"), str(folder / "in.csv")]
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
for name, job in jobs.items():
    try:
        job()
        told[name] = "written"
    except OSError as error:
        told[name] = error.errno
    except Exception as error:
        told[name] = repr(error)
told["out.csv"] = app([*predict, "--out", str(folder / "out.csv")], standalone_mode=False)
print(json.dumps(told), flush=True)
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
sys.argv = ["tamis", *predict]
main()
"""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
def test_a_full_disk_leaves_the_old_files(tmp_path):
    """Every writer on a disk with room for 2000 bytes, the command line too, which says so in one line."""
    X, y = mixed()
    mixed(500)[0].to_csv(tmp_path / "in.csv", index=False)
    results = run(X.assign(y=y), Job("y", method="EM2NOLCClassifier", max_instances=2, max_features=2))
    results.save(tmp_path / "results")
    io.save(results.model, tmp_path / "model")
    Statistics(Plan.of(X, y, folds=2)).update(X, y).save(tmp_path / "statistics")
    for name in ("report.html", "rows.csv", "rows.parquet", "rows.jsonl", "metrics.json", "model.tamis", "out.csv"):
        (tmp_path / name).write_text("old")
    old = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = subprocess.run([sys.executable, "-c", FULL, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "File too large" in done.stderr and "No space left" in done.stderr.splitlines()[-1]
    told = json.loads(done.stdout)
    assert told.pop("out.csv") == 1
    assert len(told) == 8 and set(told.values()) == {errno.EFBIG}, told
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == old


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.99])
def test_no_room_leaves_the_old_model_whatever_was_written(share, tmp_path, monkeypatch):
    """The disk is full at the first byte, within an entry, and in the directory at the end."""
    path = tmp_path / "model"
    io.save(fitted("EM2NOLCClassifier"), path)
    room = int(share * path.stat().st_size)
    io.save(fitted("TamisClassifier"), path)
    old = path.read_bytes()
    monkeypatch.setattr("io.open", lambda *args: Full(open(*args), room))  # noqa: SIM115
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        io.save(fitted("EM2NOLCClassifier"), path)
    monkeypatch.undo()
    assert path.read_bytes() == old and list(tmp_path.iterdir()) == [path]


def test_a_disk_that_tells_late_that_it_is_full(tmp_path, monkeypatch):
    path = tmp_path / "model"
    io.save(fitted("TamisClassifier"), path)
    old = path.read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        io.save(fitted("EM2NOLCClassifier"), path)
    assert path.read_bytes() == old and list(tmp_path.iterdir()) == [path]
