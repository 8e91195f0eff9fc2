"""The monoid of sums: any cutting, order and grouping of rows gives the same sums and the same model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis import EM2NOLCClassifier, EM2NOLCClassifierCV, Gaussian, Plan, Statistics
from tamis.codec import digest
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.stacks.chebyshev import Chebyshev, Levels
from tamis.statistics.sums import ColumnFunctions, EncodedBlock, PairFunctions, outer_sums
from tamis.table.folds import key_folds
from tamis.table.keys import lowest, lowest_distinct, row_keys, sampling_keys
from tamis.table.table import read_table

N = 600


def frame(n=N, seed=0):
    """Numbers with and without gaps, few values, categories."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    X.loc[rng.random(n) < 0.2, "b"] = np.nan
    X["few"] = rng.integers(0, 4, n)
    X["site"] = rng.choice(["north", "south", "west"], n)
    score = np.sin(2 * X["a"]) + X["b"].fillna(0) ** 2 + (X["site"] == "west") - 1.3
    return X, np.where(score + 0.3 * rng.normal(size=n) > 0, "yes", "no")


X, Y = frame()
W = np.random.default_rng(1).integers(1, 4, N)
PLAN = Plan.of(X, Y, folds=3)
WHOLE = Statistics(PLAN).update(X, Y, W)


def close(one: Statistics, other: Statistics) -> bool:
    scale = np.abs(other.parts).max(axis=(1, 2), keepdims=True)
    return bool(np.all(np.abs(one.parts - other.parts) <= 1e-12 * scale) and np.array_equal(one.count, other.count))


class TestMonoid:
    @settings(max_examples=15, deadline=None)
    @given(cuts=st.lists(st.integers(1, N - 1), max_size=6, unique=True), seed=st.integers(0, 99), data=st.data())
    def test_any_cutting_order_and_grouping_gives_the_same_sums(self, cuts, seed, data):
        rows = np.random.default_rng(seed).permutation(N)
        pieces = [Statistics(PLAN).update(X.iloc[r], Y[r], W[r]) for r in np.split(rows, sorted(cuts))]
        while len(pieces) > 1:
            k = data.draw(st.integers(0, len(pieces) - 2))
            pieces[k : k + 2] = [pieces[k] + pieces[k + 1]]
        assert close(pieces[0], WHOLE)
        assert pieces[0].outside == WHOLE.outside

    def test_addition_commutes_and_has_a_zero(self):
        one, two = Statistics(PLAN).update(X[:200], Y[:200]), Statistics(PLAN).update(X[200:], Y[200:])
        np.testing.assert_array_equal((one + two).parts, (two + one).parts)
        np.testing.assert_array_equal((one + Statistics(PLAN)).parts, one.parts)
        assert close(sum([one, two]), one + two)
        assert one.n_rows == 200  # adding leaves the parts alone

    def test_weights_are_repetitions_that_are_dealt_over_the_folds(self):
        rows = np.repeat(np.arange(N), W)
        repeated = Statistics(PLAN).update(X.iloc[rows], Y[rows])
        wanted = WHOLE.parts.sum(axis=0)
        np.testing.assert_allclose(repeated.parts.sum(axis=0), wanted, rtol=0, atol=1e-12 * wanted.max())

    @pytest.mark.parametrize("chunk", [64, 100, 599])
    def test_the_size_of_chunks_does_not_matter(self, chunk, monkeypatch):
        monkeypatch.setattr("tamis.statistics.sums.CHUNK_ROWS", chunk)
        assert close(Statistics(PLAN).update(X, Y, W), WHOLE)

    @pytest.mark.parametrize("cores", [1, 3])
    def test_the_number_of_threads_does_not_matter_at_all(self, cores, monkeypatch):
        monkeypatch.setattr("tamis.statistics.sums.CHUNK_ROWS", 50)
        once = Statistics(PLAN).update(X, Y, W)
        monkeypatch.setattr("tamis.parallel.available_cores", lambda: cores)
        np.testing.assert_array_equal(Statistics(PLAN).update(X, Y, W).parts, once.parts)

    def test_labels_of_groups_may_come_in_any_form(self):
        groups = np.arange(N) // 10
        one, *others = (Statistics(PLAN).update(X, Y, groups=g) for g in (groups, groups.tolist(), groups.astype("i4")))
        for other in others:
            np.testing.assert_array_equal(other.count, one.count)

    def test_the_fitted_model_is_the_same(self):
        rows = np.random.default_rng(0).permutation(N)
        pieces = [Statistics(PLAN).update(X.iloc[r], Y[r], W[r]) for r in np.array_split(rows, 7)]
        one = EM2NOLCClassifier(6, 3).fit_statistics(WHOLE)
        two = EM2NOLCClassifier(6, 3).fit_statistics(sum(pieces))
        np.testing.assert_array_equal(one.instances_, two.instances_)
        np.testing.assert_array_equal(one.features_, two.features_)
        np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-8)

    def test_folds_add_up_to_the_whole(self):
        once = Statistics(Plan.of(X, Y, folds=1)).update(X, Y, W)
        np.testing.assert_allclose(WHOLE.parts.sum(axis=0), once.parts[0], rtol=0, atol=1e-12 * once.parts.max())

    def test_groups_share_a_fold(self):
        groups = np.arange(N) // 10
        stats = Statistics(PLAN).update(X, Y, groups=groups)
        assert all(count % 10 == 0 for count in stats.count)
        assert np.count_nonzero(stats.count) > 1

    def test_scale_of_weights_does_not_matter(self):
        one = EM2NOLCClassifier(6, 3).fit_statistics(Statistics(PLAN).update(X, Y, 1e-3 * W))
        two = EM2NOLCClassifier(6, 3).fit_statistics(WHOLE)
        np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-8)
        assert one.objective_ == pytest.approx(two.objective_)


