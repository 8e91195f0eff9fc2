"""Many rows, with what counts as many made small: one model for every source, from all rows."""

import importlib.util
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import KFold

from tamis import TamisClassifier, TamisRegressor, io
from tamis.flagship import all_rows, estimator, sample
from tamis.flagship.cells import Curve
from tamis.flagship.design import resolution
from tamis.flagship.reading import Reading

N, SMALL = 4000, {"max_features": 4, "max_pairs": 2, "max_instances": 3, "random_state": 1}


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr("tamis.flagship.estimator.MANY", 1000)
    monkeypatch.setattr("tamis.flagship.estimator.SAMPLE_ROWS", 2000)


def made(n=N, seed=0, d=7):
    """A sine, a step, a product, a category; and columns of noise."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, d)), columns=[f"x{j}" for j in range(d)])
    X["kind"] = rng.choice(["a", "b", "c"], n)
    score = 2.0 * np.sin(2 * X["x0"]) + 1.5 * (X["x1"] > 0.3) + 1.5 * X["x2"] * X["x1"] - 1.5 * (X["kind"] == "c")
    return X, score.to_numpy(), rng


@pytest.fixture(scope="module")
def table():
    X, score, rng = made()
    X.loc[::11, "x0"] = np.nan
    X.loc[::17, "kind"] = None
    return X, np.where(rng.random(N) < expit(score), "yes", "no")


@pytest.fixture
def whole(table):
    return TamisClassifier(**SMALL).fit(*table)


def same(one, other, X, atol=1e-8):
    assert one.features_.tolist() == other.features_.tolist() and one.pairs_ == other.pairs_
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=atol)


class TestSources:
    def test_give_the_same_model(self, table, whole, tmp_path):
        X, y = table
        frame = X.assign(answer=y)
        frame.to_parquet(tmp_path / "one.parquet", row_group_size=900)
        (tmp_path / "folder").mkdir()
        frame[:1500].to_parquet(tmp_path / "folder" / "a.parquet")
        frame[1500:].to_parquet(tmp_path / "folder" / "b.parquet")
        blocks = [(X[k : k + 700], y[k : k + 700]) for k in range(0, N, 700)]
        for given in (
            (tmp_path / "one.parquet", "answer"),
            (tmp_path / "folder", "answer"),
            (blocks,),
            (lambda: iter(blocks),),
        ):
            found = TamisClassifier(**SMALL).fit(*given)
            same(found, whole, X)
            assert found.instances_.tolist() == whole.instances_.tolist() and found.n_rows_used_ == N
        same(TamisClassifier(**SMALL).fit({name: X[name].to_numpy() for name in X}, y), whole, X)
        assert whole.score(tmp_path / "one.parquet", "answer") == pytest.approx(whole.score(X, y))
        assert whole.instance_labels_.tolist() == X.index[whole.instances_].tolist()

    def test_of_numbers_give_the_same_model(self, table, tmp_path, monkeypatch):
        X, y = table[0].drop(columns="kind").to_numpy(), table[1]
        whole = TamisClassifier(**SMALL).fit(X, y)
        np.save(tmp_path / "rows.npy", X)
        monkeypatch.setattr("tamis.table.table.LARGE_BYTES", 100)
        monkeypatch.setattr("tamis.table.sources.source.BLOCK_CELLS", 7 * 600)
        same(TamisClassifier(**SMALL).fit(np.load(tmp_path / "rows.npy", mmap_mode="r"), y), whole, X)
        order = np.random.default_rng(1).permutation(N)
        other = TamisClassifier(**SMALL).fit(X[order], y[order])
        same(other, whole, X)
        assert sorted(order[other.instances_]) == sorted(whole.instances_)

    def test_in_dask_give_the_same_model(self, table, whole):
        dd = pytest.importorskip("dask.dataframe")
        da = pytest.importorskip("dask.array")
        X, y = table
        found = TamisClassifier(**SMALL).fit(dd.from_pandas(X.assign(answer=y), npartitions=5), "answer")
        same(found, whole, X)
        numbers = X.drop(columns="kind").to_numpy()
        lazy = TamisClassifier(**SMALL).fit(da.from_array(numbers, chunks=(900, 7)), da.from_array(y, chunks=900))
        same(lazy, TamisClassifier(**SMALL).fit(numbers, y), numbers)

    @pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="torch is not installed: pip install tamis[gpu]"
    )
    def test_on_a_device_give_the_same_model(self, table):
        import torch

        X, y = table[0].drop(columns="kind").to_numpy(), (table[1] == "yes").astype(int)
        found = TamisClassifier(**SMALL).fit(torch.from_numpy(X), torch.from_numpy(y))
        same(found, TamisClassifier(**SMALL).fit(X, y), X)

    def test_of_few_rows_give_the_model_of_a_table(self, table, tmp_path):
        X, y = table[0][:500], table[1][:500]
        X.assign(answer=y).to_parquet(tmp_path / "rows.parquet")
        whole = TamisClassifier(**SMALL).fit(X, y)
        for given in ((tmp_path / "rows.parquet", "answer"), (lambda: iter([(X[:200], y[:200]), (X[200:], y[200:])]),)):
            found = TamisClassifier(**SMALL).fit(*given)
            same(found, whole, X)
            assert found.n_splits_ == 5

    def test_that_can_be_read_once_are_read_once(self, table, whole, monkeypatch):
        X, y = table
        blocks = [(X[k : k + 500], y[k : k + 500]) for k in range(0, N, 500)]
        same(TamisClassifier(**SMALL).fit(iter(blocks)), whole, X)
        monkeypatch.setattr("tamis.table.sources.source.FIRST_ROWS", 2000)
        found = TamisClassifier(**SMALL).fit(iter(blocks))
        assert found.n_rows_used_ == N
        assert log_loss(y, found.predict_proba(X)) < 1.15 * log_loss(y, whole.predict_proba(X))

    def test_may_lack_a_category_in_a_block(self, table):
        X, y = table
        X = X.assign(kind=X["kind"].where(np.arange(N) >= 1000))
        blocks = [(X[k : k + 500], y[k : k + 500]) for k in range(0, N, 500)]
        same(TamisClassifier(**SMALL).fit(lambda: iter(blocks)), TamisClassifier(**SMALL).fit(X, y), X)
        same(TamisClassifier(**SMALL).fit(lambda: iter(blocks[::-1])), TamisClassifier(**SMALL).fit(X, y), X)

    def test_are_read_twice_and_the_second_time_the_kept_columns(self, table, tmp_path, monkeypatch):
        from tamis.table.sources.parquet import ParquetSource

        X, y = table
        X.assign(answer=y).to_parquet(tmp_path / "rows.parquet")
        read = []
        tables = ParquetSource.tables

        def listening(self, start=0):
            read.append(list(self.names))
            return tables(self, start)

        monkeypatch.setattr(ParquetSource, "tables", listening)
        found = TamisClassifier(**{**SMALL, "max_features": 2}).fit(tmp_path / "rows.parquet", "answer")
        assert len(read) == 2 and read[0] == list(X.columns) and len(read[1]) == 2
        assert set(found.feature_names_in_[found.features_]) <= set(read[1])


def hollow(n=6000):
    """Both columns raise the score, but not where both are near 0.8."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    score = 1.5 * X.sum(axis=1) - 8.0 * np.exp(-2.0 * ((X - 0.8) ** 2).sum(axis=1))
    return X, (rng.random(n) < expit(score)).astype(int)


