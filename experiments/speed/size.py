"""TamisClassifier at every size: seconds, memory and accuracy beside boosting, from memory, files and workers.

    python -m experiments.speed.size [--parts tables,growth,parquet,dask,real,predict] [--rows 10000000]

Every fit runs in a process of its own, the methods taking turns, so that times are ratios within one run and peak
memory is that of data and fit together. The largest files need 1.2 GB of disk. The part `real` needs TAMIS_DATA.
Prints Markdown; the committed tables are in experiments/README.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from experiments.datasets import data_folder, load
from experiments.speed.out_of_core import write
from experiments.speed.scale import COLUMNS, additive
from experiments.speed.timing import versions
from experiments.tables import table
from tamis import TamisClassifier
from tamis.workflow import peers

ROWS, TEST, REPEATS = 1_000_000, 200_000, 3
DASK_ROWS, DASK_STEP = 4_000_000, 100_000
PARTS = ("tables", "growth", "parquet", "dask", "real", "predict")
REAL = ("online_shoppers", "adult", "bank_marketing", "covtype")
OURS, BOOSTING = "TamisClassifier", "boosting (scikit-learn)"


def paired(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, float]:
    """28 normal columns: six act alone, and two pairs of further ones together, one as a product, one by its signs."""
    rng = np.random.default_rng([seed, 7])
    X = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    t = X[:, :10].astype(float)
    alone = np.sin(2 * t[:, 0]) + 0.6 * (t[:, 1] ** 2 - 1) + np.tanh(2 * t[:, 2]) + 0.7 * t[:, 3] - 0.6 * t[:, 4]
    alone += np.abs(t[:, 5]) - 0.8
    score = 1.3 * alone + 1.3 * t[:, 6] * t[:, 7] + 1.6 * np.sign(t[:, 8] * t[:, 9])
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    return X, y, float(np.mean((score > 0) == y))


MADE = {"additive": additive, "with pairs": paired}


def rows_of(name: str, n: int) -> tuple[np.ndarray, ...]:
    """Training and test rows and labels, and which columns are categories."""
    if name in MADE:
        X, y, best = MADE[name](n + TEST)
        return X[:n], y[:n], X[n:], y[n:], np.zeros(COLUMNS, dtype=bool), np.array(best)
    data = load(name)
    test, train = np.split(np.random.default_rng(0).permutation(len(data.y)), [len(data.y) // 5])
    return data.X[train], data.y[train], data.X[test], data.y[test], data.nominal, np.array(np.nan)


def peak() -> float:
    """Peak memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def measure(method: str, name: str, n: str, features: str) -> dict[str, Any]:
    """One fit, in this process."""
    warnings.filterwarnings("ignore")
    X, y, X_test, y_test, nominal, best = rows_of(name, int(n))
    model = TamisClassifier(int(features), categorical_features=nominal, random_state=0)
    if method == BOOSTING:
        model = peers.boosting(nominal, random_state=0)
    before, start, cpu = peak(), time.perf_counter(), time.process_time()
    model.fit(X, y)
    out = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu, "memory": peak() - before}
    P = model.predict_proba(X_test)
    out |= {"accuracy": 100 * float(np.mean(model.predict(X_test) == y_test)), "best": 100 * float(best)}
    out |= {"loss": float(log_loss(y_test, P)), "auc": float(roc_auc_score(y_test, P[:, 1])), "rows": len(y)}
    if method == OURS:
        kept = len(model.features_), len(model.pairs_), len(model.instances_)
        out |= {"kept": " / ".join(map(str, kept)), "features": model.features_.tolist(), "pairs": model.pairs_}
    return out


def from_file(path: str) -> dict[str, Any]:
    """One fit to a file, and one to the same rows in memory, in this process."""
    import pyarrow.parquet as pq

    warnings.filterwarnings("ignore")
    start = time.perf_counter()
    TamisClassifier(10, random_state=0).fit(path, "y")
    out = {"file": time.perf_counter() - start, "memory": peak()}
    rows = pq.ParquetFile(path).read()
    X = np.column_stack([rows.column(f"c{j}").to_numpy() for j in range(COLUMNS)])
    y = rows.column("y").to_numpy()
    del rows
    start = time.perf_counter()
    TamisClassifier(10, random_state=0).fit(X, y)
    return {**out, "array": time.perf_counter() - start}


def apart(*what: Any) -> dict[str, Any]:
    """One measurement in a process of its own."""
    call = [sys.executable, "-m", "experiments.speed.size", "--measure", *map(str, what)]
    return json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)


def tables() -> None:
    """A million made rows."""
    lines = []
    for name in MADE:
        rounds = [{m: apart(m, name, ROWS, 10) for m in (OURS, BOOSTING)} for _ in range(REPEATS)]
        peer = float(np.median([found[BOOSTING]["seconds"] for found in rounds]))
        for method in (OURS, BOOSTING):
            last, seconds = rounds[-1][method], float(np.median([found[method]["seconds"] for found in rounds]))
            memory = max(found[method]["memory"] for found in rounds)
            cells = [name, method, f"{seconds:.1f}", f"{seconds / peer:.2f}", f"{memory:.2f}"]
            lines.append([*cells, f"{last['accuracy']:.2f}", f"{last['best']:.2f}", last.get("kept", "")])
            if method == OURS:
                print(f"{name}: features {last['features']}, pairs {last['pairs']}")
    head = ["table", "method", "s", "/ boosting", "GB beyond the data", "accuracy", "best rule", "kept"]
    print(f"\n### {ROWS} x {COLUMNS}, float32, 10 features\n\n{table(head, lines)}\n")