class TestSums:
    """The sums are what they say, function by function."""

    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_sums_of_outer_products(self, rng, dtype):
        bases = (
            Chebyshev(-2.0, 2.0, 7),
            Levels((0.0, 1.0), False),
            Chebyshev(-1.0, 3.0, 5),
            Chebyshev(-2.0, 2.0, 4, 3),
        )
        functions = ColumnFunctions(bases, (False, False, True, False))
        Z = np.column_stack([rng.normal(size=90), rng.integers(0, 2, 90), rng.normal(size=90), rng.normal(size=90)])
        Z[::7, 2] = np.nan
        codes, weight, part = rng.integers(0, 3, 90), rng.random(90), rng.integers(0, 2, 90)
        rows = [np.ones((1, 90)), *(b.features(Z[:, j]) for j, b in enumerate(bases)), codes == np.arange(3)[:, None]]
        sums = outer_sums(
            functions,
            lambda s: EncodedBlock(Z[s], codes[s], weight[s], part[s]),
            90,
            n_classes=3,
            n_folds=2,
            dtype=dtype,
        )
        places = [[0], *functions.positions, functions.size + np.arange(3)]
        for k in range(2):
            for a, at in zip(rows, places, strict=True):
                for b, to in zip(rows, places, strict=True):
                    wanted = (a * weight * (part == k)) @ np.asarray(b, dtype=float).T
                    tol = 1e-12 if dtype == "float64" else 2e-5
                    np.testing.assert_allclose(sums[k][np.ix_(at, to)], wanted, atol=tol)

    def test_constant_function_serves_columns_without_gaps(self):
        functions = ColumnFunctions((Chebyshev(0.0, 1.0, 6), Chebyshev(0.0, 1.0, 9)), (False, True))
        assert functions.size == 1 + 5 + 9
        assert functions.positions[0][0] == 0
        assert functions.positions[1][0] != 0
        taken = np.concatenate(functions.positions)
        assert sorted(taken.tolist()) == list(range(functions.size))

    def test_exact_pairs(self, rng):
        Z = rng.normal(size=(30, 2))
        bank = KernelBank((Channel("a", Gaussian(0.7), (0,)), Channel("b", Gaussian(2.0), (1,))))
        functions = PairFunctions(bank, Z[:4])
        out = np.empty((functions.size, 30))
        functions.fill(Z.T, out)
        for places, channel in zip(functions.positions, bank.channels, strict=True):
            np.testing.assert_allclose(out[places], channel(Z[:4], Z))