class TestCases:
    def test_are_rows_of_the_input_whatever_it_is(self):
        X, y = hollow()
        options = {"max_pairs": 0, "max_instances": 5}
        frame = pd.DataFrame(X, columns=["a", "b"], index=[f"row {k}" for k in range(len(X))])
        whole = TamisClassifier(**options).fit(frame, y)
        assert 1 <= len(whole.instances_) <= 5
        assert whole.instance_labels_.tolist() == [f"row {k}" for k in whole.instances_]
        np.testing.assert_allclose(whole.model_.cases.rows, X[whole.instances_], rtol=1e-12)
        blocks = TamisClassifier(**options).fit(lambda: ((X[k : k + 999], y[k : k + 999]) for k in range(0, 6000, 999)))
        assert blocks.instances_.tolist() == blocks.instance_labels_.tolist() == whole.instances_.tolist()
        np.testing.assert_allclose(blocks.decision_function(X), whole.decision_function(frame), atol=1e-8)
        without = TamisClassifier(max_pairs=0, max_instances=0).fit(X, y)
        assert log_loss(y, whole.predict_proba(frame)) < log_loss(y, without.predict_proba(X)) - 0.002

    def test_of_dask_are_numbered_through_the_partitions(self):
        dd = pytest.importorskip("dask.dataframe")
        X, y = hollow()
        frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=y)
        found = TamisClassifier(max_pairs=0, max_instances=5).fit(dd.from_pandas(frame, npartitions=4), "y")
        assert len(found.instances_) and found.instance_labels_.tolist() == found.instances_.tolist()
        np.testing.assert_allclose(found.model_.cases.rows, X[found.instances_], rtol=1e-12)


