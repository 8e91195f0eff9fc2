"""Weights of bounded sums: the three problems against grids, general solvers and closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from tamis.optim import polytope as room
from tamis.optim.polytope import MAX_ROWS_AT_ONCE, Polytope, centre, lowest, nearest, spread

TAILS = [None, 0.05, 0.4, 1.0]


def widest(P, gain, rows=None):
    """The solution and its rows; its bound is one, and a tight one."""
    a, top, rows = room.widest(P, gain, rows)
    assert (gain @ a) * (1 - 1e-12) <= top <= (gain @ a) * (1 + 1e-6)
    return a, rows


def polytope(seed, R, m, tail=None, decades=3.0):
    """Distinct patterns of channels with scales over `decades` up and down, every channel in some pattern."""
    rng = np.random.default_rng(seed)
    patterns = np.unique(rng.random((R, m)) < 0.5, axis=0)
    patterns[rng.integers(len(patterns), size=m), np.arange(m)] = True
    scale = 10.0 ** rng.uniform(-decades, decades, m)
    share = rng.dirichlet(np.full(len(patterns), 3.0))
    return Polytope(patterns * scale, None if tail is None else share / tail), scale


def quadratic(rng, scale):
    """A positive definite H and a vector c in the units of the weights."""
    m = len(scale)
    A = rng.normal(size=(m + 2, m))
    return (A.T @ A + 0.1 * np.eye(m)) * np.outer(scale, scale), (2.0 + 3.0 * rng.normal(size=m)) * scale


def cost_of(norms, a):
    seen = norms > 0
    return float(np.sum(norms[seen] ** 2 / a[seen]))


def tallest(rows, caps, a):
    """max nu'rows a over 0 <= nu <= caps, sum(nu) = 1, as a linear program."""
    heights = rows @ a
    found = linprog(-heights / heights.max(), A_eq=np.ones((1, len(rows))), b_eq=[1.0], bounds=[(0, c) for c in caps])
    return -found.fun * heights.max()


def border(P, scale, steps):
    """Points of the border of A in directions of a grid (k, m)."""
    m = len(scale)
    grid = [c for c in itertools.product(range(steps + 1), repeat=m - 1) if sum(c) <= steps]
    shares = np.array([(*c, steps - sum(c)) for c in grid]) / steps / scale
    return np.array([a / P.height(a) for a in shares])