class TestKeys:
    def table(self, values):
        return read_table(values, [f"x{j}" for j in range(values.shape[1])], None, True)

    def test_keys_depend_on_values_and_seed_alone(self, rng):
        A = rng.normal(size=(50, 3))
        A[3, 1] = np.nan
        keys = row_keys(self.table(A), 0)
        order = rng.permutation(50)
        np.testing.assert_array_equal(row_keys(self.table(A[order]), 0), keys[order])
        assert not np.any(keys == row_keys(self.table(A), 1))
        A32 = A.astype(np.float32)
        np.testing.assert_array_equal(row_keys(self.table(A32), 0), row_keys(self.table(A32.astype(float)), 0))

    def test_distinct_rows_have_distinct_keys(self):
        flags = np.array([[float(b) for b in f"{k:012b}"] for k in range(4096)])
        assert len(np.unique(row_keys(self.table(flags), 0))) == 4096

    def test_rows_of_zeros_are_nothing_special(self):
        keys = {int(row_keys(self.table(np.zeros((1, 3))), seed)[0]) for seed in range(5)}
        assert len(keys) == 5

    def test_zero_has_no_sign(self):
        keys = row_keys(self.table(np.array([[0.0, 1.0], [-0.0, 1.0]])), 0)
        assert keys[0] == keys[1]

    def test_folds_are_even_and_independent_of_the_order_of_keys(self, rng):
        keys = row_keys(self.table(rng.normal(size=(20000, 2))), 0)
        assert np.abs(np.bincount(key_folds(keys, 5)) / 20000 - 0.2).max() < 0.02
        low = key_folds(keys[lowest(keys, 2000)], 5)
        assert np.abs(np.bincount(low) / 2000 - 0.2).max() < 0.05

    def test_samples_are_samples_of_rows(self, rng):
        A = rng.normal(size=(20000, 2))
        A[rng.random(20000) < 0.3] = 0.0
        for seed in range(4):
            table = self.table(A)
            keys = sampling_keys(row_keys(table, seed))
            some = A[lowest(keys, 3000)]
            assert abs(np.mean(some[:, 0] == 0) - 0.3) < 0.04
            assert len(np.unique(keys)) == 20000

    def test_samples_do_not_depend_on_the_order_of_rows(self, rng):
        A = rng.integers(0, 3, size=(500, 2)).astype(float)
        codes, order = rng.integers(0, 2, 500), rng.permutation(500)
        one = sampling_keys(row_keys(self.table(A), 0), [codes])
        two = sampling_keys(row_keys(self.table(A[order]), 0), [codes[order]])
        np.testing.assert_array_equal(np.sort(one), np.sort(two))
        pick = lambda B, c, k: sorted(zip(B[lowest(k, 50)].tolist(), c[lowest(k, 50)].tolist()))  # noqa: E731
        assert pick(A, codes, one) == pick(A[order], codes[order], two)

    def test_lowest_distinct_skips_copies(self):
        keys = np.array([5, 1, 1, 1, 1, 1, 1, 1, 9, 3], dtype=np.uint64)
        assert sorted(keys[lowest_distinct(keys, 2)].tolist()) == [1, 3]
        np.testing.assert_array_equal(lowest_distinct(keys, 99), [0, 1, 8, 9])


class TestOddColumns:
    def test_a_category_that_is_always_missing(self):
        odd = X.assign(site=pd.Series([None] * N, dtype=object), b=np.nan, c=3.0)
        clf = EM2NOLCClassifier(4, 2, engine="statistics", categorical_features=["site"]).fit(odd, Y)
        assert set(clf.features_) <= {0, 3}

    def test_gaps_in_columns_with_few_values_need_no_announcement(self):
        gaps = X.assign(few=X["few"].where(X["few"] > 0))
        assert Statistics(PLAN).update(gaps, Y).n_rows == N