class TestModel:
    def test_has_what_was_planted(self):
        X, score, rng = made(12_000)
        y = rng.random(len(X)) < expit(score)
        found = TamisClassifier(**SMALL).fit(X, y)
        assert set(X.columns[found.features_]) == {"x0", "x1", "x2", "kind"} and found.pairs_[0] == ("x1", "x2")
        X_test, score, rng = made(20_000, seed=1)
        y_test = rng.random(len(X_test)) < expit(score)
        best = np.mean((score > 0) == y_test)
        assert found.score(X_test, y_test) > best - 0.012
        assert log_loss(y_test, found.predict_proba(X_test)) < log_loss(y_test, expit(score)) + 0.02

    def test_proposes_no_pair_where_columns_act_alone(self, monkeypatch):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(6000, 6))
        y = (rng.random(6000) < expit(2.0 * np.sin(X[:, 0]) + X[:, 1])).astype(int)
        found = []
        choose = sample.choose_pairs
        monkeypatch.setattr(sample, "choose_pairs", lambda *given: found.append(choose(*given)) or found[-1])
        TamisClassifier().fit(X, y)
        assert [len(pairs) for pairs in found] == [0]

    def test_a_row_has_the_same_bits_alone(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(3000, 14))
        y = (rng.random(3000) < expit(X @ rng.normal(size=14))).astype(int)
        found = TamisClassifier(max_instances=5).fit(X, y)
        assert len(found.features_) > 9
        whole = found.decision_function(X)
        np.testing.assert_array_equal([found.decision_function(X[k : k + 1])[0] for k in range(200)], whole[:200])

    def test_does_better_with_more_rows(self):
        X, score, rng = made(16_000)
        y = rng.random(len(X)) < expit(score)
        X_test, score, rng = made(20_000, seed=1)
        y_test = rng.random(len(X_test)) < expit(score)
        losses = [
            log_loss(y_test, TamisClassifier(**SMALL).fit(X[:n], y[:n]).predict_proba(X_test)) for n in (2000, 16_000)
        ]
        assert losses[1] < losses[0] - 0.005

    def test_parts_add_up_and_curves_are_centred(self, table, whole):
        X, _ = table
        found = whole.explain(X)
        total = found.base_value + found.by_part.sum(axis=2)
        np.testing.assert_allclose(total[:, 0], whole.decision_function(X), atol=1e-10)
        assert np.abs(found.by_feature.mean(axis=0)).max() < 1e-3
        for surface in whole.model_.surfaces:
            assert np.abs(surface.values).max() > 0

    def test_goes_through_a_file(self, table, whole, tmp_path):
        io.save(whole, tmp_path / "model.tamis")
        np.testing.assert_array_equal(
            io.load(tmp_path / "model.tamis").decision_function(table[0]), whole.decision_function(table[0])
        )

    @pytest.mark.filterwarnings("ignore:TamisClassifier kept no feature")
    def test_of_permuted_labels_is_the_prior(self, table):
        X, y = table
        losses = []
        for seed in range(4):
            other = np.random.default_rng(seed).permutation(y)
            found = TamisClassifier(**SMALL).fit(X[:3000], other[:3000])
            losses.append(log_loss(other[3000:], found.predict_proba(X[3000:])))
        share = np.mean(y == "yes")
        prior = -share * np.log(share) - (1 - share) * np.log(1 - share)
        assert np.mean(losses) < prior + 0.015

    def test_of_columns_that_say_nothing_is_constant(self):
        X = np.zeros((3000, 2))
        X[:, 1] = 7.0
        with pytest.warns(UserWarning, match="kept no feature"):
            found = TamisClassifier(**SMALL).fit(X, np.arange(3000) % 3 == 0)
        np.testing.assert_allclose(found.predict_proba(X[:1]), [[2 / 3, 1 / 3]], atol=1e-3)

    def test_finds_several_classes(self):
        X, score, rng = made(6000)
        noisy = score + rng.normal(size=len(X))
        y = np.array(["low", "middle", "high"])[np.digitize(noisy, [-1.0, 1.0])]
        found = TamisClassifier(**SMALL).fit(X[:5000], y[:5000])
        small = TamisClassifier(**{**SMALL, "cv": KFold(5)}).fit(X[:5000], y[:5000])
        assert small.n_splits_ == 5 and found.n_splits_ == 1
        assert (
            log_loss(y[5000:], found.predict_proba(X[5000:])) < log_loss(y[5000:], small.predict_proba(X[5000:])) + 0.06
        )
        assert np.abs(found.explain(X[:50]).by_feature.sum(axis=1)).max() < 1e-9

    def test_predicts_numbers(self, tmp_path):
        X, score, rng = made(6000)
        y = 100.0 + 20.0 * score + 5.0 * rng.normal(size=len(X))
        found = TamisRegressor(**SMALL).fit(X[:5000], y[:5000])
        assert r2_score(y[5000:], found.predict(X[5000:])) > 0.9
        assert 20 < found.loss_ < 150 and found.n_rows_used_ == 5000
        blocks = TamisRegressor(**SMALL).fit(lambda: iter([(X[:2222], y[:2222]), (X[2222:5000], y[2222:5000])]))
        np.testing.assert_allclose(blocks.predict(X), found.predict(X), atol=1e-6)
        path = tmp_path / "rows.parquet"
        X.assign(answer=y).to_parquet(path)
        assert found.score(path, "answer") == pytest.approx(found.score(X, y))
        turned = TamisRegressor(**SMALL).fit(X[:5000], -3.0 * y[:5000])
        np.testing.assert_allclose(turned.predict(X), -3.0 * found.predict(X), rtol=1e-6, atol=1e-3)

    def test_may_choose_the_number_of_features(self, table):
        found = TamisClassifier(max_features="auto", max_instances=0).fit(*table)
        assert 1 <= len(found.features_) <= 8 and len(found.path_["loss"]) == 8

    def test_paths_use_a_sample(self, table):
        found = TamisClassifier(**SMALL).path(*table)
        assert found["n_features"].tolist() == [1, 2, 3, 4] and found["loss"][3] < found["loss"][0]
        with pytest.raises(ValueError, match="path needs all rows in memory"):
            TamisClassifier().path("rows.parquet", "answer")


