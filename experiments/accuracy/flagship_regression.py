"""R2 of the flagship regressor beside EBM's, on scikit-learn's diabetes table and generated sets, in one run.

    python -m experiments.accuracy.flagship_regression [--sets diabetes,friedman1] [--splits 5] [--no-ebm]

70/30 splits with seeds 0, 1, ...; both with their defaults, nothing tuned outside; least squares on all columns is the
line to beat. A generated set has 1000 rows. Writes docs/results/flagship_regression.md, unless EBM was left out. The
set "wide line" of 40 columns runs on request: an EBM takes minutes for it.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import wilcoxon
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3, make_regression
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

PAGE = Path(__file__).parents[2] / "docs" / "results" / "flagship_regression.md"
ROWS = 1000
PACKAGES = ("tamis", "interpret", "scikit-learn", "numpy", "scipy")
SETS: dict[str, Callable[[], Any]] = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "friedman1": lambda: make_friedman1(ROWS, 10, noise=1.0, random_state=0),
    "friedman2": lambda: make_friedman2(ROWS, noise=125.0, random_state=0),
    "friedman3": lambda: make_friedman3(ROWS, noise=0.1, random_state=0),
    "wide line": lambda: make_regression(ROWS, 40, n_informative=10, noise=50.0, random_state=0),
    "steps": lambda: steps(),
}


def steps() -> tuple[np.ndarray, np.ndarray]:
    """A sum of steps in four of ten columns: what trees like and smooth kernels do not."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(ROWS, 10))
    y = 3.0 * (X[:, 0] > 0.5) + 2.0 * (X[:, 1] > 0.3) - 2.0 * (X[:, 2] > 0.7) + (X[:, 3] > 0.5) * (X[:, 0] > 0.5)
    return X, y + rng.normal(size=ROWS)


def ours(seed: int) -> Any:
    from tamis import TamisRegressor

    return TamisRegressor(random_state=seed)


def ebm(seed: int) -> Any:
    from interpret.glassbox import ExplainableBoostingRegressor

    return ExplainableBoostingRegressor(random_state=seed, n_jobs=1)


def measured(make: Callable[[], Any], models: dict[str, Callable[[int], Any]], splits: int) -> dict[str, np.ndarray]:
    """R2 on test rows and CPU seconds of the fits, (splits, 2) for each model."""
    X, y = make()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
    for seed in range(splits):
        A, B, a, b = train_test_split(X, y, test_size=0.3, random_state=seed)
        for name, model in models.items():
            start = time.process_time()
            fit = model(seed).fit(A, a)
            found[name].append((fit.score(B, b), time.process_time() - start))
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(name for name in SETS if name != "wide line"))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--no-ebm", action="store_true")
    options = parser.parse_args()
    models: dict[str, Callable[[int], Any]] = {"TamisRegressor": ours, "least squares": lambda _: LinearRegression()}
    if not options.no_ebm:
        models["EBM"] = ebm
    lines = [
        "| set | rows | columns | " + " | ".join(f"{name}, R2" for name in models) + " | CPU s of ours / of EBM |",
        "|---|---|---|" + "---|" * (len(models) + 1),
    ]
    gaps = []
    for name in options.sets.split(","):
        X, _ = SETS[name]()
        found = measured(SETS[name], models, options.splits)
        cells = [f"{v[:, 0].mean():.3f} ({v[:, 0].std(ddof=1):.3f})" for v in found.values()]
        seconds = [f"{found[m][:, 1].mean():.1f}" if m in found else "-" for m in ("TamisRegressor", "EBM")]
        lines.append(f"| {name} | {len(X)} | {X.shape[1]} | " + " | ".join(cells) + f" | {' / '.join(seconds)} |")
        print(lines[-1], flush=True)
        if "EBM" in found:
            gaps += (found["TamisRegressor"][:, 0] - found["EBM"][:, 0]).tolist()
    if options.no_ebm:
        return
    packages = ", ".join(f"{p} {version(p)}" for p in PACKAGES)
    words = [
        "# The flagship regressor beside EBM's",
        "",
        f"`python -m experiments.accuracy.flagship_regression --splits {options.splits}`, {date.today().isoformat()}, "
        f"Python {platform.python_version()}, {packages}.",
        "",
        f"R2 on the test parts of {options.splits} splits 70/30, mean (standard deviation over splits). Both with "
        "their defaults: at most 20 cases, 20 features and 10 pairs here, all features and its default pairs there.",
        "",
        *lines,
        "",
        f"Mean difference to EBM over all sets and splits {np.mean(gaps):+.3f}, "
        f"Wilcoxon p = {wilcoxon(gaps).pvalue:.2g} "
        "(splits of one set share rows, so it is too sure of itself).",
        "",
    ]
    PAGE.write_text("\n".join(words))


if __name__ == "__main__":
    main()
