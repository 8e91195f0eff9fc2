"""Speed of the flagship classifier as ratios to its peers in the same run: fits with tuning, many rows, prediction.

    TAMIS_DATA=... python -m experiments.speed.flagship [--parts fit,rows,predict] [--sets pima,wdbc] [--jobs 2]
    TAMIS_DATA=... python -m experiments.speed.flagship --parts rows --rows 100000,1000000 --ebm 600

Wall seconds, the methods taking turns on one machine that should do nothing else. A fit of EBM to many rows takes
long: it runs only with --ebm, at a hundred thousand rows, and is stopped after so many seconds (0: never). Prints
Markdown, which is kept in experiments/out/flagship_speed.md too. Without TAMIS_DATA the parts that need it are left
out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification

from experiments.datasets import THIRTEEN, data_folder, load
from experiments.speed.timing import best, versions
from experiments.tables import table
from tamis import TamisClassifier
from tamis.workflow import peers

OUT = Path(__file__).parents[1] / "out" / "flagship_speed.md"
LIMIT = 120.0  # seconds of a fit of EBM in the first part, unless --ebm says more
FEWEST = 300  # rows of a set for the first part
COLUMNS, INFORMATIVE = 28, 14
TEST = 100_000
MOST_EBM = 100_000  # rows
EBM_ROWS, SVC_ROWS = 2_000, 5_000  # of the fits whose predictions are timed
REPEATS = 5
EBM: dict[str, Any] = {}  # options other than the defaults: none
HEAD = ("model", "first call, s", "best, s", "/ TamisClassifier", "CPU s", "/ TamisClassifier")
PACKAGES = ("tamis", "interpret", "scikit-learn", "numpy", "scipy")


def ours(jobs: int | None, nominal: np.ndarray | None = None) -> Any:
    return TamisClassifier(categorical_features="auto" if nominal is None else nominal, random_state=0, n_jobs=jobs)


def ebm(jobs: int | None, nominal: np.ndarray) -> Any:
    return peers.ebm(nominal, random_state=0, n_jobs=jobs, **EBM)


def titled(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"### {title}", "", table(head, rows), ""]


def _report(model: Any, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, pipe: Any) -> None:
    os.setpgrp()  # with the processes that it starts
    warnings.filterwarnings("ignore")
    took = best(lambda: model.fit(X, y), 1)
    pipe.send((took, 100 * np.mean(model.predict(X_test) == y_test)))


def within(limit: float, model: Any, *rows: np.ndarray) -> tuple[float, float] | None:
    """Seconds and test accuracy of a fit in a fresh process; None where it takes longer than the limit."""
    fresh = multiprocessing.get_context("spawn")  # a fork would share a pool of processes that is not its own
    here, there = fresh.Pipe()
    process = fresh.Process(target=_report, args=(model, *rows, there))
    process.start()
    found = here.recv() if here.poll(limit or None) else None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.join()
    return found


def tuned_fits(names: Sequence[str], jobs: int | None, ebm_limit: float) -> list[str]:
    """Both with all that they tune by themselves, on whole sets; a ratio is one at most where the EBM was stopped."""
    rows, ratios = [], []
    for name in names:
        data = load(name)
        if len(data.y) <= FEWEST:
            continue
        own = best(lambda d=data: ours(jobs, d.nominal).fit(d.X, d.y), 1)
        found = within(ebm_limit, ebm(jobs, data.nominal), data.X, data.y, data.X, data.y)
        peer, more, less = (found[0], "", "") if found else (ebm_limit, "> ", "< ")
        ratios.append(own / peer)
        ratio = f"{less}{own / peer:.3f}"
        rows.append((name, *map(str, data.X.shape), f"{own:.2f}", f"{more}{peer:.1f}", ratio))
    if ratios:
        rows.append(("geometric mean", "", "", "", "", f"{np.exp(np.mean(np.log(ratios))):.3f}"))
    head = ("set", "rows", "columns", "TamisClassifier, s", "EBM, s", "ratio")
    return titled(f"Fit with tuning, defaults of both, n_jobs={jobs}", head, rows)


def generated(n: int) -> tuple[np.ndarray, ...]:
    """Training and test part of a made table."""
    X, y = make_classification(n + TEST, COLUMNS, n_informative=INFORMATIVE, n_redundant=4, random_state=0)
    return X[:n], y[:n], X[n:], y[n:]


def covtype(n: int) -> tuple[np.ndarray, ...]:
    """Class 2 against the rest: at most n rows, and a fifth of all to test."""
    data = load("covtype")
    order = np.random.default_rng(0).permutation(len(data.y))
    test, train = np.split(order, [len(order) // 5])
    return data.X[train[:n]], data.y[train[:n]], data.X[test], data.y[test]


def many_rows(sizes: Sequence[int], jobs: int | None, ebm_limit: float | None) -> list[str]:
    lines = []
    for name, make in (("generated", generated), ("covtype", covtype)):
        rows: list[tuple[str, ...]] = []
        done = set[int]()
        for size in sizes if name == "generated" or data_folder() is not None else ():
            X, y, X_test, y_test = make(size)
            if len(y) in done:
                continue
            done.add(len(y))
            numeric = np.zeros(X.shape[1], dtype=bool)
            models = {
                "TamisClassifier": ours(jobs),
                "boosting (scikit-learn)": peers.boosting(numeric, random_state=0),
            }
            took = {method: best(lambda m=m, X=X, y=y: m.fit(X, y), 1) for method, m in models.items()}
            for method, model in models.items():
                score = 100 * np.mean(model.predict(X_test) == y_test)
                ratio = took[method] / took["boosting (scikit-learn)"]
                rows.append(
                    (str(len(y)), str(X.shape[1]), method, f"{took[method]:.1f}", f"{ratio:.2f}", f"{score:.2f}")
                )
            if ebm_limit is not None and len(y) <= MOST_EBM:
                found = within(ebm_limit, ebm(jobs, numeric), X, y, X_test, y_test)
                least, score = (found[0], f"{found[1]:.2f}") if found else (ebm_limit, "stopped")
                more = "" if found else "> "
                ratio = least / took["boosting (scikit-learn)"]
                rows.append((str(len(y)), str(X.shape[1]), "EBM", f"{more}{least:.1f}", f"{more}{ratio:.2f}", score))
        if rows:
            head = ("rows", "columns", "method", "fit, s", "/ boosting", "test accuracy")
            lines += titled(f"Many rows: {name}", head, rows)
    return lines


def prediction(jobs: int | None) -> list[str]:
    """Labels of a hundred thousand rows; fits are small, sizes of models are those of the defaults."""
    X, y, X_test, _ = generated(SVC_ROWS)
    few, labels = X[:EBM_ROWS], y[:EBM_ROWS]
    numeric = np.zeros(X.shape[1], dtype=bool)
    svc = peers.svc(numeric)
    models = {
        f"TamisClassifier (fit on {SVC_ROWS} rows)": ours(jobs).fit(X, y),
        f"EBM (fit on {EBM_ROWS} rows, all default interactions)": ebm(jobs, numeric).fit(few, labels),
        f"SVC (fit on {SVC_ROWS} rows)": svc.fit(X, y),
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
    for _ in range(1 + REPEATS):  # in turns
        for name, model in models.items():
            cpu = time.process_time()
            wall = best(lambda m=model: m.predict(X_test), 1)
            took[name].append((wall, time.process_time() - cpu))
    least = {name: np.min(times[1:], axis=0) for name, times in took.items()}
    own = next(iter(least.values()))
    rows = [
        (name, f"{took[name][0][0]:.3f}", f"{wall:.3f}", f"{wall / own[0]:.1f}", f"{cpu:.3f}", f"{cpu / own[1]:.1f}")
        for name, (wall, cpu) in least.items()
    ]
    title = f"Prediction of {len(X_test)} rows x {X_test.shape[1]} columns, best of {REPEATS}"
    return titled(title, HEAD, rows)


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="fit,rows,predict", help="some of fit, rows and predict")
    parser.add_argument("--sets", default=",".join(THIRTEEN), help=f"those with more than {FEWEST} rows are used")
    parser.add_argument("--rows", default="100000,1000000")
    parser.add_argument("--ebm", type=float, metavar="SECONDS", help=f"EBM too, up to {MOST_EBM} rows, so long at most")
    parser.add_argument("--jobs", type=int, default=None, help="n_jobs of all that have it")
    options = parser.parse_args(given)
    unknown = set(options.parts.split(",")) - {"fit", "rows", "predict"}
    if unknown:
        parser.error(f"--parts {sorted(unknown)[0]!r} is unknown: use fit, rows and predict")
    return options


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(given)
    warnings.filterwarnings("ignore")
    parts = options.parts.split(",")
    lines = [versions(PACKAGES), ""]
    if "fit" in parts and data_folder() is not None:
        lines += tuned_fits(options.sets.split(","), options.jobs, LIMIT if options.ebm is None else options.ebm)
    if "rows" in parts:
        lines += many_rows([int(float(n)) for n in options.rows.split(",")], options.jobs, options.ebm)
    if "predict" in parts:
        lines += prediction(options.jobs)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