class TestPlan:
    def test_the_user_may_give_categories_and_candidates(self):
        plan = Plan.of(X[:50], Y[:50], categories={"site": ["east", "north"]}, candidates=(X[100:120], Y[100:120]))
        assert plan.encoder.columns[4].levels == ("east", "north", "south", "west")
        assert len(plan.pool) == 20
        assert plan.pool_labels.tolist() == list(range(100, 120))
        stats = Statistics(plan).update(X.assign(site="east"), Y)
        assert "site" not in stats.outside
        clf = EM2NOLCClassifier(4, 2).fit_statistics(
            Statistics(Plan.of(X, Y, candidates=(X[:20], Y[:20]))).update(X, Y)
        )
        assert set(clf.instance_labels_) <= set(range(20))

    def test_nearly_constant_columns_are_not_winsorised_to_nothing(self):
        rng = np.random.default_rng(0)
        A = np.c_[np.where(rng.random(20000) < 0.0008, rng.normal(size=20000) + 9, 0), rng.normal(size=20000)]
        column = Plan.of(A, rng.integers(0, 2, 20000)).encoder.columns[0]
        assert column.high > 8

    def test_rows_of_weight_zero_do_not_exist(self):
        w = np.r_[np.ones(300), np.zeros(300)]
        one = Plan.of(X, Y, sample_weight=w)
        assert one.pool.position.max() < 300
        assert digest(one) == digest(Plan.of(X[:300], Y[:300]))
        far = X.assign(a=np.where(w > 0, X["a"], 99.0))
        stats = Statistics(one).update(far, Y, w)
        assert stats.outside == Statistics(one).update(X[:300], Y[:300]).outside
        assert stats.n_rows == 300

    def test_names_are_names_whatever_they_are(self):
        D = pd.DataFrame(X[["a", "c"]].to_numpy(), columns=["x0", "x1"])
        plan = Plan.of(D, Y)
        with pytest.raises(ValueError, match="where the plan has others"):
            Statistics(plan).update(D[["x1", "x0"]], Y)
        clf = EM2NOLCClassifier(3, 2).fit_statistics(Statistics(plan).update(D, Y))
        assert clf.feature_names_in_.tolist() == ["x0", "x1"]
        numbered = D.rename(columns={"x0": 0, "x1": 1})
        clf = EM2NOLCClassifier(3, 2).fit_statistics(Statistics(Plan.of(numbered, Y)).update(numbered, Y))
        clf.predict(numbered)

    def test_far_too_narrow_kernels_are_refused_quickly(self):
        for scale in (1e7, 1e300):
            A = np.random.default_rng(0).normal(size=(200, 2)) * scale
            with pytest.raises(ValueError, match=r"too narrow for its range|more than a gibibyte"):
                Plan.of(A, np.arange(200) % 2, scaling=None)

    def test_columns_with_few_values_are_exact(self):
        basis = PLAN.functions.bases[3]
        assert isinstance(basis, Levels)
        assert basis.size == 4

    def test_rare_values_are_not_winsorised_away(self):
        A = np.c_[np.zeros(5000), np.random.default_rng(0).normal(size=5000)]
        A[7, 0] = 1.0
        plan = Plan.of(A, np.arange(5000) % 2)
        assert plan.functions.bases[0].size == 2
        assert plan.encoder.columns[0].high == 1.0

    def test_numbers_are_winsorised(self):
        A = np.random.default_rng(0).normal(size=(10000, 1))
        A[0] = 1e6
        column = Plan.of(A, np.arange(10000) % 2).encoder.columns[0]
        assert 2.8 < column.high < 3.6
        assert 0.9 < column.scale < 1.1
        assert Plan.of(A, np.arange(10000) % 2, winsorise=0).encoder.columns[0].high == 1e6

    def test_degrees_follow_the_narrowest_bandwidth(self):
        A = np.random.default_rng(0).normal(size=(5000, 1))
        y = np.arange(5000) % 2
        one, two = (Plan.of(A, y, bandwidth=b).functions.bases[0] for b in (1.0, [3.0, 0.5]))
        width = one.high - one.low
        assert one.degrees == int(np.ceil(8 + 1.6 * width))
        assert two.degrees == int(np.ceil(8 + 1.6 * width / 0.5))

    def test_the_user_may_fix_ranges_and_degrees(self):
        plan = Plan.of(X, Y, ranges={np.int64(0): (-5.0, 6.0)}, degrees={"c": 30}, bandwidth=1.0)
        assert (plan.encoder.columns[0].low, plan.encoder.columns[0].high) == (-5.0, 6.0)
        assert plan.functions.bases[2].size == 30

    def test_pool_is_stratified_distinct_and_independent_of_order(self):
        A = np.random.default_rng(0).normal(size=(3000, 2)).round(1)
        y = (np.arange(3000) % 10 == 0).astype(int)
        plan = Plan.of(A, y, candidates=100)
        assert np.bincount(plan.pool.codes).tolist() == [90, 10]
        rows = np.random.default_rng(1).permutation(3000)
        other = Plan.of(A[rows], y[rows], candidates=100)
        key = lambda p: sorted(map(tuple, np.round(p.pool.Z, 9)))  # noqa: E731
        assert key(plan) == key(other)

    def test_zero_inflated_tables(self):
        rng = np.random.default_rng(0)
        A = np.abs(rng.normal(size=(60000, 3))) + 1
        A[rng.random(60000) < 0.3] = 0.0
        columns = Plan.of(A, rng.integers(0, 2, 60000)).encoder.columns
        for j, column in enumerate(columns):
            assert column.low == 0
            assert column.high > 3.5
            assert column.centre == pytest.approx(A[:, j].mean(), abs=0.05)

    def test_digest_tells_plans_apart(self):
        assert digest(PLAN) == digest(Plan.of(X, Y, folds=3))
        assert len({digest(p) for p in (PLAN, Plan.of(X, Y, folds=4), Plan.of(X, Y, folds=3, bandwidth=0.5))}) == 3


