"""Speed of the multiple-kernel classifiers, as ratios to a reference measured in the same run.

    python -m experiments.speed.mkl [rounds] [easy] [simple] [memory]

rounds   one round of MKL-L0/1-SVM against the printed update with a dense solve, on pima with ten kernels
easy     EasyMKL with one kernel per feature on wdbc, against scikit-learn's SVC
simple   SimpleMKL on sonar with 610 kernels: passes over the kernels, share of the SVM solves
memory   peak memory of SimpleMKL and EasyMKL on ionosphere (340 kernels) and sonar (610)
"""

from __future__ import annotations

import sys
import time
from itertools import islice, pairwise

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from experiments.datasets import load
from experiments.speed.timing import median, peak
from tamis import EasyMKLClassifier, SimpleMKLClassifier, bandwidths, per_feature
from tamis.kernels.recipes import Sample
from tamis.methods.baselines import simple_mkl
from tamis.methods.zero_one import solver as l01_svm
from tamis.optim.driver import Status
from tamis.optim.prox import project_simplex

COST, RHO1 = 16.0, 1.0


def standardised(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = load(name)
    X = StandardScaler().fit_transform(np.nan_to_num(data.X, nan=float(np.nanmean(data.X))))
    y = np.where(data.y == np.unique(data.y)[1], 1.0, -1.0)
    rows = np.unique(np.column_stack([X, y]), axis=0)
    return np.ascontiguousarray(rows[:, :-1]), rows[:, -1]


def bank(X: np.ndarray, y: np.ndarray, on: str = "all"):
    d = X.shape[1]
    names = [f"x{j}" for j in range(d)]
    sample = Sample(X, names, np.zeros(d, dtype=bool), y[:, None], np.ones(len(y)), d, 0)
    return bandwidths(on=on).bank(sample, 1.0)


def printed_rounds(Ks: np.ndarray, y: np.ndarray, rounds: int, rho2: float = 256.0, rho3: float = 256.0):
    """Algorithm 1 with dense solves, nothing cached; the objective of the last point and the seconds of each round."""
    L, m, _ = Ks.shape
    d, z, theta, alpha = np.full(L, 1 / L), np.zeros(L), np.zeros(L), 0.0
    w, u, lam, b = np.zeros(m), np.zeros(m), np.zeros(m), 1.0 if y.sum() >= 0 else -1.0
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        K = np.tensordot(d, Ks, 1)
        s = 1 - y * (K @ w) - b * y - lam / RHO1
        T = (s > 0) & (s <= np.sqrt(2 * COST / RHO1))
        u = np.where(T, 0.0, s)
        w = np.linalg.solve(np.eye(m) + RHO1 * K, -y * (lam + RHO1 * (u + b * y - 1)))
        b = -y @ (lam + RHO1 * (u + y * (K @ w) - 1)) / (m * RHO1)
        kept = d + theta / rho2 > 0
        z = np.maximum(d + theta / rho2, 0)
        A = np.stack([Kl @ w for Kl in Ks], axis=1)
        v = -0.5 * A.T @ w - A.T @ (y * lam) - RHO1 * A.T @ (y * (u + b * y - 1))
        right = v - theta + rho2 * z + rho3 - alpha
        free = np.linalg.solve(RHO1 * A.T @ A + rho2 * np.eye(L) + rho3, right)
        alpha += rho3 * (free.sum() - 1)
        d = np.zeros(L)
        d[kept] = project_simplex(free[kept])
        theta[kept] += rho2 * (d - z)[kept]
        r = u + y * (np.tensordot(d, Ks, 1) @ w) + b * y - 1
        lam = np.where(T, lam + RHO1 * r, 0.0)
        seconds.append(time.perf_counter() - start)
    K, w = np.tensordot(d, Ks, 1), -y * lam
    slack = 1 - y * (K @ w + b)
    return 0.5 * w @ K @ w + COST * np.sum(slack > 1e-2), np.array(seconds)


def rounds() -> None:
    X, y = standardised("pima")
    stack = bank(X, y).stack(X, form="dense")
    problem = l01_svm.Problem(stack, y, np.full(len(y), COST), RHO1)
    moving, converged = [], []
    for _ in range(3):
        printed, slow = printed_rounds(np.ascontiguousarray(stack.values), y, 40)
        stamps, weights = [], []
        for iterate in islice(l01_svm.iterates(problem, tol=1e-12, settled=1e-5), 250):
            stamps.append(time.perf_counter())
            weights.append(iterate.weights)
        own, moved = np.diff(stamps), np.array([a is not b for a, b in pairwise(weights)])
        last = int(np.flatnonzero(moved)[-1]) + 1
        moving.append(np.median(slow) / np.mean(own[:last]))
        converged.append(np.median(slow) / np.mean(own[last:]))
    solution = l01_svm.solve_admm(problem)
    print(f"pima, {len(y)} distinct rows, {stack.shape[0]} kernels, C = {COST:g}, rho1 = {RHO1:g}")
    print(f"  weights have converged to 1e-5 after {last} rounds; of {len(own)} they moved in {moved.sum()}")
    print(
        f"  printed round {1e3 * np.median(slow):.1f} ms; ours {1e3 * own[:last].mean():.1f}, then "
        f"{1e3 * own[last:].mean():.1f} ms"
    )
    print(f"  printed / ours while the weights move: {np.median(moving):.1f} (wanted: 2)")
    print(f"  printed / ours once they have converged: {np.median(converged):.1f} (wanted: 5)")
    print(f"  objective after 40 printed rounds {printed:.1f}, ours {solution.objective:.1f} ({solution.status.name})")


def easy() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    Z = StandardScaler().fit_transform(X)
    svc = median(lambda: SVC().fit(Z, y), 15)
    own = median(lambda: EasyMKLClassifier(kernels=per_feature(), calibration=None).fit(X, y), 15)
    print(
        f"wdbc, {len(y)} rows, 30 kernels: EasyMKL {1e3 * own:.1f} ms, SVC() {1e3 * svc:.1f} ms, ratio {own / svc:.1f}"
    )
    clf = EasyMKLClassifier(kernels=per_feature(), calibration=None).fit(X, y)
    print(f"  relative gap {clf.history_.violation[-1]:.1e}, {len(clf.instances_)} cases (wanted: at most 5)")


def simple() -> None:
    X, y = standardised("sonar")
    stack = bank(X, y, "both").stack(X, form="streaming")
    for C in (1.0, 10.0, 100.0):
        inside, original = [0.0], simple_mkl.solve_svm

        def timed(*args, inside=inside, original=original, **options):
            start = time.perf_counter()
            try:
                return original(*args, **options)
            finally:
                inside[0] += time.perf_counter() - start

        simple_mkl.solve_svm = timed
        start = time.perf_counter()
        solution = simple_mkl.solve(simple_mkl.Problem(stack, y, np.full(len(y), C)), tol=1e-3)
        total = time.perf_counter() - start
        simple_mkl.solve_svm = original
        state = solution.state
        print(
            f"sonar, {len(y)} rows, {stack.shape[0]} kernels, C = {C:g}: {solution.status.name}, gap "
            f"{solution.history.violation[-1]:.1e}, {state.passes:.1f} passes (wanted: 60), SVM solves "
            f"{100 * inside[0] / total:.0f} % of {total:.2f} s (wanted: 50), {np.sum(state.weights > 0)} kernels"
        )
        assert solution.status is Status.CONVERGED


def peaks() -> None:
    for name in ("ionosphere", "sonar"):
        data = load(name)
        for cls in (SimpleMKLClassifier, EasyMKLClassifier):
            clf = cls(kernels=bandwidths(on="both"), calibration=None)
            memory = peak(lambda clf=clf, data=data: clf.fit(data.X, data.y))
            print(f"{name}, {cls.__name__}: peak {memory:.0f} MiB (wanted: 1024), {len(clf.kernels_)} kernels kept")


if __name__ == "__main__":
    with threadpool_limits(1, user_api="blas"):
        for part in sys.argv[1:] or ["rounds", "easy", "simple", "memory"]:
            {"rounds": rounds, "easy": easy, "simple": simple, "memory": peaks}[part]()