class TestHeight:
    @pytest.mark.parametrize("tail", [0.01, 0.05, 0.4, 0.9, 1.0])
    def test_capped_means_are_a_linear_program(self, tail, rng):
        P, scale = polytope(1, 40, 5, tail)
        for _ in range(5):
            a = rng.random(5) / scale
            worst = P.worst(a)
            assert P.height(a) == pytest.approx(tallest(P.rows, P.caps, a), rel=1e-9)
            assert P.height(a) == pytest.approx(worst @ a) and np.all(worst <= P.rows.max(axis=0) * (1 + 1e-12))

    def test_mean_over_the_worst_share_by_hand(self):
        rows, share = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([0.3, 0.5, 0.2])
        a = np.array([2.0, 1.0])  # sums 2, 1, 3
        assert Polytope(rows, share / 0.4).height(a) == pytest.approx((0.2 * 3 + 0.2 * 2) / 0.4)
        assert Polytope(rows, share / 0.8).height(a) == pytest.approx((0.2 * 3 + 0.3 * 2 + 0.3 * 1) / 0.8)
        np.testing.assert_allclose(Polytope(rows, share / 0.4).worst(a), [1.0, 0.5])

    def test_a_tail_of_nothing_is_the_rows_and_of_one_the_mean_row(self, rng):
        P, scale = polytope(2, 30, 4)
        share = rng.dirichlet(np.ones(len(P.rows)))
        least, whole = Polytope(P.rows, share / (0.5 * share.min())), Polytope(P.rows, share)
        for a in rng.random((10, 4)) / scale:
            np.testing.assert_array_equal(least.worst(a), P.worst(a))
            assert whole.height(a) == pytest.approx(share @ P.rows @ a)
            assert P.height(a) == pytest.approx(np.max(P.rows @ a))

    def test_falls_as_the_tail_grows_and_is_a_norm(self, rng):
        P, scale = polytope(3, 30, 4, 1.0)
        a, b = rng.random((2, 4)) / scale
        heights = [Polytope(P.rows, P.caps / tail).height(a) for tail in np.linspace(0.02, 1.0, 30)]
        assert np.all(np.diff(heights) <= 1e-12 * heights[0]) and heights[-1] < 0.9 * heights[0]
        some = Polytope(P.rows, P.caps / 0.3)
        assert some.height(7 * a) == pytest.approx(7 * some.height(a))
        assert some.height(a + b) <= (some.height(a) + some.height(b)) * (1 + 1e-12)

    @pytest.mark.parametrize("tail", TAILS)
    def test_centre_has_weights_on_the_border_that_are_equal_shares_of_their_bounds(self, tail):
        P, _ = polytope(4, 20, 5, tail)
        a = centre(P)
        shares = a * P.rows.max(axis=0)
        assert np.ptp(shares) < 1e-12 * shares[0] and P.height(a) == pytest.approx(1.0)

    @pytest.mark.parametrize("tail", TAILS)
    @pytest.mark.parametrize("R", [5, 300])
    def test_first_rows_hold_everywhere_in_it_and_bound_every_weight(self, R, tail, rng):
        P, scale = polytope(5, R, 9, tail)
        first = P.first()
        assert np.all(first.max(axis=0) > 0) and len(first) <= max(MAX_ROWS_AT_ONCE, 10)
        for a in rng.random((20, 9)) / scale:
            assert np.max(first @ a) <= P.height(a) * (1 + 1e-12)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("seed", [0, 1])
class TestAgainstGrids:
    def test_nothing_on_the_border_is_wider(self, seed, m, tail, rng):
        P, scale = polytope(seed, 6, m, tail)
        gain = rng.random(m) * scale
        a, _ = widest(P, gain)
        best = np.max(border(P, scale, 400 if m == 2 else 60) @ gain)
        assert P.height(a) == pytest.approx(1.0) and a.min() >= 0
        assert best * (1 - 1e-12) <= gain @ a <= best * 1.03

    def test_nothing_on_the_border_is_spread_better(self, seed, m, tail, rng):
        P, scale = polytope(seed, 6, m, tail)
        norms = (0.2 + rng.random(m)) / np.sqrt(scale)
        a, _ = spread(P, norms)
        points = border(P, scale, 400 if m == 2 else 60)
        best = np.min(np.sum(norms**2 / points[np.all(points > 0, axis=1)], axis=1))
        assert P.height(a) == pytest.approx(1.0, rel=1e-13) and a.min() > 0
        assert best * 0.99 <= cost_of(norms, a) <= best * (1 + 1e-9)

    def test_nothing_inside_is_nearer(self, seed, m, tail, rng):
        P, scale = polytope(seed, 6, m, tail)
        H, c = quadratic(rng, scale)
        a, _ = nearest(P, H, c)
        outer = border(P, scale, 200 if m == 2 else 30)
        points = (np.linspace(0, 1, 41)[:, None, None] * outer).reshape(-1, m)
        values = 0.5 * np.einsum("ki,ij,kj->k", points, H, points) - points @ c
        value = 0.5 * a @ H @ a - c @ a
        assert P.height(a) <= 1 + 1e-9 and a.min() >= 0
        assert values.min() - 0.02 * np.ptp(values) <= value <= values.min() + 1e-8 * np.ptp(values)


def allowed(cp, P, scale):
    """A point of A in units of the scales, and its constraints with capped means written out by their dual."""
    u, rows = cp.Variable(len(scale), nonneg=True), P.rows / scale
    if P.caps is None:
        return u, [rows @ u <= 1]
    level, above = cp.Variable(), cp.Variable(len(rows), nonneg=True)
    return u, [level + P.caps @ above <= 1, level + above >= rows @ u]