class TestWeights:
    def test_only_their_ratios_matter(self, table):
        X, y = table
        weight = np.random.default_rng(0).integers(1, 4, N).astype(float)
        one, two = (TamisClassifier(**SMALL).fit(X, y, c * weight) for c in (1.0, 1000.0))
        np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-8)

    def test_of_zero_leave_rows_out(self, table):
        X, y = table
        weight = np.ones(N)
        weight[3000:] = 0.0
        one, two = TamisClassifier(**SMALL).fit(X, y, weight), TamisClassifier(**SMALL).fit(X[:3000], y[:3000])
        same(one, two, X)
        assert one.n_rows_used_ == 3000

    def test_of_classes_move_decisions_and_not_probabilities(self, table):
        X, y = table
        plain = TamisClassifier(**SMALL).fit(X, y)
        moved = TamisClassifier(class_weight={"yes": 5.0, "no": 1.0}, **SMALL).fit(X, y)
        assert np.mean(moved.predict(X) == "yes") > np.mean(plain.predict(X) == "yes") + 0.1
        assert np.abs(moved.predict_proba(X) - plain.predict_proba(X)).mean() < 0.05

    def test_count_as_copies_do(self, table):
        X, y = table
        weight = np.random.default_rng(0).integers(1, 4, N)
        copies = np.repeat(np.arange(N), weight)
        one = TamisClassifier(**SMALL).fit(X, y, weight.astype(float))
        two = TamisClassifier(**SMALL).fit(X.iloc[copies], y[copies])
        assert np.abs(one.predict_proba(X) - two.predict_proba(X)).mean() < 0.06


def categories(n=8000, seed=0):
    """A number, and a category of which one level has half of the rows and 1500 others the rest."""
    rng = np.random.default_rng(seed)
    level = np.where(rng.random(n) < 0.5, "big", np.char.add("r", rng.integers(0, 1500, n).astype(str)))
    X = pd.DataFrame({"x": rng.normal(size=n), "level": level})
    return X, (rng.random(n) < expit(X["x"] + np.where(level == "big", 2.0, -0.5))).astype(int)