def growth(largest: int) -> None:
    """Seconds against rows."""
    sizes = [n for n in (10**5, 10**6, 10**7) if n <= largest]
    found = {n: apart(OURS, "with pairs", n, 10) for n in sizes}
    slope = np.log(found[sizes[-1]]["seconds"] / found[sizes[0]]["seconds"]) / np.log(sizes[-1] / sizes[0])
    lines = [[n, f"{r['seconds']:.1f}", f"{r['accuracy']:.2f}", f"{r['best']:.2f}"] for n, r in found.items()]
    print(f"### Growth, with pairs\n\n{table(['rows', 's', 'accuracy', 'best rule'], lines)}\n")
    print(f"Exponent {slope:.2f}.\n")


def parquet(largest: int) -> None:
    """From files, beside the same rows in memory."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for n in sorted({10**6, largest}):
            path = Path(folder) / "rows.parquet"
            write(n, path)
            found = apart("file", path)
            ratio = found["file"] / found["array"]
            lines.append([n, f"{found['file']:.1f}", f"{found['array']:.1f}", f"{ratio:.2f}", f"{found['memory']:.2f}"])
    head = ["rows", "from Parquet, s", "from memory, s", "ratio", "peak memory from Parquet, GB"]
    print(f"### From Parquet, additive\n\n{table(head, lines)}\n")


def partition(number: np.ndarray) -> np.ndarray:
    """Rows of one partition, with their labels in the last column."""
    X, y, _ = paired(DASK_STEP, seed=int(number[0]))
    return np.column_stack([X, y.astype(np.float32)])


def dask() -> None:
    """One and two workers of one thread, with the rows on them."""
    from dask import array as da
    from distributed import Client, LocalCluster, wait

    seconds = {}
    for workers in (1, 2):
        options = {"n_workers": workers, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
        with LocalCluster(memory_limit=0, **options) as cluster, Client(cluster):
            parts = DASK_ROWS // DASK_STEP
            numbers = da.arange(parts, chunks=1)
            shape = ((DASK_STEP,) * parts, (COLUMNS + 1,))
            data = numbers.map_blocks(partition, chunks=shape, new_axis=1, dtype=np.float32).persist()
            wait(data)
            X, y = data[:, :COLUMNS].persist(), data[:, COLUMNS].astype(int).persist()
            wait([X, y])
            took = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                TamisClassifier(10, random_state=0).fit(X, y)
                took.append(time.perf_counter() - start)
            seconds[workers] = float(np.median(took))
    words = f"One worker {seconds[1]:.1f} s, two workers {seconds[2]:.1f} s"
    print(f"### Dask, {DASK_ROWS} rows with pairs\n\n{words}: efficiency {seconds[1] / (2 * seconds[2]):.2f}.\n")


def real() -> None:
    """Measured tables with all their rows."""
    if data_folder() is None:
        return
    lines = []
    for name in REAL:
        for method, features in ((OURS, 10), (OURS, 20), (BOOSTING, 0)):
            r = apart(method, name, 0, features)
            what = f"{method}({features})" if features else method
            cells = [name, r["rows"], what, f"{r['seconds']:.1f}", f"{r['cpu']:.1f}", f"{r['accuracy']:.2f}"]
            lines.append([*cells, f"{r['loss']:.4f}", f"{r['auc']:.4f}", r.get("kept", "")])
    head = ["table", "rows", "method", "s", "CPU s", "accuracy", "log-loss", "AUC", "kept"]
    print(f"### Measured tables, four fifths of the rows\n\n{table(head, lines)}\n")


def predict() -> None:
    """A hundred thousand rows, and a single one."""
    X, y, _ = paired(105_000)
    model = TamisClassifier(20, random_state=0).fit(X[100_000:], y[100_000:])

    def best(rows: np.ndarray, times: int) -> float:
        took = []
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(times):
                model.predict(rows)
            took.append((time.perf_counter() - start) / times)
        return min(took)

    kept = f"{len(model.features_)} features, {len(model.pairs_)} pairs, {len(model.instances_)} cases"
    many, one = best(X[:100_000], 1), best(X[:1], 200)
    print(f"### Prediction\n\n{kept}: 100 000 rows {1000 * many:.0f} ms, one row {1e6 * one:.0f} microseconds.\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--rows", type=float, default=1e7, help="rows of the largest table")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        found = from_file(options.measure[1]) if options.measure[0] == "file" else measure(*options.measure)
        print(json.dumps(found))
        return
    unknown = set(options.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"--parts {sorted(unknown)[0]!r} is unknown: use some of {', '.join(PARTS)}")
    print(f"{versions()}\n")
    work = {"tables": tables, "dask": dask, "real": real, "predict": predict}
    work |= {"growth": lambda: growth(int(options.rows)), "parquet": lambda: parquet(int(options.rows))}
    for part in options.parts.split(","):
        work[part]()


if __name__ == "__main__":
    main()
