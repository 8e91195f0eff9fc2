"""Rows of measurements in files of JSON lines; a cell that has a row is not measured again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

Row = dict[str, Any]
OUT = Path(__file__).parents[1] / "out"


def rows_of(name: str, keys: Sequence[str]) -> list[Row]:
    """Return the last row of every cell in a file; `keys` identify a cell."""
    path = OUT / f"{name}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return list({tuple(row[key] for key in keys): row for row in map(json.loads, lines)}.values())


def measure(name: str, cells: Sequence[Row], one: Callable[..., Row], jobs: int | None = 1) -> list[Row]:
    """Append to a file the rows ``cell | one(**cell)`` of cells without a row, and return all its rows.

    An error becomes a row with `error`, and its cell is measured again by the next run.
    """
    keys = list(cells[0])
    done = [row for row in rows_of(name, keys) if "error" not in row]
    missing = [cell for cell in cells if not any(cell.items() <= row.items() for row in done)]
    OUT.mkdir(exist_ok=True)
    for row in _measured(missing, one, jobs):
        with (OUT / f"{name}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        result = row.get("error") or ", ".join(f"{k} {v:.3g}" for k, v in row.items() if isinstance(v, float))
        print(*(row[key] for key in keys), result, flush=True)
    return rows_of(name, keys)


def _measured(cells: Sequence[Row], one: Callable[..., Row], jobs: int | None) -> Iterator[Row]:
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(_row)(one, cell) for cell in cells)


def _row(one: Callable[..., Row], cell: Row) -> Row:
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1, user_api="blas"):
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", FutureWarning)
        try:
            row = cell | one(**cell)
        except Exception as error:  # whatever fails is a row, and is measured again
            row = cell | {"error": f"{type(error).__name__}: {error}"}
    messages = sorted({f"{w.category.__name__}: {str(w.message)[:120]}" for w in caught})
    return row | ({"warnings": messages} if messages else {})