class TestRareLevels:
    @pytest.mark.parametrize("many", [1000, 10**9])
    def test_are_predicted_as_their_rows_are(self, many, monkeypatch):
        monkeypatch.setattr("tamis.flagship.estimator.MANY", many)
        X, y = categories()
        found = TamisClassifier(max_instances=0, max_pairs=1).fit(X, y)
        rare = ~X["level"].isin(found.model_.encoder.columns[-1].levels)
        assert rare.mean() > 0.3
        assert abs(found.predict_proba(X[rare])[:, 1].mean() - y[rare].mean()) < 0.03
        assert np.abs(found.explain(X).by_feature.mean(axis=0)).max() < 2e-3

    def test_keep_the_score_when_pairs_are_purified(self):
        rng = np.random.default_rng(1)
        n = 6000
        X = pd.DataFrame({"x": rng.normal(size=n), "level": rng.integers(0, 60, n).astype(str)})
        y = (rng.random(n) < expit(X["x"] * np.where(X["level"].astype(int) % 2, 2.0, -2.0))).astype(int)
        scores = []
        score_of = all_rows.score_of

        def noted(chosen, tables, mass):
            score = score_of(chosen, tables, mass)
            places = [chosen.design.places(j) for j in range(len(score.left))]
            parts = sum(Curve(*ends).at(own) for *ends, own in zip(score.left, score.right, places, strict=True))
            parts = score.base + parts + sum(s.at(*(places[j] for j in s.places)) for s in score.surfaces)
            scores.append((parts, score.held))
            return score

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(all_rows, "score_of", noted)
            found = TamisClassifier(max_instances=0, max_pairs=1).fit(X, y)
        assert found.pairs_ and len(scores) == 2
        for parts, held in scores:  # one of them has places within cells in bytes
            assert np.abs(parts - held).max() < 0.02 * np.abs(held).max()


class TestRareClasses:
    def test_that_a_sample_would_miss_are_in_it(self):
        X, score, rng = made(9000)
        y = np.where(rng.random(9000) < expit(score), "yes", "no").astype(object)
        y[rng.permutation(9000)[:12]] = "never"
        found = TamisClassifier(**SMALL).fit(X, y)
        P = found.predict_proba(X)
        assert found.classes_.tolist() == ["never", "no", "yes"] and np.isfinite(P).all()
        assert 0.0003 < P[:, 0].mean() < 0.006

    def test_keep_their_share(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60_000, 3))
        y = (rng.random(60_000) < expit(1.5 * X[:, 0] - 6.0)).astype(int)
        found = TamisClassifier(**SMALL).fit(X, y)
        assert found.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), rel=0.1)
        assert np.std(found.decision_function(X)) > 1.0


class TestOddWeightsAndLabels:
    @pytest.mark.parametrize("weight", [np.full(N, 1e-310), np.full(N, 1e307), 2.0])
    def test_equal_weights_are_none(self, table, whole, weight):
        same(TamisClassifier(**SMALL).fit(*table, weight), whole, table[0])

    def test_labels_keep_their_type(self, table):
        X, y = table
        days = np.where(y == "yes", np.datetime64("2020-01-02"), np.datetime64("2021-01-02"))
        for labels in (days, (y == "yes").astype(np.int8), y == "yes"):
            found = TamisClassifier(**SMALL).fit(X, labels)
            assert found.classes_.dtype == np.unique(labels).dtype and found.predict(X[:9]).dtype == labels.dtype

    @pytest.mark.filterwarnings("ignore:TamisClassifier kept no feature")
    @pytest.mark.parametrize("rare", [5, 30, 100])
    def test_a_rare_class_without_signal_is_the_prior(self, rare):
        rng = np.random.default_rng(rare)
        X, y = rng.normal(size=(20_000, 6)), np.zeros(20_000, dtype=int)
        y[rng.permutation(20_000)[:rare]] = 1
        found = TamisClassifier(class_weight="balanced").fit(X, y)
        P = found.predict_proba(rng.normal(size=(20_000, 6)))[:, 1]
        assert 0.3 * rare / 20_000 < P.mean() < 3.0 * rare / 20_000 and P.max() < 0.05

    @pytest.mark.filterwarnings("ignore:TamisClassifier kept no feature")
    def test_unequal_weights_without_signal_are_the_prior(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(12_000, 13)), rng.integers(0, 2, 12_000)
        found = TamisClassifier().fit(X, y, np.exp(2.0 * rng.normal(size=12_000)))
        X, y = rng.normal(size=(20_000, 13)), rng.integers(0, 2, 20_000)
        assert log_loss(y, found.predict_proba(X)) < np.log(2) + 0.01

    def test_two_groups_are_two_folds(self, table, whole):
        for labels in ([0, 1], ["m", "f"], [1, 2]):
            found = TamisClassifier(**SMALL).fit(*table, groups=np.array(labels)[np.arange(N) % 2])
            assert found.pairs_[:1] == whole.pairs_[:1]

    def test_pairs_of_few_levels_are_found(self):
        rng = np.random.default_rng(0)
        Z = rng.integers(0, 5, (8000, 4)).astype(float)
        score = 2.0 * ((Z[:, 0] >= 2.5) != (Z[:, 1] >= 2.5)) - 1 + 0.3 * Z[:, 2] - 0.3
        found = TamisClassifier(max_instances=0).fit(Z, (rng.random(8000) < expit(score)).astype(int))
        assert found.pairs_[0] == ("x0", "x1")


