from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from tamis.optim.subset import (
    Cardinality,
    Cover,
    Quadratic,
    best_exchange,
    best_subset,
    exchange_gains,
    exchange_violation,
    fit_support,
    forward,
    prune,
)

import references


def centred(D, T):
    return D - D.mean(0), T - T.mean(0)


def random_problem(rng, p=12, n=30, q=1, ridge=0.1):
    D, T = centred(rng.normal(size=(n, p)) @ rng.normal(size=(p, p)), rng.normal(size=(n, q)))
    return D, T, Quadratic.from_design(D.T.copy(), T, ridge)


@pytest.mark.parametrize("q", [1, 3])
def test_fit_on_a_support_solves_its_normal_equations(rng, q):
    D, T, problem = random_problem(rng, q=q)
    fit = fit_support(problem, np.array([1, 5, 7]))
    residual = D[:, fit.support].T @ (T - D[:, fit.support] @ fit.coef) - 0.1 * fit.coef
    assert np.abs(residual).max() < 1e-8
    np.testing.assert_allclose(fit.objective, references.ridge_objective(D, T, 0.1, [1, 5, 7]), rtol=1e-10)


@pytest.mark.parametrize("q", [1, 3])
def test_gain_of_an_exchange_is_what_refitting_gives(rng, q):
    D, T, problem = random_problem(rng, q=q)
    fit = fit_support(problem, np.array([0, 3, 6, 9]))
    j, i, gain = best_exchange(problem, Cardinality(4), fit)
    other = np.append(np.delete(fit.support, j), i)
    np.testing.assert_allclose(fit.objective - gain, references.ridge_objective(D, T, 0.1, other), rtol=1e-9)
    every = [
        references.ridge_objective(D, T, 0.1, [*np.delete(fit.support, a), b])
        for a in range(4)
        for b in set(range(12)) - set(fit.support.tolist())
    ]
    np.testing.assert_allclose(fit.objective - gain, min(every), rtol=1e-9)


def test_forward_selection_adds_the_best_column_each_time(rng):
    D, T, problem = random_problem(rng)
    chosen = []
    for _ in range(4):
        rest = [i for i in range(12) if i not in chosen]
        chosen.append(min(rest, key=lambda i: references.ridge_objective(D, T, 0.1, [*chosen, i])))
    assert forward(problem, Cardinality(4), np.empty(0, dtype=int)).tolist() == chosen


def test_pruning_drops_the_least_useful_member_each_time(rng):
    D, T, problem = random_problem(rng)
    left = list(range(8))
    while len(left) > 3:
        drop = min(left, key=lambda j: references.ridge_objective(D, T, 0.1, [i for i in left if i != j]))
        left.remove(drop)
    assert sorted(prune(problem, Cardinality(3), np.arange(8)).tolist()) == left


@pytest.mark.parametrize(("p", "k"), [(8, 1), (8, 2), (10, 3), (9, 8)])
def test_best_subset_agrees_with_enumeration_on_small_problems(rng, p, k):
    ratios = []
    for _ in range(10):
        D, T, problem = random_problem(rng, p=p)
        found = best_subset(problem, Cardinality(k), thorough=True)
        ratios.append(found.objective / references.best_subset(D, T, 0.1, k))
        assert len(found.support) <= k
    assert min(ratios) > 1 - 1e-9 and np.mean(ratios) < 1.01


@pytest.mark.parametrize(("p", "k", "alpha"), [(24, 3, 0.001), (24, 3, 0.01), (20, 5, 0.01)])
def test_best_subset_is_within_one_per_cent_on_kernel_columns(p, k, alpha):
    X, y = load_breast_cancer(return_X_y=True)
    Z = (X - X.mean(0)) / X.std(0)
    rng, ratios = np.random.default_rng(0), []
    for _ in range(10):
        rows, features = rng.permutation(len(Z))[:200], rng.permutation(30)[:5]
        A = references.kernel_values(Z[rows][:, features], 1.0).sum(0)[:, :p]
        D, T = centred(A, np.where(y[rows] == 1, 1.0, -1.0)[:, None])
        problem = Quadratic.from_design(D.T.copy(), T, alpha * 200)
        found = best_subset(problem, Cardinality(k), thorough=True).objective
        ratios.append(found / _exhaustive(D, T, alpha * 200, k))
    assert min(ratios) > 1 - 1e-9
    assert np.mean(ratios) - 1 < 0.01, f"mean {np.mean(ratios) - 1:.2%}, worst {max(ratios) - 1:.2%}"


def _exhaustive(D, T, ridge, k):
    """All supports at once: c' H^-1 c is the decrease of twice the objective."""
    G, c = D.T @ D, (D.T @ T)[:, 0]
    supports = np.array(list(combinations(range(D.shape[1]), k)))
    H = G[supports[:, :, None], supports[:, None, :]] + ridge * np.eye(k)
    x = np.linalg.solve(H, c[supports][:, :, None])[:, :, 0]
    return 0.5 * float(np.sum(T**2) - np.max(np.sum(x * c[supports], axis=1)))


def test_result_from_a_warm_start_is_never_worse_than_its_refit(rng):
    for _ in range(10):
        _, _, problem = random_problem(rng, p=40)
        warm = rng.permutation(40)[:6]
        assert best_subset(problem, Cardinality(6), warm).objective <= fit_support(problem, warm).objective


