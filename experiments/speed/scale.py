"""The statistics engine against boosting on large tables: seconds, memory, accuracy, growth, error.

    make bench        (TAMIS_DATA for covtype; without it that table is left out)

Every fit runs in a process of its own, the methods taking turns, so that times are ratios within one
run and peak memory is that of data and fit together. Prints Markdown; the committed tables are in
experiments/README.md.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

import tamis
from experiments.datasets import data_folder, load
from experiments.speed.timing import versions
from experiments.tables import table
from tamis.workflow import peers

ROWS, COLUMNS, TEST = 1_000_000, 28, 200_000
OURS = {
    "tamis": {},
    "tamis, full coupling": {"coupling": "full"},
    "tamis, all candidates": {"candidates": "all"},
    "tamis, double precision": {"double": True},
}
PEERS = ["boosting (scikit-learn)", "boosting (XGBoost, hist)"]
SLOW = ["EBM, one bag", "SGD on 500 random features"]
MAX_SECONDS = 300  # of one fit


def additive(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, float]:
    """28 normal columns, of which eight act, each in its own way; labels are drawn, so no rule is perfect."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    effects = [
        lambda t: np.sin(2 * t),
        lambda t: 0.6 * (t**2 - 1),
        lambda t: np.tanh(2 * t),
        lambda t: np.cos(1.5 * t) - 0.32,
        lambda t: 0.7 * t,
        lambda t: 1.5 * (np.exp(-(t**2)) - 0.58),
        lambda t: np.abs(t) - 0.8,
        lambda t: -0.6 * t,
    ]
    score = 1.6 * sum(f(X[:, j].astype(float)) for j, f in enumerate(effects))
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    return X, y, float(np.mean((score > 0) == y))