class TestFile:
    def test_save_and_load(self, tmp_path):
        WHOLE.save(tmp_path / "stats.npz")
        again = Statistics.load(tmp_path / "stats.npz")
        assert close(again, WHOLE)
        assert again.outside == WHOLE.outside
        assert close(again + WHOLE, WHOLE + WHOLE)
        one, two = (EM2NOLCClassifier(5, 3).fit_statistics(s) for s in (WHOLE, again))
        np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))
        assert [p.name for p in tmp_path.iterdir()] == ["stats.npz"]

    @pytest.mark.parametrize("labels", [[0, 1], [False, True], ["a", "b"], [1.0, 2.0]])
    def test_labels_of_any_type_survive(self, labels, tmp_path):
        y = np.array(labels)[(Y == "yes").astype(int)]
        Statistics(Plan.of(X, y, scaling="rank")).update(X, y).save(tmp_path / "s")
        clf = EM2NOLCClassifier(4, 2).fit_statistics(Statistics.load(tmp_path / "s"))
        assert clf.predict(X).dtype == y.dtype

    def test_a_failed_save_leaves_the_old_file(self, tmp_path, monkeypatch):
        WHOLE.save(tmp_path / "s")
        before = (tmp_path / "s").read_bytes()
        full = lambda *a, **k: (_ for _ in ()).throw(OSError("disk full"))  # noqa: E731
        monkeypatch.setattr("zipfile.ZipFile.writestr", full)
        with pytest.raises(OSError, match="disk full"):
            WHOLE.save(tmp_path / "s")
        assert (tmp_path / "s").read_bytes() == before
        assert len(list(tmp_path.iterdir())) == 1

    def test_labels_that_would_change_are_refused(self, tmp_path):
        odd = X.assign(site=pd.cut(X["a"], 3))
        stats = Statistics(Plan.of(odd, Y)).update(odd, Y)
        with pytest.raises(ValueError, match="is of the type Interval, which a file cannot hold"):
            stats.save(tmp_path / "s")
        assert not list(tmp_path.iterdir())
        assert (stats + Statistics(Plan.of(odd, Y))).n_rows == N

    def test_groups_survive(self, tmp_path):
        Statistics(PLAN).update(X, Y, groups=np.arange(N)).save(tmp_path / "s")
        assert Statistics.load(tmp_path / "s").grouped is True
        Statistics(PLAN).save(tmp_path / "s")
        assert Statistics.load(tmp_path / "s").grouped is None

    def test_a_sum_of_one_is_a_copy(self):
        part = Statistics(PLAN).update(X[:50], Y[:50])
        sum([part]).update(X[50:], Y[50:])
        assert part.n_rows == 50

    def test_damaged_files_are_refused(self, tmp_path):
        (tmp_path / "text").write_text("hello")
        np.savez(tmp_path / "other.npz", a=np.ones(3))
        WHOLE.save(tmp_path / "half")
        (tmp_path / "half").write_bytes((tmp_path / "half").read_bytes()[:-2000])
        for name in ("text", "other.npz", "half"):
            with pytest.raises(ValueError, match="not a tamis statistics file, or it is truncated or damaged"):
                Statistics.load(tmp_path / name)
        with pytest.raises(FileNotFoundError):
            Statistics.load(tmp_path / "nothing")