SIZES = [(1, 4), (5, 6), (40, 12), (500, 10)]


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize(("R", "m"), SIZES)
class TestAgainstGeneralSolvers:
    def test_widest(self, R, m, tail, rng):
        cp = pytest.importorskip("cvxpy")
        P, scale = polytope(R, R, m, tail)
        gain = rng.random(m) * scale
        a, rows = widest(P, gain)
        u, conditions = allowed(cp, P, scale)
        value = cp.Problem(cp.Maximize(gain / scale @ u), conditions).solve(solver=cp.CLARABEL)
        assert gain @ a == pytest.approx(value, rel=1e-6) and P.height(a) == pytest.approx(1.0)
        assert len(rows) <= max(MAX_ROWS_AT_ONCE, 4 * m)

    def test_spread_has_the_value_of_its_dual(self, R, m, tail, rng):
        """``min sum norms^2 / a = max (sum_p norms_p sqrt((rows'nu)_p))^2`` over nu of sum one within the caps."""
        cp = pytest.importorskip("cvxpy")
        P, scale = polytope(R, R, m, tail)
        roots = 10.0 ** rng.uniform(-1.5, 0, m)
        norms = roots / np.sqrt(scale)
        a, rows = spread(P, norms)
        nu = cp.Variable(len(P.rows), nonneg=True)
        conditions = [cp.sum(nu) == 1] + ([] if P.caps is None else [nu <= P.caps])
        cp.Problem(cp.Maximize(roots @ cp.sqrt((P.rows / scale).T @ nu)), conditions).solve(solver=cp.CLARABEL)
        v = np.clip(nu.value, 0, 1.0 if P.caps is None else P.caps)
        bound = float(norms @ np.sqrt(P.rows.T @ v / max(1.0, v.sum()))) ** 2
        assert bound * (1 - 1e-9) <= cost_of(norms, a) <= bound * (1 + 1e-5)
        assert P.height(a) == pytest.approx(1.0, rel=1e-13) and len(rows) <= max(MAX_ROWS_AT_ONCE, 4 * m)

    def test_nearest(self, R, m, tail, rng):
        cp = pytest.importorskip("cvxpy")
        P, scale = polytope(R, R, m, tail)
        H, c = quadratic(rng, scale)
        a, rows = nearest(P, H, c)
        u, conditions = allowed(cp, P, scale)
        root = np.linalg.cholesky(H / np.outer(scale, scale)).T
        goal = cp.Minimize(0.5 * cp.sum_squares(root @ u) - c / scale @ u)
        value = cp.Problem(goal, conditions).solve(solver=cp.CLARABEL)
        assert 0.5 * a @ H @ a - c @ a == pytest.approx(value, rel=1e-6)
        np.testing.assert_allclose(a * scale, u.value, atol=2e-3 * np.max(u.value))
        assert P.height(a) <= 1 + 1e-9 and len(rows) <= max(MAX_ROWS_AT_ONCE, 4 * m)


def solved(name, P, scale, seed=0):
    """One of the three problems on P as a function of `rows`, and the value of a point."""
    rng = np.random.default_rng(seed)
    m = len(scale)
    if name == "widest":
        gain = rng.random(m) * scale
        return lambda rows=None: widest(P, gain, rows), lambda a: -gain @ a
    if name == "spread":
        norms = rng.random(m) / np.sqrt(scale)
        return lambda rows=None: spread(P, norms, rows), lambda a: cost_of(norms, a)
    H, c = quadratic(rng, scale)
    return lambda rows=None: nearest(P, H, c, rows), lambda a: 0.5 * a @ H @ a - c @ a


