"""The pass, the whole fit, prediction and explanation on a graphics card; absolute seconds, rows already there.

    python -m experiments.speed.device [rows]      (default 100000000; about 20 GB of device memory)

Needs torch with CUDA and this package; prints Markdown. The committed table is in experiments/README.md.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import tamis
from tamis.arrays import to_numpy

COLUMNS = 28


def additive(n: int, device: str, seed: int = 0) -> tuple[Any, Any, float]:
    """The rows of experiments.speed.scale, drawn on the device, and the accuracy of the best rule."""
    draw = torch.Generator(device=device).manual_seed(seed)
    X = torch.empty((n, COLUMNS), dtype=torch.float32, device=device)
    y = torch.empty(n, dtype=torch.int64, device=device)
    right = 0.0
    for start in range(0, n, 10**7):
        rows = slice(start, min(start + 10**7, n))
        X[rows] = torch.randn((rows.stop - start, COLUMNS), generator=draw, device=device)
        t = X[rows, :8].double()
        score = torch.sin(2 * t[:, 0]) + 0.6 * (t[:, 1] ** 2 - 1) + torch.tanh(2 * t[:, 2])
        score += torch.cos(1.5 * t[:, 3]) - 0.32 + 0.7 * t[:, 4] + 1.5 * (torch.exp(-(t[:, 5] ** 2)) - 0.58)
        score = 1.6 * (score + torch.abs(t[:, 6]) - 0.8 - 0.6 * t[:, 7])
        y[rows] = (torch.rand(len(score), generator=draw, device=device) < torch.sigmoid(score)).long()
        right += float(((score > 0) == (y[rows] == 1)).sum())
    return X, y, right / n


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median seconds, and the last result."""
    seconds = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        out = work()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), out


def row(what: str, seconds: float, wanted: str, note: str = "") -> None:
    print(f"| {what} | {seconds:.2f} | {wanted} | {note} |", flush=True)


def main() -> None:
    warnings.simplefilter("default")
    n, device = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**8, "cuda"
    versions = f"torch {torch.__version__}, numpy {np.__version__}"
    print(f"{torch.cuda.get_device_name(0)}, {versions}; {n} x {COLUMNS}, float32\n")
    X, y, bayes = additive(n, device)
    some = to_numpy(X[:100_000]), to_numpy(y[:100_000])
    tamis.EM2NOLCClassifier(20, 10).fit(X[:200_000], y[:200_000])  # compile and load
    print("| what | s | wanted | |\n|---|---|---|---|")
    for folds in (1, 5):
        plan = tamis.Plan.of(*some, folds=folds, degrees=16, dtype="float32")
        seconds, sums = timed(lambda plan=plan: tamis.Statistics(plan).update(X, y), 3)
        size = sums.parts.shape[1]
        rate = 2.0 * n * size**2 / seconds / 1e12
        row(f"pass, p = 16, {folds} folds", seconds, "at most 2.0", f"{size} functions, {rate:.0f} TFLOP/s nominal")
    exact = tamis.Statistics(plan).update(*some)
    ours = tamis.Statistics(plan).update(X[:100_000], y[:100_000])
    error = np.abs(exact.parts - ours.parts).max() / np.abs(exact.parts).max()
    reference = tamis.Statistics(tamis.Plan.of(*some, folds=5, degrees=16)).update(*some)
    single = np.abs(exact.parts - reference.parts).max() / np.abs(reference.parts).max()
    double = np.abs(ours.parts - reference.parts).max() / np.abs(reference.parts).max()
    seconds, one = timed(lambda: tamis.EM2NOLCClassifier(20, 10).fit(X, y), 1)
    row("fit, 20 cases x 10 features, probabilities", seconds, "-")
    search = tamis.EM2NOLCClassifierCV(20, 10, cv=5, bandwidths=(1.0, 3.0))
    seconds, search = timed(lambda: search.fit(X, y), 1)
    row("fit with 5-fold path over budgets, 2 bandwidths, 2 ridges", seconds, "at most 15")
    T, truth, _ = additive(min(n, 10**7), device, seed=1)
    model = tamis.EM2NOLCClassifier(20, 10, coupling="full").fit(X, y)
    model.predict(T[:1000])
    seconds, _ = timed(lambda: model.predict(T), 3)
    row(f"prediction, {len(T)} rows", seconds, "")
    both, (_, found) = timed(lambda: (model.predict(T), model.explain(T)), 3)
    row(f"prediction and explanation, {len(T)} rows", both, "at most 1")
    accuracy = {name: float((m.predict(T) == truth).float().mean()) for name, m in
                (("rank one", one), ("path", search), ("full coupling", model))}  # fmt: skip
    rows = to_numpy(T[:2000]).astype(float)
    gap = np.abs(model.explain(rows).contributions - to_numpy(found.contributions[:2000])).max()
    adds = float((found.contributions.sum((1, 2, 3)) + found.base_value[0] - found.decision[:, 0]).abs().max())
    kept = f"{len(search.instances_)} cases and {len(search.features_)} features"
    print(f"\nAccuracy: {', '.join(f'{k} {100 * v:.2f}' for k, v in accuracy.items())}; no rule is better than "
          f"{100 * bayes:.2f}. The path keeps {kept}.")  # fmt: skip
    print(f"Relative error of sums of 10^5 rows against double precision: device {double:.1e}, numpy in single "
          f"precision {single:.1e}; between the two {error:.1e}.")  # fmt: skip
    print(f"Contributions on the device and in numpy differ by {gap:.1e}; they add up to {adds:.1e}. "
          f"Peak device memory {torch.cuda.max_memory_allocated() / 2**30:.0f} GiB.")  # fmt: skip


if __name__ == "__main__":
    main()
