"""Sites that cannot share rows: candidates that are no rows, sums that may be given away."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tamis import EM2NOLCClassifier, EM2NOLCClassifierCV, Plan, Statistics
from tamis.statistics.block_sums import Block, outer_sums
from tamis.statistics.grid import POOL, grid_pool

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


PLAN = Plan.of(X, Y, folds=2, gaps="all")
SUMS = Statistics(PLAN).update(X, Y)


class TestRelease:
    def test_no_row_moves_the_sums_by_more_than_the_sensitivity(self):
        Z = PLAN.encoder.encode(_table(X))
        ends = np.where(np.random.default_rng(0).random(Z.shape) < 0.5, Z.min(axis=0), Z.max(axis=0))
        for rows in (Z[:200], ends[:200]):
            moved = []
            for k in range(len(rows)):
                one = Block(rows[[k]], Y[[k]], None, np.zeros(1, dtype=int))
                sums = outer_sums(PLAN.functions, lambda r, one=one: one, 1, n_classes=2, n_parts=1)
                moved.append(np.linalg.norm(sums[0]))
            assert max(moved) <= SUMS.sensitivity + 1e-9
        assert max(moved) > 0.5 * SUMS.sensitivity

    def test_noise_has_the_asked_size_and_leaves_gram_matrices(self):
        out = SUMS.released(noise=1.0, random_state=0)
        change = out.parts - SUMS.parts
        assert 0.5 < change.std() < 2.0
        assert np.linalg.eigvalsh(out.parts[0]).min() > -1e-8
        np.testing.assert_allclose(out.parts, out.parts.swapaxes(1, 2), atol=1e-9)
        assert EM2NOLCClassifier(10, 4).fit_statistics(out).score(T, TRUTH) > 0.8
        np.testing.assert_array_equal(out.count, SUMS.count)

    def test_seeds_repeat_it_and_none_does_not(self):
        one, two = (SUMS.released(noise=1.0, random_state=5).parts for _ in range(2))
        np.testing.assert_array_equal(one, two)
        assert not np.array_equal(SUMS.released(noise=1.0).parts, SUMS.released(noise=1.0).parts)

    def test_nothing_asked_nothing_changed(self):
        out = SUMS.released()
        np.testing.assert_array_equal(out.parts, SUMS.parts)
        assert out is not SUMS

    def test_few_rows_are_refused(self):
        SUMS.released(min_count=50)
        with pytest.raises(ValueError, match=r"min_count=2000: some cell of class 0 has fewer rows in fold 1"):
            SUMS.released(min_count=2000)
        few = X.copy()
        few.loc[:2, "site"] = "island"
        plan = Plan.of(few, Y, folds=1)
        with pytest.raises(ValueError, match="some cell of 'site' in class"):
            Statistics(plan).update(few, Y).released(min_count=5)

    def test_rows_are_counted_not_weights(self):
        rare = np.zeros(N, dtype=int)
        rare[:3] = 1
        plan = Plan.of(X, rare, folds=1, class_weight={1: 100.0})
        with pytest.raises(ValueError, match="min_count=20: some cell of class 1 has fewer rows"):
            Statistics(plan).update(X, rare).released(min_count=20)
        for weight in (np.full(N, 0.1), np.full(N, 1000.0), 0.5 + np.arange(N) % 2):  # the last have the mean one
            sums = SUMS + Statistics(PLAN).update(X, Y, weight)
            with pytest.raises(ValueError, match="min_count=20 counts rows, and these have sample weights"):
                sums.released(min_count=20)
        (Statistics(PLAN).update(X, Y, np.ones(N)) + Statistics(PLAN)).released(min_count=20)

    def test_that_rows_have_weights_is_kept_in_files(self, tmp_path):
        for weight in (None, np.full(N, 2.0)):
            Statistics(PLAN).update(X, Y, weight).save(tmp_path / "sums")
            assert Statistics.load(tmp_path / "sums").weighted == (weight is not None)
        old = {name: part for name, part in SUMS.to_stored().items() if name != "weighted"}
        assert Statistics.from_stored(old).weighted

    def test_few_rows_of_two_columns_are_refused(self):
        table = pd.DataFrame({"u": np.arange(N) % 2, "v": np.arange(N) % 2}).astype(str)
        sums = Statistics(Plan.of(table, Y, folds=1)).update(table, Y)
        sums.released(min_count=50)
        table.loc[1000, "u"] = "1"
        with pytest.raises(ValueError, match="some cell of 'u' with 'v' has fewer rows in fold 1"):
            Statistics(sums.plan).update(table, Y).released(min_count=50)

    @pytest.mark.parametrize("gappy", ["u", "v"])
    def test_few_missing_cells_beside_a_value_are_refused(self, gappy):
        table = pd.DataFrame({"u": np.arange(N) % 2, "v": np.arange(N) // 2 % 2}).astype(str).astype(object)
        table.loc[np.flatnonzero(table[{"u": "v", "v": "u"}[gappy]] == "0")[:400], gappy] = None
        labels = np.arange(N) // 4 % 2
        sums = Statistics(Plan.of(table, labels, folds=1)).update(table, labels)
        sums.released(min_count=50)
        table.loc[np.flatnonzero(table[{"u": "v", "v": "u"}[gappy]] == "1")[:3], gappy] = None
        with pytest.raises(ValueError, match=r"'[uv]' with '[uv]' has fewer rows"):
            Statistics(sums.plan).update(table, labels).released(min_count=50)

    def test_few_rows_of_a_panel_are_refused(self):
        one = X[["a"]]
        plan = Plan.of(one, Y, folds=1, bandwidth=0.02)
        assert plan.functions.bases[0].panels > 1
        sums = Statistics(plan).update(one, Y)
        places = plan.functions.positions[0][:: plan.functions.bases[0].degrees]
        told = sums.parts[0][np.ix_(places, plan.functions.size + np.arange(2))]
        np.testing.assert_allclose(told.sum(axis=0), np.bincount(Y))
        least = int(told[told > 0.5].min().round())
        sums.released(min_count=least)
        with pytest.raises(ValueError, match="some cell of 'a' in class"):
            sums.released(min_count=least + 1)

    def test_few_missing_cells_are_refused_and_the_bar_itself_is_not(self):
        gappy = X[["a", "b"]].copy()
        gappy.loc[np.flatnonzero(Y == 1)[:4], "a"] = np.nan
        plan = Plan.of(gappy, Y, folds=1)
        sums = Statistics(plan).update(gappy, Y)
        with pytest.raises(ValueError, match="some cell of 'a' in class 1"):
            sums.released(min_count=5)
        sums.released(min_count=4)

    def test_sensitivity_knows_class_weights_and_panels(self):
        plan = Plan.of(X[["a", "b"]], Y, folds=1, bandwidth=0.05, class_weight={1: 9.0})
        assert any(basis.panels > 1 for basis in plan.functions.bases)
        Z = plan.encoder.encode(_table(X[["a", "b"]]))
        ends = np.where(np.random.default_rng(0).random((200, 2)) < 0.5, Z.min(axis=0), Z.max(axis=0))
        moved = []
        for k in range(200):
            one = Block(ends[[k]], np.array([1]), np.array([9.0]), np.zeros(1, dtype=int))
            moved.append(np.linalg.norm(outer_sums(plan.functions, lambda r, one=one: one, 1, n_classes=2, n_parts=1)))
        bound = Statistics(plan).sensitivity
        assert 0.7 * bound < max(moved) <= bound + 1e-9

    def test_a_frame_in_memory_keeps_the_names_of_points(self):
        clf = EM2NOLCClassifier(4, 3, candidates="grid").fit(X[:300], Y[:300])
        assert all(str(label).startswith("grid point ") for label in clf.instance_labels_)

    @pytest.mark.parametrize("options", [{"noise": -1.0}, {"min_count": -1}, {"min_count": 2.5}], ids=str)
    def test_bad_options_are_refused(self, options):
        with pytest.raises(ValueError, match=f"{next(iter(options))}="):
            SUMS.released(**options)