def test_no_exchange_improves_a_converged_search(rng):
    _, _, problem = random_problem(rng, p=30)
    fit = best_subset(problem, Cardinality(5))
    assert exchange_violation(problem, Cardinality(5), fit.support, fit.objective) < 1e-6
    worse = fit_support(problem, np.sort(fit.support)[:4])
    assert exchange_violation(problem, Cardinality(5), worse.support, worse.objective) > 1e-3


def test_a_copy_of_a_column_is_never_chosen_without_ridge(rng):
    D, T = centred(rng.normal(size=(30, 5)), rng.normal(size=(30, 1)))
    D = np.hstack([D, D])
    fit = best_subset(Quadratic.from_design(D.T.copy(), T, 0.0), Cardinality(8))
    assert len(fit.support) == len(set((fit.support % 5).tolist())) == 5


def test_a_constant_column_is_never_chosen(rng):
    D, T = centred(rng.normal(size=(30, 4)), rng.normal(size=(30, 1)))
    D[:, 2] = 0.0
    assert 2 not in best_subset(Quadratic.from_design(D.T.copy(), T, 0.1), Cardinality(4)).support


def test_nothing_is_chosen_when_no_column_varies():
    problem = Quadratic.from_design(np.zeros((3, 10)), np.ones((10, 1)), 0.1)
    assert len(best_subset(problem, Cardinality(2)).support) == 0


def test_gram_form_and_design_form_agree(rng):
    D, T, problem = random_problem(rng)
    other = Quadratic.from_gram(D.T @ D, D.T @ T, float(np.sum(T * T)), 0.1)
    np.testing.assert_allclose(
        best_subset(problem, Cardinality(3)).objective, best_subset(other, Cardinality(3)).objective
    )


def test_cover_budget_counts_items_not_columns(rng):
    D, T, _ = random_problem(rng, p=4)
    incidence = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]], dtype=bool)
    problem = Quadratic.from_design(D.T.copy(), T, 0.1)
    for limit in (1, 2, 3):
        support = best_subset(problem, Cover(incidence, limit)).support
        assert incidence[support].any(axis=0).sum() <= limit
    assert not Cover(incidence, 2).room(np.empty(0, dtype=int), 4)[3]
    assert Cover(incidence, 3).room(np.array([0]), 4)[3]
    everything = best_subset(problem, Cover(incidence, 3)).support
    assert sorted(everything.tolist()) == [0, 1, 2, 3]


def test_gram_columns_are_computed_once(rng):
    D, T = centred(rng.normal(size=(20, 6)), rng.normal(size=(20, 1)))
    asked = []
    problem = Quadratic.from_design(D.T.copy(), T, 0.1)
    inner = problem.gram_columns
    problem.gram_columns = lambda idx: asked.extend(idx.tolist()) or inner(idx)
    best_subset(problem, Cardinality(3))
    assert len(asked) == len(set(asked))


def test_pruning_a_crowd_keeps_what_matters(rng):
    X = rng.normal(size=(120, 900))
    planted = np.array([7, 300, 899])
    y = X[:, planted] @ np.array([3.0, -2.0, 2.5])
    problem = Quadratic.from_design(X.T.copy(), y[:, None], 1.0)
    left = prune(problem, Cardinality(5), np.arange(900))
    assert set(planted) <= set(left.tolist()) and len(left) == 5


@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("budget", [3, 5])
def test_violation_is_what_the_best_step_would_gain(rng, q, budget):
    D, T, problem = random_problem(rng, q=q)
    support = np.array([0, 3, 6])

    def value(columns):
        return references.ridge_objective(D, T, 0.1, columns)

    others = set(range(12)) - set(support.tolist())
    steps = [[*np.delete(support, j), i] for j in range(3) for i in others]
    steps += [[*support, i] for i in others] if budget > 3 else []
    now = value(support) + 0.25
    wanted = (now - min(value(step) for step in steps)) / now
    assert exchange_violation(problem, Cardinality(budget), support, now) == pytest.approx(wanted, rel=1e-9)
    assert exchange_violation(problem, Cardinality(budget), support, 0.0) == 0.0
    empty = np.empty(0, dtype=int)
    first = value([]) - min(value([i]) for i in range(12))
    assert exchange_violation(problem, Cardinality(2), empty, value([])) == pytest.approx(first / value([]), rel=1e-9)


def test_a_cover_can_be_widened():
    cover = Cover(np.eye(3, dtype=bool), 2)
    assert cover.widened(3).limit == 6 and cover.widened(3).incidence is cover.incidence
    assert Cardinality(4).widened(2).limit == 8


def test_gains_of_exchanges_that_cannot_be_made_are_minus_infinity(rng):
    D = rng.normal(size=(20, 4))
    D[:, 3] = D[:, 1]
    D, T = centred(D, rng.normal(size=(20, 1)))
    problem = Quadratic.from_design(D.T.copy(), T, 0.0)
    fit = fit_support(problem, np.array([0, 1]))
    gains = exchange_gains(fit, 1e-8)
    assert gains[0, 3] == -np.inf and np.isfinite(gains[:, 2]).all() and gains.max() < np.inf
