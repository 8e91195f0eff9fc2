"""Candidates from a grid instead of rows, for sites that cannot share rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tamis import EM2NOLCClassifier, EM2NOLCClassifierCV, Plan, Statistics
from tamis.statistics.profile import POOL, grid_pool

N = 4000


def rows(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    X["few"] = rng.integers(0, 4, n)
    X["site"] = rng.choice(["north", "south", "west"], n)
    score = np.sin(2 * X["a"]) + X["b"] ** 2 + (X["site"] == "west") - 1.2
    return X, (score + 0.3 * rng.normal(size=n) > 0).to_numpy().astype(int)


X, Y = rows()
T, TRUTH = rows(seed=9)


class TestGrid:
    def test_points_cover_ranges_values_and_levels_and_are_no_rows(self):
        plan = Plan.of(X, Y, candidates="grid")
        Z = plan.pool.Z
        for j in range(3):
            column = plan.encoder.columns[j]
            low, high = column.encode(np.array([column.low, column.high]))
            np.testing.assert_allclose(np.sort(Z[:, j]), np.linspace(low, high, POOL))
        assert sorted(set(plan.encoder.columns[3].decode(Z[:, 3]).round(9))) == [0, 1, 2, 3]
        assert set(Z[:, 4]) == {0.0, 1.0, 2.0}
        known = {tuple(row) for row in plan.encoder.encode(_table(X)).round(9)}
        assert not known & {tuple(row) for row in Z.round(9)}

    def test_is_the_same_for_the_same_seed(self):
        plan = Plan.of(X, Y, candidates="grid", random_state=1)
        again = grid_pool(plan.encoder, {3: np.arange(4)}, 2, 1)
        np.testing.assert_array_equal(plan.pool.Z, again.Z)
        assert not np.array_equal(grid_pool(plan.encoder, {3: np.arange(4)}, 2, 2).Z, again.Z)

    def test_models_are_about_as_good_as_with_rows(self):
        plain = EM2NOLCClassifier(12, 4, engine="statistics").fit(X, Y)
        grid = EM2NOLCClassifier(12, 4, candidates="grid").fit(X, Y)
        assert grid.score(T, TRUTH) > plain.score(T, TRUTH) - 0.01 > 0.8
        assert all(str(label).startswith("grid point ") for label in grid.instance_labels_)
        told = grid.explain(T[:50])
        np.testing.assert_allclose(told.decision[:, 0], grid.decision_function(T[:50]), atol=1e-9)

    def test_sites_add_up_without_rows(self):
        ranges = dict.fromkeys("abc", (-4.0, 4.0))
        plan = Plan.of(X[:500], Y[:500], ranges=ranges, candidates="grid", folds=3)
        sites = [Statistics(plan).update(X[k::3], Y[k::3]) for k in range(3)]
        one = EM2NOLCClassifierCV(8, 4, bandwidths=(1.0,)).fit_statistics(sum(sites))
        assert one.score(T, TRUTH) > 0.8
        assert all(str(label).startswith("grid point ") for label in one.instance_labels_)

    def test_every_way_in_takes_it(self):
        whole = EM2NOLCClassifier(6, 3, candidates="grid").fit(X, Y)
        blocks = EM2NOLCClassifier(6, 3, candidates="grid").fit([(X[:1500], Y[:1500]), (X[1500:], Y[1500:])])
        np.testing.assert_allclose(blocks.decision_function(T), whole.decision_function(T), atol=1e-9)
        assert blocks.instance_labels_.tolist() == whole.instance_labels_.tolist()

    @pytest.mark.parametrize("options", [{"engine": "dense"}, {"solver": "paper"}, {"bandwidth": "median"}], ids=str)
    def test_refuses_what_needs_rows(self, options):
        with pytest.raises(ValueError, match="grid"):
            EM2NOLCClassifier(candidates="grid", **options).fit(X, Y)

    def test_other_words_are_refused(self):
        with pytest.raises(ValueError, match="candidates='grids'"):
            EM2NOLCClassifier(candidates="grids").fit(X, Y)


def _table(frame):
    from tamis.table.table import read_table

    return read_table(frame, list(frame.columns), None, True)
