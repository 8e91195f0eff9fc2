"""Fits from Parquet against the pure pass over the same rows in memory: seconds, peak memory, growth.

    python -m experiments.speed.out_of_core [largest]      (default 10000000 rows x 28, float32; needs 1.2 GB of disk)

Every measurement runs in a process of its own. Prints Markdown; the committed table is in experiments/README.md.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.speed.scale import COLUMNS, additive

STEP = 250_000  # rows of a row group


def write(n: int, path: Path) -> None:
    """Generated rows as a Parquet file."""
    writer = None
    for k, start in enumerate(range(0, n, STEP)):
        X, y, _ = additive(min(STEP, n - start), seed=1000 + k)
        table = pa.table({**{f"c{j}": X[:, j] for j in range(COLUMNS)}, "y": y})
        writer = writer or pq.ParquetWriter(path, table.schema, compression="NONE", use_dictionary=["y"])
        writer.write_table(table)
    if writer is not None:
        writer.close()


def measure(what: str, path: str) -> dict[str, Any]:
    """One measurement, in this process."""
    import tamis

    if what == "pass":
        file = pq.ParquetFile(path)
        X, y = (
            np.empty((file.metadata.num_rows, COLUMNS), dtype=np.float32),
            np.empty(file.metadata.num_rows, dtype=int),
        )
        start = 0
        for batch in file.iter_batches(STEP):
            rows = slice(start, start := start + batch.num_rows)
            y[rows] = batch.column("y").to_numpy()
            for j in range(COLUMNS):
                X[rows, j] = batch.column(f"c{j}").to_numpy()
        plan = tamis.Plan.of(X[:100_000], y[:100_000], folds=3, dtype="float32")
        begin = time.perf_counter()
        tamis.Statistics(plan).update(X, y)
        return {"seconds": time.perf_counter() - begin, "memory": peak()}
    begin = time.perf_counter()
    model = tamis.EM2NOLCClassifier(20, 10).fit(path, "y")
    seconds = time.perf_counter() - begin
    X, y, bayes = additive(200_000, seed=1)
    right = float(np.mean(model.predict({f"c{j}": X[:, j] for j in range(COLUMNS)}) == y))
    return {"seconds": seconds, "memory": peak(), "accuracy": right, "bayes": bayes}


def peak() -> float:
    """Peak memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def apart(what: str, path: Path) -> dict[str, Any]:
    """One measurement in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "experiments.speed.out_of_core", what, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main(largest: int) -> None:
    print("| rows x 28, float32 | pure pass in memory, s | fit from Parquet, s | ratio | peak memory, GB | accuracy |")
    print("|---|---|---|---|---|---|")
    grown = {}
    with tempfile.TemporaryDirectory() as folder:
        for n in (100_000, 1_000_000, largest):
            path = Path(folder) / "rows.parquet"
            write(n, path)
            rounds = [(apart("pass", path), apart("fit", path)) for _ in range(1 if n > 10**6 else 3)]
            once = float(np.median([first["seconds"] for first, _ in rounds]))
            whole = float(np.median([second["seconds"] for _, second in rounds]))
            last = rounds[-1][1]
            memory = max(second["memory"] for _, second in rounds)
            grown[n] = whole
            print(
                f"| {n} | {once:.1f} | {whole:.1f} | {whole / once:.2f} | {memory:.2f} | {100 * last['accuracy']:.2f} |"
            )
    slope = np.log(grown[largest] / grown[1_000_000]) / np.log(largest / 1_000_000)
    whole = np.log(grown[largest] / grown[100_000]) / np.log(largest / 100_000)
    print(f"\nGrowth: exponent {whole:.2f} from 10^5 rows, {slope:.2f} from 10^6. No rule is better than "
          f"{100 * last['bayes']:.2f}.")  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(measure(*sys.argv[1:])))
    else:
        main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**7)