class TestOddRows:
    def test_a_few_values_in_many_blocks_are_all_sampled(self):
        rng = np.random.default_rng(0)
        values = rng.normal(size=(400, 2))
        given = [(values, (rng.random(400) < expit(2 * values[:, 0])).astype(int)) for _ in range(20)]
        found = TamisClassifier(max_instances=0).fit(lambda: iter(given))
        share = np.mean([y for _, y in given], axis=0)
        assert np.abs(found.predict_proba(values)[:, 1] - share).mean() < 0.1

    def test_rows_without_weight_may_fill_a_block(self, table, whole):
        X, y = table
        blocks = [(X, y, np.ones(N)), (X[:50], y[:50], np.zeros(50))]
        same(TamisClassifier(**SMALL).fit(lambda: iter(blocks)), whole, X)

    @pytest.mark.filterwarnings("ignore:.*kept no feature", "ignore:nothing can be held out")
    def test_of_one_group_nothing_is_learned(self, table):
        found = TamisClassifier(**SMALL).fit(*table, groups=np.zeros(N))
        assert not len(found.features_)

    def test_an_iterator_that_goes_on_is_read_to_its_end(self, table, monkeypatch):
        monkeypatch.setattr("tamis.table.sources.source.FIRST_ROWS", 1500)
        X, y = table
        weight = (np.arange(N) > 800).astype(float)
        blocks = [(X[k : k + 500], y[k : k + 500], weight[k : k + 500]) for k in range(0, N, 500)]
        assert TamisClassifier(**SMALL).fit(iter(blocks)).n_rows_used_ == weight.sum()

    def test_a_function_that_gives_nothing_again(self, table):
        spent = iter([table])
        with pytest.raises(ValueError, match="must return a new iterator"):
            TamisClassifier(**SMALL).fit(lambda: spent)

    def test_separable_classes_end(self):
        X = np.random.default_rng(0).normal(size=(5000, 2))
        y = (X[:, 0] > 0).astype(int)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = TamisClassifier(**SMALL).fit(X, y)
        assert found.score(X, y) > 0.98

    def test_a_frame_is_read_in_slices(self, table, whole, monkeypatch):
        monkeypatch.setattr("tamis.table.sources.source.BLOCK_CELLS", 8 * 1100)
        same(TamisClassifier(**SMALL).fit(*table), whole, table[0])


class Stop(Exception):
    """A fit is killed."""


