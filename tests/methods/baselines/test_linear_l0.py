"""Linear machines with a concave penalty: each step exact, the whole a descent to a stationary point."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tamis.methods.baselines import linear_l0 as method
from tamis.optim.driver import Status
from tamis.optim.penalties import L1, PENALTIES


def problem(n=40, d=15, penalty=None, seed=0, cost=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] - X[:, 3] + 0.8 * rng.normal(size=n) > 0, 1.0, -1.0)
    return method.Problem(X, y, np.ones(n) if cost is None else cost, penalty or L1(2.0))


def test_the_l1_machine_is_optimal():
    cp = pytest.importorskip("cvxpy")
    task = problem(cost=np.linspace(0.5, 2.0, 40))
    found = method.solve(task)
    w, b = cp.Variable(15), cp.Variable()
    slack = cp.pos(1 - cp.multiply(task.y, task.X @ w + b))
    best = cp.Problem(cp.Minimize(2 * cp.norm1(w) + task.cost @ cp.square(slack))).solve()
    assert found.status is Status.CONVERGED and found.n_iter == 1
    assert found.objective == pytest.approx(best, rel=1e-6)
    assert found.objective == pytest.approx(method.objective(task, found.state), rel=1e-12)


@pytest.mark.parametrize("name", ["exp", "log", "capped_l1", "scad", "exact"])
def test_no_step_raises_the_objective_and_the_end_is_stationary(name):
    task = problem(penalty=PENALTIES[name](1.5), seed=2)
    solution = method.solve(task, max_iter=200)
    assert all(b <= a + 1e-7 * abs(a) for a, b in pairwise(solution.history.objective))
    assert solution.status is Status.CONVERGED
    w, b = solution.state.w, solution.state.intercept
    kept = np.flatnonzero(w)
    h = 1e-6
    for j in kept:
        if name in ("capped_l1", "scad") and abs(abs(w[j]) * 1.5 - 1) < 1e-3:
            continue  # a kink
        ends = [method.objective(task, method.State(w + s * h * np.eye(15)[j], b)) for s in (1, -1)]
        assert abs(ends[0] - ends[1]) / (2 * h) < 1e-2
    level = [method.objective(task, method.State(w, b + s * h)) for s in (1, -1)]
    assert abs(level[0] - level[1]) / (2 * h) < 1e-2


@pytest.mark.parametrize("name", ["exp", "capped_l1", "exact"])
def test_concave_penalties_keep_fewer_features_than_l1(name):
    dense = method.solve(problem(60, 80, L1(1.0), seed=4)).state
    sparse = method.solve(problem(60, 80, PENALTIES[name](5.0), seed=4)).state
    assert 0 < np.count_nonzero(sparse.w) < np.count_nonzero(dense.w)


def test_the_violation_sees_every_condition():
    task = problem()
    state = method.solve(task).state
    assert method.violation(task, state) < 1e-6
    kept = int(np.flatnonzero(state.w)[0])
    out = int(np.flatnonzero(state.w == 0)[0])
    moved = [
        method.State(state.w + 0.1 * np.eye(15)[kept], state.intercept),
        method.State(state.w + 0.1 * np.eye(15)[out], state.intercept),
        method.State(state.w, state.intercept + 0.1),
        method.State(np.zeros(15), state.intercept),
    ]
    assert min(method.violation(task, other) for other in moved) > 1e-3


def test_a_penalty_beyond_all_use_is_said_to_leave_nothing():
    solution = method.solve(problem(penalty=L1(1e3)))
    assert solution.status is Status.COLLAPSED and not solution.state.w.any()
    y, cost = problem().y, np.ones(40)
    assert solution.state.intercept == pytest.approx(cost @ y / 40)


def test_flipped_columns_and_labels_flip_the_weights():
    task = problem(penalty=PENALTIES["exp"](1.5))
    signs = np.where(np.arange(15) % 2 == 0, 1.0, -1.0)
    state = method.solve(task).state
    mirrored = method.solve(method.Problem(task.X * signs, -task.y, task.cost, task.penalty)).state
    np.testing.assert_allclose(mirrored.w, -signs * state.w, atol=1e-6)
    assert mirrored.intercept == pytest.approx(-state.intercept, abs=1e-6)