def data(name: str) -> tuple[np.ndarray, ...]:
    """Training and test part: "additive 1000000", "covtype" (class 2 against the rest) or "covtype, 7 classes"."""
    if name.startswith("covtype"):
        found = load("covtype" if name == "covtype" else "covtype_7")
        order = np.random.default_rng(0).permutation(len(found.y))
        test, train = order[: len(order) // 5], order[len(order) // 5 :]
        X, y = found.X.astype(np.float32), found.y
        return X[train], y[train], X[test], y[test]
    n = int(name.split()[1])
    X, y, _ = additive(n + TEST)
    return X[:n], y[:n], X[n:], y[n:]


def measure(method: str, name: str) -> dict[str, Any]:
    """One fit, in this process."""
    warnings.filterwarnings("ignore")
    X, y, X_test, y_test = data(name)
    budgets = (20, 20) if name.startswith("covtype") else (20, 10)
    nominal = np.zeros(X.shape[1], dtype=bool)
    if method == "pass":
        plan = tamis.Plan.of(X, y, folds=5, dtype="float32", bandwidth=[1.0, 3.0])
        start = time.perf_counter()
        tamis.Statistics(plan).update(X, y)
        return {"seconds": time.perf_counter() - start}
    if method == "search":
        model = tamis.EM2NOLCClassifierCV(20, 20, bandwidths=(1.0, 3.0), budgets="full", cv=5, n_jobs=2)
    elif method in OURS:
        options = dict(OURS[method])
        if options.pop("double", False):
            X = X.astype(float)
        model = tamis.EM2NOLCClassifier(*budgets, **options)
    elif method == PEERS[0]:
        model = peers.boosting(nominal)
    elif method == PEERS[1]:
        from xgboost import XGBClassifier

        model = XGBClassifier(tree_method="hist", n_estimators=100)
        y, y_test = y - y.min(), y_test - y_test.min()
    elif method == SLOW[0]:
        model = peers.ebm(nominal, outer_bags=1, n_jobs=2)
    else:
        from sklearn.kernel_approximation import RBFSampler
        from sklearn.linear_model import SGDClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        features = RBFSampler(gamma=0.5 / X.shape[1], n_components=500, random_state=0)
        model = make_pipeline(StandardScaler(), features, SGDClassifier(loss="log_loss", n_jobs=2, random_state=0))
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    out = {"seconds": seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}
    out["accuracy"] = float(np.mean(model.predict(X_test) == y_test))
    if hasattr(model, "features_"):
        out["features"] = model.features_.tolist()
        out["size"] = f"{len(model.instances_)} / {len(model.features_)}"
    return out


def apart(method: str, name: str) -> dict[str, Any]:
    """One fit in a process of its own."""
    call = [sys.executable, "-m", "experiments.speed.scale", method, name]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=MAX_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that it has started
            return {"seconds": float("inf"), "accuracy": float("nan")}
    return json.loads(output)


def compare(name: str, methods: list[str], repeats: int) -> dict[str, dict[str, Any]]:
    """Median seconds of several rounds in which the methods take turns."""
    rounds = [{method: apart(method, name) for method in methods} for _ in range(repeats)]
    out = {}
    for method in methods:
        seconds = float(np.median([done[method]["seconds"] for done in rounds]))
        memory = max(done[method].get("memory", 0.0) for done in rounds)
        out[method] = {**rounds[0][method], "seconds": seconds, "memory": memory}
    return out


def show(results: dict[str, dict[str, Any]], names: list[str] | None = None) -> None:
    first, second = (results[peer]["seconds"] for peer in PEERS)
    lines = []
    for method, r in results.items():
        s = r["seconds"]
        cells = [method, f"{s:.1f}", f"{s / first:.2f}", f"{s / second:.2f}", f"{r['memory']:.2f}"]
        cells += [f"{100 * r['accuracy']:.2f}", r.get("size", "")]
        if not np.isfinite(s):
            cells = [method, f"more than {MAX_SECONDS}, stopped", "", "", "", "", ""]
        lines.append(cells)
    print(table(["method", "s", "/ boosting", "/ XGBoost", "peak memory, GB", "accuracy", "cases / features"], lines))
    if names is not None:
        for method in OURS:
            if method in results:
                print(f"\n{method} keeps {', '.join(names[j] for j in results[method]['features'])}.")
    print()


def errors() -> None:
    """Relative error of a Gram matrix of combined kernels, by number of polynomials; range 8 bandwidths of 1."""
    from tamis.kernels.bank import Channel, KernelBank
    from tamis.kernels.base import Gaussian
    from tamis.kernels.stacks.chebyshev import Chebyshev
    from tamis.kernels.stacks.short import ChebyshevStack

    Z = np.clip(np.random.default_rng(0).normal(size=(3000, 5)), -4, 4)
    sizes = (12, 16, 20, 24, 32, 48, 64)
    lines = []
    for bandwidth in (1.0, 0.3):
        bank = KernelBank(tuple(Channel(str(j), Gaussian(bandwidth), (j,)) for j in range(5)))
        exact = bank.stack(Z, Z[:200], form="dense").combine(np.ones(5)).dense()
        cells = []
        for p in sizes:
            stack = ChebyshevStack(bank.channels, [Chebyshev(-4.0, 4.0, p)] * 5, Z, Z[:200])
            short = stack.combine(np.ones(5)).dense()
            cells.append(f"{np.abs(short.T @ short - exact.T @ exact).max() / np.abs(exact.T @ exact).max():.0e}")
        lines.append([bandwidth, *cells])
    print(table(["bandwidth", *(f"p = {p}" for p in sizes)], lines))


def main() -> None:
    print(f"{versions()}\n")
    big = f"additive {ROWS}"
    *_, bayes = additive(TEST, seed=1)
    results = compare(big, [*OURS, *PEERS], 3) | compare(big, SLOW, 1)
    print(f"### {ROWS} x {COLUMNS}, float32; no rule is better than {100 * bayes:.2f}\n")
    show(results)
    growth = {n: apart("tamis", f"additive {n}")["seconds"] for n in (10_000, 100_000)}
    growth[ROWS] = results["tamis"]["seconds"]
    slope = np.log(growth[ROWS] / growth[10_000]) / np.log(ROWS / 10_000)
    times = ", ".join(f"{n}: {s:.2f} s" for n, s in growth.items())
    print(f"Growth with rows: {times}; exponent from first to last {slope:.2f} (wanted: at most 1.05).\n")
    once, search = apart("pass", big)["seconds"], apart("search", big)
    print(
        f"EM2NOLCClassifierCV, 5 folds, all 400 budgets, 2 bandwidths: {search['seconds']:.1f} s, where one pass takes "
        f"{once:.1f} s (wanted: at most {2 * once + 60:.0f} s); accuracy {100 * search['accuracy']:.2f} with "
        f"{search['size']} cases / features; peak memory {search['memory']:.2f} GB.\n"
    )
    if data_folder() is not None:
        print("### covtype, 464810 x 54, class 2 against the rest\n")
        names = list(load("covtype").names)
        show(compare("covtype", [*list(OURS)[:2], *PEERS, *SLOW], 1), names)
        print("### covtype, all seven classes\n")
        show(compare("covtype, 7 classes", [*list(OURS)[:2], *PEERS, *SLOW], 1), names)
    print("### Error of the Gram matrix by number of polynomials p\n")
    errors()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(*sys.argv[1:])))
    else:
        main()