class TestStoppedFits:
    @pytest.mark.parametrize("after", [1, 3, 6, 8, 11])  # blocks, of which there are six in each reading
    def test_go_on_where_they_were(self, table, whole, tmp_path, monkeypatch, after):
        monkeypatch.setattr("tamis.table.sources.checkpoint.SAVE_SECONDS", 0.0)
        X, y = table
        cut = [(X[k : k + 700], y[k : k + 700]) for k in range(0, N, 700)]
        given = []

        def blocks(most=None):
            for block in cut:
                if most is not None and len(given) == most + 1:  # the first block is read once more, to know the rows
                    raise Stop
                given.append(block)
                yield block

        file = tmp_path / "fit.tamis"
        with pytest.raises(Stop):
            TamisClassifier(**SMALL).fit(lambda: blocks(after), checkpoint=file)
        left = sorted(path.name for path in tmp_path.iterdir())
        assert left == (["fit.tamis"] if after < 6 else ["fit.tamis", "fit.tamis.rows"])
        counts = []
        update, code = Reading.update, all_rows.Coder.code
        monkeypatch.setattr(Reading, "update", lambda self, block: counts.append("read") or update(self, block))
        monkeypatch.setattr(all_rows.Coder, "code", lambda self, block: counts.append("coded") or code(self, block))
        found = TamisClassifier(**SMALL).fit(blocks, checkpoint=file)
        same(found, whole, X)
        assert counts == ["read"] + ["read"] * max(0, 6 - after) + ["coded"] * min(6, 12 - after)
        assert not list(tmp_path.iterdir())

    def test_drop_a_block_that_was_not_written_completely(self, table, whole, tmp_path, monkeypatch):
        X, y = table
        cut = [(X[k : k + 700], y[k : k + 700]) for k in range(0, N, 700)]
        file = tmp_path / "fit.tamis"
        chosen = estimator.fit_to_all

        def stop(*given):
            raise Stop

        monkeypatch.setattr(estimator, "fit_to_all", stop)
        with pytest.raises(Stop):
            TamisClassifier(**SMALL).fit(lambda: iter(cut), checkpoint=file)
        monkeypatch.setattr(estimator, "fit_to_all", chosen)
        rows = tmp_path / "fit.tamis.rows"
        whole_file = rows.read_bytes()
        middle = len(whole_file) // 2
        altered = whole_file[:middle] + bytes(90) + whole_file[middle + 90 :]
        for damaged in (whole_file[:-100], whole_file + b"more", altered, b"", whole_file):
            rows.write_bytes(damaged)
            checkpoint = file.read_bytes()
            same(TamisClassifier(**SMALL).fit(lambda: iter(cut), checkpoint=file), whole, X)
            file.write_bytes(checkpoint)
        rows.write_text("notes of somebody else")
        with pytest.raises(ValueError, match="is not of a stopped fit"):
            TamisClassifier(**SMALL).fit(lambda: iter(cut), checkpoint=file)
        assert rows.read_text() == "notes of somebody else"

    @pytest.mark.filterwarnings("ignore:TamisClassifier kept no feature")
    def test_of_other_rows_or_parameters_begin_again(self, table, tmp_path, monkeypatch):
        X, y = table
        file = tmp_path / "fit.tamis"

        def stop(*given):
            raise Stop

        with monkeypatch.context() as patch:
            patch.setattr(estimator, "fit_to_all", stop)
            with pytest.raises(Stop):
                TamisClassifier(**SMALL).fit(lambda: iter([(X, y)]), checkpoint=file)
        other = {**SMALL, "max_features": 2}
        found = TamisClassifier(**other).fit(lambda: iter([(X, y)]), checkpoint=file)
        same(found, TamisClassifier(**other).fit(X, y), X)
        changed = y[::-1]
        with monkeypatch.context() as patch:
            patch.setattr(estimator, "fit_to_all", stop)
            with pytest.raises(Stop):
                TamisClassifier(**SMALL).fit(lambda: iter([(X, y)]), checkpoint=file)
        with pytest.warns(UserWarning, match="is of other rows"):
            found = TamisClassifier(**SMALL).fit(lambda: iter([(X, changed)]), checkpoint=file)
        same(found, TamisClassifier(**SMALL).fit(X, changed), X)
        with pytest.raises(ValueError, match="is for rows in blocks"):
            TamisClassifier().fit(X[:100], y[:100], checkpoint=file)
        with pytest.raises(ValueError, match="leave it out with clusters and iterators"):
            TamisClassifier().fit(iter([(X, y)]), checkpoint=file)
        with pytest.raises(ValueError, match="there is no folder"):
            TamisClassifier().fit(lambda: iter([(X, y)]), checkpoint=tmp_path / "none" / "fit.tamis")


