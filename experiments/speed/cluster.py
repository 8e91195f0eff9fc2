"""A fit on a local Dask cluster with one and with two workers of one thread: seconds and efficiency.

    python -m experiments.speed.cluster [rows]         (default 2000000 x 28, float32, already on the workers)

Prints Markdown; the committed table is in experiments/README.md.
"""

from __future__ import annotations

import sys
import time
import warnings

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

import tamis.table.sources.on_dask
import tamis.table.sources.source
from experiments.speed.scale import COLUMNS, additive

STEP, REPEATS = 100_000, 3


def part(block: np.ndarray) -> np.ndarray:
    """Rows of one partition with their labels in the last column, from the number of the partition."""
    X, y, _ = additive(STEP, seed=int(block[0]))
    return np.column_stack([X, y.astype(np.float32)])


def measure(workers: int, rows: int) -> tuple[float, float]:
    """Median seconds of the whole fit and of the sums alone, on so many workers."""
    parts = rows // STEP
    options = {"n_workers": workers, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(memory_limit=0, **options) as cluster, Client(cluster):
        numbers = da.arange(parts, chunks=1)
        data = numbers.map_blocks(part, chunks=((STEP,) * parts, (COLUMNS + 1,)), new_axis=1, dtype=np.float32)
        data = data.persist()
        wait(data)
        X, y = data[:, :COLUMNS], data[:, COLUMNS].astype(int)
        first = data.blocks[0].compute()
        plan = tamis.Plan.of(first[:, :COLUMNS], first[:, COLUMNS].astype(int), folds=3, dtype="float32")
        fits, passes = [], []
        for _ in range(REPEATS):
            start = time.perf_counter()
            tamis.EM2NOLCClassifier(20, 10).fit(X, y)
            fits.append(time.perf_counter() - start)
            start = time.perf_counter()
            source = tamis.table.sources.on_dask.DaskSource(X, y)
            source.total(lambda: tamis.Statistics(plan), update, "summing rows")
            passes.append(time.perf_counter() - start)
    return float(np.median(fits)), float(np.median(passes))


def update(statistics: tamis.Statistics, block: tamis.table.sources.source.Block) -> tamis.Statistics:
    return statistics.update(block.X, block.y)


def main() -> None:
    warnings.filterwarnings("ignore")
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else 2_000_000
    (fit_one, pass_one), (fit_two, pass_two) = measure(1, rows), measure(2, rows)
    print(
        f"| {rows} x {COLUMNS}, float32 | one worker, s | two workers, s | efficiency | wanted |\n|---|---|---|---|---|"
    )
    for what, one, two in (("sums", pass_one, pass_two), ("whole fit", fit_one, fit_two)):
        print(f"| {what} | {one:.1f} | {two:.1f} | {one / (2 * two):.2f} | at least 0.7 |")


if __name__ == "__main__":
    main()