@pytest.mark.parametrize("name", ["widest", "spread", "nearest"])
class TestEveryProblem:
    @pytest.mark.parametrize("tail", TAILS)
    def test_rows_that_come_back_are_enough(self, name, tail):
        P, scale = polytope(7, 500, 10, tail)
        solve, value = solved(name, P, scale)
        a, rows = solve()
        again, same = solve(rows)
        np.testing.assert_array_equal(again, a)
        np.testing.assert_array_equal(same, rows)
        _, others = solved(name, P, scale, seed=1)[0]()
        assert value(solve(others)[0]) == pytest.approx(value(a), rel=1e-7)
        for r in rows:  # each is a row, or a mean of rows that counts none more than its cap
            if P.caps is None:
                assert np.any(np.all(P.rows == r, axis=1))
            else:
                assert np.all(r <= P.caps @ P.rows * (1 + 1e-12)) and np.all(r <= scale * (1 + 1e-12))

    @pytest.mark.parametrize("tail", [None, 0.3])
    @pytest.mark.parametrize("R", [20, 300])
    def test_columns_permuted_permute_weights(self, name, R, tail):
        rng = np.random.default_rng(0)
        P, scale = polytope(8, R, 6, tail)
        order = rng.permutation(6)
        Q = Polytope(P.rows[:, order], P.caps)
        gain, norms = rng.random(6) * scale, rng.random(6) / np.sqrt(scale)
        H, c = quadratic(rng, scale)
        plain, mixed = {
            "widest": lambda: (widest(P, gain), widest(Q, gain[order])),
            "spread": lambda: (spread(P, norms), spread(Q, norms[order])),
            "nearest": lambda: (nearest(P, H, c), nearest(Q, H[np.ix_(order, order)], c[order])),
        }[name]()
        np.testing.assert_allclose((mixed[0] * scale[order]), (plain[0] * scale)[order], rtol=1e-4, atol=1e-6)

    def test_contained_rows_change_nothing_and_more_rows_never_help(self, name):
        P, scale = polytope(9, 12, 5)
        solve, value = solved(name, P, scale)
        less = np.vstack([P.rows, 0.7 * P.rows, P.rows[:3]])
        assert value(solved(name, Polytope(less), scale)[0]()[0]) == pytest.approx(value(solve()[0]), rel=1e-8)
        values = [value(solved(name, Polytope(np.vstack([P.rows[:k], np.diag(scale)])), scale)[0]()[0]) for k in (3, 7)]
        more = value(solved(name, Polytope(np.vstack([P.rows, np.diag(scale)])), scale)[0]()[0])
        assert values[0] <= values[1] + 1e-8 * abs(values[1]) <= more + 2e-8 * abs(more) and values[0] < more

    def test_a_larger_tail_allows_more(self, name):
        P, scale = polytope(10, 40, 5, 1.0)
        tails = [0.02, 0.1, 0.3, 0.7, 1.0]
        found = []
        for tail in tails:
            solve, value = solved(name, Polytope(P.rows, P.caps / tail), scale)
            found.append(value(solve()[0]))
        assert np.all(np.diff(found) <= 1e-8 * np.abs(found[:-1])) and found[-1] < found[0]

    def test_units_of_the_weights_do_not_matter(self, name):
        P, scale = polytope(11, 200, 8, 0.3, decades=0.0)
        units = 10.0 ** np.linspace(-3, 3, 8)
        one, value = solved(name, P, scale)
        two, other = solved(name, Polytope(P.rows * units, P.caps), scale * units)
        np.testing.assert_allclose(two()[0] * units, one()[0], rtol=1e-5, atol=1e-7)
        assert other(two()[0]) == pytest.approx(value(one()[0]), rel=1e-8)