class TestRefusals:
    def test_of_rows_that_change(self, table):
        X, y = table
        sizes = iter([4000, 3500])

        def blocks():
            n = next(sizes)
            return iter([(X[:n], y[:n])])

        with pytest.raises(ValueError, match=r"4000 rows .* first read and 3500"):
            TamisClassifier(**SMALL).fit(blocks)

    @pytest.mark.parametrize("what", ["labels", "cells", "weights", "order of the labels"])
    def test_of_blocks_that_change(self, table, what):
        X, y = table
        times = []

        def blocks():
            times.append(1)
            again = len(times) > 1
            weight = np.where(np.arange(N) % 2, 1.0, 2.0)
            other = np.where(y == "yes", "no", "yes") if what == "labels" else y[::-1]
            yield (
                X.assign(x0=X["x0"] + 1e-9) if again and what == "cells" else X,
                other if again and "labels" in what else y,
                weight[::-1] * 1.5 if again and what == "weights" else weight,
            )

        with pytest.raises(ValueError, match="other rows when it was read again"):
            TamisClassifier(**SMALL).fit(blocks)

    def test_of_a_file_that_is_written_meanwhile(self, table, tmp_path, monkeypatch):
        X, y = table
        path = tmp_path / "rows.parquet"
        X.assign(answer=y).to_parquet(path)
        chosen = estimator.select_on_sample

        def and_write(*given):
            X.assign(answer=y, more=1.0).to_parquet(path)
            return chosen(*given)

        monkeypatch.setattr(estimator, "select_on_sample", and_write)
        with pytest.raises(ValueError, match=r"changed while it was read|cannot be read"):
            TamisClassifier(**SMALL).fit(path, "answer")

    def test_of_a_class_that_comes_late(self, table, monkeypatch):
        X, y = table
        monkeypatch.setattr("tamis.table.sources.source.FIRST_ROWS", 2000)
        late = y.astype(object)
        late[3900] = "maybe"
        with pytest.raises(ValueError, match="'maybe', which is not among the classes that were read first"):
            TamisClassifier(**SMALL).fit(iter([(X[:2000], late[:2000]), (X[2000:], late[2000:])]))

    def test_of_what_no_rows_make_right(self, table):
        X, y = table
        with pytest.raises(ValueError, match=r"cv=.* must be a number where rows come in blocks"):
            TamisClassifier(cv=KFold(3)).fit(lambda: iter([(X, y)]))
        with pytest.raises(ValueError, match="one class only"):
            TamisClassifier().fit(X, np.repeat("yes", N))
        with pytest.raises(ValueError, match=r"text in some blocks and numbers in others|mixes"):
            TamisClassifier().fit(lambda: iter([(X[:2000], y[:2000]), (X[2000:], np.ones(2000))]))
        with pytest.raises(ValueError, match="numbers in some blocks and categories in others"):
            other = X[2000:].assign(x3="text")
            TamisClassifier().fit(lambda: iter([(X[:2000], y[:2000]), (other, y[2000:])]))
        with pytest.raises(ValueError, match="memory_limit"):
            TamisClassifier(memory_limit="1MB").fit(X, y)
        with pytest.raises(ValueError, match="sample_weight"):
            TamisClassifier().fit(X, y, np.full(N, -1.0))
        with pytest.raises(ValueError, match=r"y holds nan|NaN"):
            TamisRegressor().fit(X, np.where(np.arange(N) == 7, np.nan, 1.0))
        with pytest.raises(ValueError, match="y has masked values"):
            TamisClassifier().fit(X, np.ma.masked_array(y, mask=np.arange(N) < 9))
        with pytest.raises(ValueError, match="does not hold numbers"):
            TamisClassifier().fit(X, y, np.array(["a"] * N))
        with pytest.raises(ValueError, match=r"groups has shape"):
            TamisClassifier().fit(X, y, groups=np.zeros((N, 1)))
        with pytest.raises(ValueError, match="nearly the largest float"):
            TamisClassifier().fit(X.assign(x4=np.where(np.arange(N) == 3900, 1e308, 0.0)), y)

    def test_leave_an_earlier_fit_as_it_was(self, table, whole):
        X = table[0]
        before = whole.decision_function(X)
        with pytest.raises(ValueError, match="one class"):
            whole.fit(X, np.repeat("yes", N))
        np.testing.assert_array_equal(whole.decision_function(X), before)


def test_resolution_follows_the_cube_root_of_the_rows():
    assert resolution(500) == resolution(20_000) == (48, 12)
    assert resolution(160_000) == (96, 24) and resolution(10**9) == (128, 32)


def test_a_frequent_value_takes_one_cell(table):
    rng = np.random.default_rng(0)
    x = np.where(rng.random(N) < 0.9, 0.0, rng.exponential(size=N))
    y = rng.random(N) < expit(2.0 * np.sin(3 * x) - 1.0 * (x > 0))
    found = TamisClassifier(max_features=1, max_pairs=0, max_instances=0).fit(x[:, None], y)
    assert found.model_.cells[0].size > 40
