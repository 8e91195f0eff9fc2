from __future__ import annotations

import numpy as np
import pytest

from tamis.optim.driver import History, Iterate, Status, run


def halving(start=1.0):
    value = start
    while True:
        yield Iterate(value, value, value)
        value /= 2


def test_run_stops_when_the_violation_is_small():
    solution = run(halving(), tol=0.1, max_iter=100)
    assert solution.status is Status.CONVERGED and solution.state == 0.0625 and solution.n_iter == 4


def test_run_stops_at_once_from_a_converged_start():
    assert run(halving(0.01), tol=0.1, max_iter=100).n_iter == 0


def test_run_reports_that_it_ran_out_of_steps():
    solution = run(halving(), tol=0.0, max_iter=3)
    assert solution.status is Status.MAX_ITER and solution.n_iter == 3 and len(solution.history) == 4


def test_run_stops_at_non_finite_objectives_and_returns_the_last_good_state():
    values = [3.0, np.nan, 1.0]
    solution = run((Iterate(v, v, 1.0) for v in values), tol=0, max_iter=9)
    assert solution.status is Status.NON_FINITE and solution.state == 3.0


def test_run_returns_the_best_iterate_of_a_method_that_is_not_monotone():
    values = [3.0, 1.0, 2.0]
    assert run((Iterate(v, v, 1.0) for v in values), tol=0, max_iter=9, monotone=False).state == 1.0
    assert run((Iterate(v, v, 1.0) for v in values), tol=0, max_iter=9).state == 2.0


def test_run_takes_a_terminal_status_from_the_iterate():
    steps = iter([Iterate(0, 1.0, 1.0), Iterate(1, 1.0, 1.0, Status.COLLAPSED), Iterate(2, 1.0, 1.0)])
    solution = run(steps, tol=0, max_iter=9)
    assert solution.status is Status.COLLAPSED and solution.state == 1


def test_a_converged_iterate_is_returned_even_if_an_earlier_one_was_lower():
    steps = [Iterate("low", 1.0, 1.0), Iterate("stationary", 2.0, 0.0)]
    solution = run(iter(steps), tol=0.1, max_iter=9, monotone=False)
    assert solution.status is Status.CONVERGED and solution.state == "stationary"


def test_a_callback_may_stop_the_run():
    solution = run(halving(), tol=0.0, max_iter=9, callback=lambda step, it: step == 2)
    assert solution.status is Status.STOPPED and solution.n_iter == 2


def test_run_calls_back_with_every_iterate():
    seen = []
    run(halving(), tol=0.3, max_iter=9, callback=lambda step, it: seen.append((step, it.objective)))
    assert seen == [(0, 1.0), (1, 0.5), (2, 0.25)]


def test_run_says_when_a_generator_has_ended_early():
    assert run(iter([Iterate(0, 1.0, 1.0)]), tol=0, max_iter=9).status is Status.EXHAUSTED


def test_run_refuses_an_empty_generator():
    with pytest.raises(ValueError, match="at least one iterate"):
        run(iter([]), tol=0, max_iter=1)


def test_the_history_has_every_iterate():
    weights = [np.array([0.5, 0.5]), np.array([1.0, 0.0])]
    steps = [Iterate(k, 2.0 - k, 1.0 - k / 2, weights=w) for k, w in enumerate(weights)]
    history = run(iter(steps), tol=0, max_iter=9).history
    assert history.objective.tolist() == [2.0, 1.0] and history.violation.tolist() == [1.0, 0.5]
    assert np.all(np.diff(history.seconds) >= 0) and len(history.seconds) == 2 and history.seconds[0] >= 0
    assert history.weights.tolist() == [[0.5, 0.5], [1.0, 0.0]]


def test_a_history_of_some_kernels_and_among_all():
    history = History(np.zeros(1), np.zeros(1), np.zeros(1), np.array([[0.25, 0.75]]))
    assert history.among(np.array([2, 0]), 4).weights.tolist() == [[0.75, 0.0, 0.25, 0.0]]
    assert history.of_kernels(np.array([1])).weights.tolist() == [[0.75]]
    bare = History(np.zeros(1), np.zeros(1), np.zeros(1))
    assert bare.among(np.array([1]), 3) is bare and bare.of_kernels(np.array([0])) is bare