class TestClosedForms:
    def test_one_row_spreads_like_norms_over_roots(self, rng):
        row, norms = 10.0 ** rng.uniform(-3, 3, 7), rng.random(7)
        a, _ = spread(Polytope(row[None]), norms)
        np.testing.assert_allclose(a, norms / np.sqrt(row) / (norms @ np.sqrt(row)), rtol=1e-12)
        assert cost_of(norms, a) == pytest.approx((norms @ np.sqrt(row)) ** 2)

    def test_one_row_is_widest_at_the_best_ratio(self, rng):
        row, gain = 10.0 ** rng.uniform(-3, 3, 7), rng.random(7)
        a, _ = widest(Polytope(row[None]), gain)
        assert np.flatnonzero(a).tolist() == [int(np.argmax(gain / row))] and row @ a == pytest.approx(1.0)

    @pytest.mark.parametrize("name", ["widest", "spread", "nearest"])
    def test_a_tail_of_one_is_the_mean_row(self, name, rng):
        P, scale = polytope(12, 25, 5, 1.0)
        caps = P.caps / P.caps.sum()
        mean = Polytope((caps @ P.rows)[None])
        one, value = solved(name, Polytope(P.rows, caps), scale)
        two, _ = solved(name, mean, scale)
        np.testing.assert_allclose(one()[0] * scale, two()[0] * scale, rtol=1e-5, atol=1e-6)
        assert value(one()[0]) == pytest.approx(value(two()[0]), rel=1e-9)

    @pytest.mark.parametrize("name", ["widest", "spread", "nearest"])
    def test_a_tail_of_nothing_is_the_rows(self, name, rng):
        P, scale = polytope(13, 25, 5)
        share = rng.dirichlet(np.ones(len(P.rows)))
        one, value = solved(name, Polytope(P.rows, share / (0.9 * share.min())), scale)
        two, _ = solved(name, P, scale)
        assert value(one()[0]) == pytest.approx(value(two()[0]), rel=1e-8)

    def test_bounds_of_each_weight_alone_are_all_taken(self, rng):
        scale = 10.0 ** rng.uniform(-3, 3, 5)
        P = Polytope(np.diag(scale))
        np.testing.assert_allclose(widest(P, 0.1 + rng.random(5))[0] * scale, 1.0, rtol=1e-9)
        np.testing.assert_allclose(spread(P, (0.1 + rng.random(5)) / np.sqrt(scale))[0] * scale, 1.0, rtol=1e-6)

    def test_nearest_is_the_free_minimum_where_that_is_allowed(self, rng):
        P, scale = polytope(14, 10, 4)
        H, _ = quadratic(rng, scale)
        inside = np.array([1.0, 0.1, 1e-2, 1e-3]) / scale
        inside *= 0.5 / P.height(inside)
        np.testing.assert_allclose(nearest(P, H, H @ inside)[0], inside, rtol=1e-4)
        np.testing.assert_allclose(nearest(P, H, -scale)[0] * scale, 0.0, atol=1e-6)

    def test_nearest_gives_nothing_to_what_only_does_harm(self):
        P = Polytope(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 2.0]]))
        a, _ = nearest(P, np.eye(3), np.array([3.0, -1.0, 0.2]))
        np.testing.assert_allclose(a, [1.0, 0.0, 0.2], rtol=1e-6)
        assert a[1] == 0

    def test_one_weight(self):
        P = Polytope(np.array([[2.0], [5.0]]))
        assert widest(P, np.array([3.0]))[0] == pytest.approx([0.2])
        assert spread(P, np.array([3.0]))[0] == pytest.approx([0.2])
        assert nearest(P, np.array([[1.0]]), np.array([3.0]))[0] == pytest.approx([0.2])
        assert nearest(P, np.array([[40.0]]), np.array([4.0]))[0] == pytest.approx([0.1])