class TestBadInput:
    def refused(self, match, function):
        with pytest.raises(ValueError, match=match):
            function()

    def test_blocks(self):
        stats = Statistics(PLAN)
        self.refused("X has 4 columns, but the plan has 5", lambda: stats.update(X.iloc[:, :4], Y))
        self.refused("column 'z' where the plan has others", lambda: stats.update(X.rename(columns={"a": "z"}), Y))
        self.refused("y holds 'maybe'.*\\['no', 'yes'\\]", lambda: stats.update(X, np.r_[Y[1:], ["maybe"]]))
        self.refused("y has length 5", lambda: stats.update(X, Y[:5]))
        self.refused("sample_weight has shape", lambda: stats.update(X, Y, W[:5]))
        self.refused("sample_weight holds negative", lambda: stats.update(X, Y, -W))
        self.refused("groups has length", lambda: stats.update(X, Y, groups=[1, 2]))
        self.refused("contains infinity in column 'a'", lambda: stats.update(X.assign(a=np.inf), Y))
        self.refused("mixes numbers and text|text", lambda: stats.update(X.assign(a="x"), Y))
        assert stats.n_rows == 0
        assert not stats.parts.any()

    def test_gaps_that_the_plan_did_not_expect(self):
        gaps = X.assign(a=np.where(X["a"] > 1, np.nan, X["a"]))
        self.refused(
            "'a' has missing cells, but the plan saw none.*gaps='all'", lambda: Statistics(PLAN).update(gaps, Y)
        )
        assert Statistics(Plan.of(X, Y, gaps="all")).update(gaps, Y).n_rows == N

    def test_statistics_that_cannot_be_fitted(self):
        self.refused("statistics are empty", lambda: EM2NOLCClassifier().fit_statistics(Statistics(PLAN)))
        one = Statistics(PLAN).update(X[Y == "yes"], Y[Y == "yes"])
        self.refused("no row of class 'no'", lambda: EM2NOLCClassifier().fit_statistics(one))
        self.refused("not a Statistics object", lambda: EM2NOLCClassifier().fit_statistics(X))
        self.refused("is not a Plan", lambda: Statistics(X))

    def test_groups_for_some_rows_only(self):
        stats = Statistics(PLAN).update(X, Y, groups=np.arange(N))
        self.refused("groups must be given for all rows or for none", lambda: stats.update(X, Y))
        self.refused("with and without groups do not add up", lambda: stats + WHOLE)
        assert (stats + Statistics(PLAN)).grouped

    def test_statistics_of_different_plans(self):
        self.refused("different plans do not add up", lambda: WHOLE + Statistics(Plan.of(X, Y, folds=4)))
        with pytest.raises(TypeError):
            WHOLE + 3

    def test_bandwidths_that_the_plan_does_not_resolve(self):
        clf = EM2NOLCClassifier(bandwidth=0.2)
        self.refused(r"\(bandwidth=0.2\) is too narrow for the .* polynomials", lambda: clf.fit_statistics(WHOLE))
        few = Statistics(Plan.of(X, Y, degrees=12)).update(X, Y)
        self.refused("too narrow for the 12 polynomials", lambda: EM2NOLCClassifier().fit_statistics(few))

    def test_what_needs_rows_is_refused_without_them(self):
        clf = EM2NOLCClassifier(4, 2).fit_statistics(WHOLE)
        assert not hasattr(clf, "predict_proba")
        with pytest.raises(AttributeError) as caught:
            clf.predict_proba(X)
        assert "statistics alone" in str(caught.value.__cause__)
        self.refused("refit='logistic' needs rows", lambda: EM2NOLCClassifier(refit="logistic").fit_statistics(WHOLE))
        for scoring in ("accuracy", "roc_auc", "log_loss"):
            cv = EM2NOLCClassifierCV(scoring=scoring)
            self.refused(f"scoring='{scoring}' is judged on rows", lambda cv=cv: cv.fit_statistics(WHOLE))
        self.refused("needs rows", lambda: EM2NOLCClassifierCV(refits=("logistic",)).fit_statistics(WHOLE))
        one = Statistics(Plan.of(X, Y, folds=1)).update(X, Y)
        self.refused("no fold can be made", lambda: EM2NOLCClassifierCV(bandwidths=(1.0,)).fit_statistics(one))

    def test_parameters_of_a_plan(self):
        for match, options in (
            ("winsorise=0.5 must be below 0.5", {"winsorise": 0.5}),
            ("folds=0", {"folds": 0}),
            ("gaps='some' is unknown", {"gaps": "some"}),
            ("dtype='half' is unknown", {"dtype": "half"}),
            ("candidates=0", {"candidates": 0}),
            ("ranges names the column 'z'", {"ranges": {"z": (0, 1)}}),
            ("degrees=1", {"degrees": 1}),
            (r"ranges\['a'\]=\(5, -5\) must be two finite numbers", {"ranges": {"a": (5, -5)}}),
            (r"ranges\['a'\]=\(nan, 5\) must be", {"ranges": {"a": (np.nan, 5)}}),
            ("ranges names 'site', which is a category", {"ranges": {"site": (0, 1)}}),
            ("groups has length 2", {"groups": [1, 2]}),
            (r"ranges\['a'\]=3 must be two finite numbers", {"ranges": {"a": 3}}),
            (r"ranges\['a'\]=\('x', 'y'\) must be", {"ranges": {"a": ("x", "y")}}),
            ("has no value of X inside", {"ranges": {"a": (100, 200)}}),
            ("bandwidth='foo' is unknown", {"bandwidth": "foo"}),
            ("bandwidth=0 must be a finite number above 0", {"bandwidth": 0}),
            ("bandwidth has shape", {"bandwidth": np.ones(2)}),
            ("is empty: give the bandwidths", {"bandwidth": []}),
            ("categories names 'a', which is not a category", {"categories": {"a": ["x"]}}),
            ("candidates have 2 columns", {"candidates": (X[["a", "b"]], Y)}),
            ("y holds 'no', which is not among classes", {"classes": ["yes", "maybe"]}),
            ("stands on 3", {"kernels": [("g", Gaussian(), ["a", "b", "c"])]}),
        ):
            self.refused(match, lambda options=options: Plan.of(X, Y, **options))
        self.refused("one class only", lambda: Plan.of(X, ["a"] * N))

    def test_values_beyond_the_plan_are_clipped_counted_and_reported(self):
        plan = Plan.of(X[:100], Y[:100])
        more = X.assign(a=X["a"] * 5, site="east", few=X["few"] + 0.5)
        stats = Statistics(plan).update(more, Y)
        low, high = plan.encoder.columns[0].low, plan.encoder.columns[0].high
        assert stats.outside["a"] == int(((more["a"] < low) | (more["a"] > high)).sum())
        assert stats.outside["site"] == N
        assert stats.outside["few"] == N  # all lie between the levels or beyond the last
        with pytest.warns(UserWarning, match=r"beyond the plan's ranges.*'a' \(\d+\.\d%\)"):
            clf = EM2NOLCClassifier(4, 2).fit_statistics(stats)
        assert clf.outside_ == stats.outside
        clipped = Statistics(plan).update(more.assign(a=more["a"].clip(low, high)), Y)
        np.testing.assert_allclose(clipped.parts.sum(axis=0), stats.parts.sum(axis=0), atol=1e-9)