class TestNothing:
    @pytest.mark.parametrize("tail", TAILS)
    @pytest.mark.parametrize("R", [15, 300])
    def test_a_norm_of_zero_is_a_weight_of_zero_as_if_there_were_no_such_channel(self, R, tail, rng):
        P, scale = polytope(15, R, 8, tail)
        norms = rng.random(8) / np.sqrt(scale)
        norms[[1, 4]] = 0.0
        a, _ = spread(P, norms)
        rest = np.flatnonzero(norms)
        assert not a[[1, 4]].any() and P.height(a) == pytest.approx(1.0, rel=1e-13)
        part, _ = spread(Polytope(P.rows[:, rest], P.caps), norms[rest])
        np.testing.assert_allclose(a[rest], part, rtol=1e-5)

    def test_a_channel_whose_row_has_no_other(self):
        P = Polytope(np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 2.0]]))
        np.testing.assert_allclose(spread(P, np.array([0.0, 1.0, 3.0]))[0], [0.0, 0.125, 0.375], rtol=1e-13)
        np.testing.assert_allclose(spread(P, np.array([4.0, 0.0, 0.0]))[0], [1.0, 0.0, 0.0])

    def test_no_norms_and_no_gains(self):
        P, _ = polytope(16, 200, 5, 0.3)
        a, rows = spread(P, np.zeros(5))
        assert not a.any() and rows.shape[1] == 5
        np.testing.assert_array_equal(widest(P, np.zeros(5))[0], centre(P))
        np.testing.assert_array_equal(widest(P, np.zeros(5), rows)[1], rows)

    @pytest.mark.parametrize("tail", [None, 0.2])
    def test_norms_of_very_different_size_are_told_apart(self, tail):
        P, scale = polytope(17, 100, 6, tail)
        norms = 10.0 ** np.arange(0.0, -12.0, -2.0) / np.sqrt(scale)
        a, _ = spread(P, norms)
        assert np.all(a > 0) and P.height(a) == pytest.approx(1.0, rel=1e-13)
        for other in border(P, scale[:6], 4):
            mixed = 0.9 * a + 0.1 * other
            assert cost_of(norms, a) <= cost_of(norms, mixed) * (1 + 1e-8)


def test_the_rule_for_norms_never_raises_the_sum_that_it_minimises(rng):
    """With norms a*sqrt(q) the old weights have the sum a'q: the new ones have no larger one."""
    P, scale = polytope(18, 300, 7, 0.25)
    a, energies = centre(P), rng.random(7) * scale
    for _ in range(30):
        norms = a * np.sqrt(energies)
        new, _ = spread(P, norms)
        assert cost_of(norms, new) <= a @ energies * (1 + 1e-9)
        a = new
    best, _ = widest(P, energies)
    assert a @ energies > 0.9 * (best @ energies)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("seed", range(4))
def test_the_lowest_of_several_lines_is_that_of_one_linear_program(seed, tail):
    P, scale = polytope(seed, 9, 4, tail, decades=1.0)
    rng = np.random.default_rng(seed + 50)
    values, slopes = rng.normal(size=5), rng.uniform(0, 1, (5, 4)) * scale
    a, shares, rows = lowest(P, values, slopes)
    assert P.height(a) <= 1 + 1e-8 and a.min() >= 0
    assert shares.min() >= 0 and shares.sum() == pytest.approx(1.0)
    top = np.max(values - slopes @ a)
    assert top == pytest.approx(shares @ (values - slopes @ a), abs=1e-8)  # only the highest lines have a share
    best, _, _ = room.widest(P, shares @ slopes)
    assert top == pytest.approx(shares @ values - (shares @ slopes) @ best, abs=1e-6)  # no a does better for their mean
    again, _, _ = lowest(P, values, slopes, rows)
    assert np.max(values - slopes @ again) == pytest.approx(top, abs=1e-9)


def test_the_lowest_line_is_the_same_in_other_units():
    P, scale = polytope(3, 9, 4, None, decades=1.0)
    rng = np.random.default_rng(0)
    values, slopes = rng.normal(size=5), rng.uniform(0, 1, (5, 4)) * scale
    a, _, _ = lowest(P, values, slopes)
    b, _, _ = lowest(P, 1e6 * values + 3e6, 1e6 * slopes)
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_a_program_that_is_not_solved_says_how_many_weights_it_had(monkeypatch):
    failed = type("Found", (), {"x": None, "message": "out of luck", "status": 4})()
    monkeypatch.setattr(room, "linprog", lambda *args, **options: failed)
    P, _ = polytope(0, 9, 4)
    with pytest.raises(ArithmeticError, match="over 4 weights was not solved: out of luck"):
        lowest(P, np.zeros(2), np.ones((2, 4)))
    capped, _ = polytope(0, 9, 4, 0.4)
    with pytest.raises(ArithmeticError, match="weights was not solved: out of luck"):
        room.widest(capped, np.ones(4))
