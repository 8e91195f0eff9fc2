"""TamisClassifier against what it promises, whatever the fit finds."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold

from tamis import TamisClassifier, io

from zoo import line_bump_product, three_classes

SMALL = {"max_features": 5, "max_pairs": 3, "max_instances": 8, "cv": 3}


def mixed(n=300, seed=0):
    """Numbers with gaps, a category with gaps, and a column of noise."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.normal(50.0, 12.0, n),
            "dose": rng.exponential(2.0, n),
            "site": rng.choice(["north", "south", "west"], n).astype(object),
            "noise": rng.normal(size=n),
        },
        index=[f"case {k}" for k in range(n)],
    )
    score = (X["age"] - 50.0) / 6.0 + 2.0 * (X["dose"] > 2.0) - 2.0 * (X["site"] == "west")
    y = np.where(score + rng.normal(size=n) > 0.5, "ill", "well")
    X.loc[X.index[::9], "age"] = np.nan
    X.loc[X.index[::13], "site"] = None
    return X, y


@pytest.fixture(scope="module")
def table():
    return mixed()


@pytest.fixture(scope="module")
def clf(table):
    return TamisClassifier(**SMALL).fit(*table)


@pytest.fixture(scope="module")
def several():
    return TamisClassifier(**SMALL).fit(*three_classes())


@pytest.fixture(scope="module")
def paired():
    X, y = line_bump_product(800)
    return TamisClassifier(max_features=4, max_pairs=4, max_instances=0, cv=3).fit(X, y), X


def scores(model, X):
    return model.decision_function(X).reshape(len(X), -1)


class TestBudgets:
    def test_hold_for_features_pairs_and_cases(self, clf, several):
        for model in (clf, several):
            assert 1 <= len(model.features_) <= 5 and len(model.pairs_) <= 3 and len(model.instances_) <= 8

    def test_of_nothing_but_curves(self, table):
        model = TamisClassifier(max_features=2, max_pairs=0, max_instances=0, cv=3).fit(*table)
        assert len(model.features_) <= 2 and not model.pairs_ and not len(model.instances_)
        found = model.explain(table[0])
        total = found.base_value + found.by_feature.sum(axis=2)
        np.testing.assert_allclose(total[:, 0], model.decision_function(table[0]), atol=1e-10)

    def test_auto_keeps_some_features(self, table):
        model = TamisClassifier(max_features="auto", max_pairs=0, max_instances=0, cv=3).fit(*table)
        assert 1 <= len(model.features_) <= 4

    def test_without_search_are_what_was_kept(self, clf, table):
        again = clf.without_search()
        assert again.max_features == len(clf.features_) and again.max_instances == len(clf.instances_)
        assert again.max_pairs == len(clf.pairs_) and not hasattr(again, "model_")
        assert len(again.fit(*table).features_) <= len(clf.features_)

    def test_the_path_is_nested_and_its_losses_are_finite(self, table):
        path = TamisClassifier(max_features=3, max_pairs=0, max_instances=0, cv=3).path(*table)
        assert list(path) == ["n_features", "features", "loss", "error"]
        sizes = path["n_features"].tolist()
        assert sizes == sorted(set(sizes)) == [len(columns) for columns in path["features"]]
        for small, large in zip(path["features"][:-1], path["features"][1:], strict=True):
            assert set(small) < set(large)
        assert np.isfinite(path["loss"]).all() and np.all(path["error"] >= 0)

    def test_a_path_of_other_budgets_leaves_the_fit_alone(self, table):
        model = TamisClassifier(max_features=2, max_pairs=0, max_instances=0, cv=3).fit(*table)
        before = model.model_
        found = model.path(*table, max_features=3)
        assert found["n_features"].max() == 3 and model.path_ is found
        assert model.model_ is before and model.max_features == 2

    def test_the_held_out_loss_counts_the_choice_of_features(self):
        losses = []
        for seed in range(2):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(2300, 80))
            y = X[:, 0] + 0.5 * X[:, 1] + rng.logistic(size=2300) > 0
            model = TamisClassifier(max_features=5, max_pairs=0, max_instances=0, cv=3).fit(X[:300], y[:300])
            losses.append((model.loss_, log_loss(y[300:], model.predict_proba(X[300:]))))
        claimed, true = np.mean(losses, axis=0)
        assert claimed > true - 0.03


class TestSums:
    def test_parts_add_up_to_the_score(self, clf, several, table):
        for model, X in ((clf, table[0]), (several, three_classes()[0])):
            found = model.explain(X)
            np.testing.assert_array_equal(found.decision, scores(model, X))
            total = found.base_value + found.by_part.sum(axis=2)
            np.testing.assert_allclose(total, scores(model, X), atol=1e-10)
            split = found.by_feature.sum(axis=2) + found.by_pair.sum(axis=2) + found.by_case.sum(axis=2)
            np.testing.assert_allclose(found.base_value + split, scores(model, X), atol=1e-10)
            assert len(found.parts) == len(found.part_names) == found.by_part.shape[2]

    def test_features_and_pairs_are_zero_on_average_and_cases_are_not_centred(self, clf, table):
        found = clf.explain(table[0])
        np.testing.assert_allclose(found.by_feature.mean(axis=0), 0.0, atol=1e-8)
        np.testing.assert_allclose(found.by_pair.mean(axis=0), 0.0, atol=1e-8)
        assert np.all((found.similarity >= 0) & (found.similarity <= 1))
        np.testing.assert_allclose(found.by_case[:, 0], found.similarity * clf.model_.cases.pull[:, 0], atol=1e-12)

    def test_curves_with_rare_levels_are_zero_on_average(self):
        rng = np.random.default_rng(0)
        town = np.minimum(rng.zipf(1.3, 2000), 150)
        y = rng.normal(size=151)[town] + rng.normal(size=2000) > 0
        X = pd.DataFrame({"town": [f"t{k}" for k in town]})
        model = TamisClassifier(max_instances=0).fit(X, y)
        found = model.explain(X)
        np.testing.assert_allclose(found.by_feature.mean(axis=0), 0.0, atol=1e-12)
        rare = ~X["town"].isin(model.model_.encoder.columns[0].levels)
        assert rare.mean() > 0.0 and len(np.unique(found.by_feature[rare])) == 1
        assert abs(model.predict_proba(X[rare])[:, 1].mean() - y[rare].mean()) < 0.2

    def test_a_case_pulls_towards_its_own_class(self, clf, several, table):
        for model, y in ((clf, table[1]), (several, three_classes()[1])):
            for pull, row in zip(model.model_.cases.pull, model.instances_, strict=True):
                own = model.classes_.tolist().index(y[row])
                assert np.all((pull >= 0) == (own == 1)) if len(pull) == 1 else pull[own] >= np.delete(pull, own).max()

    def test_of_several_classes_are_zero_over_the_classes_but_for_cases(self, several):
        found = several.explain(three_classes()[0])
        for part in (found.base_value, found.by_feature, found.by_pair):
            np.testing.assert_allclose(part.sum(axis=-1 if part.ndim == 1 else 1), 0.0, atol=1e-12)

    def test_a_frame_has_one_line_for_every_summand(self, clf, table):
        X = table[0].head(3)
        frame = clf.explain(X).to_frame()
        kept = len(clf.features_) + len(clf.pairs_) + len(clf.instances_) + 1
        assert len(frame) == 3 * kept and set(frame["part"]) <= {"base value", "feature", "pair", "case"}
        total = frame.groupby("row")["contribution"].sum()
        np.testing.assert_allclose(total[X.index], clf.decision_function(X), atol=1e-10)
        features = frame[(frame["part"] == "feature") & (frame["row"] == "case 1")]
        assert features["name"].tolist() == clf.explain(X).features
        shown = dict(zip(features["name"], features["value"], strict=True))
        assert shown["age"] == X["age"].iloc[1]
        similar = frame[frame["part"] == "case"]["similarity"].astype(float)
        assert similar.between(0, 1).all() and len(similar) == 3 * len(clf.instances_)

    def test_a_dict_is_what_json_holds(self, clf, table):
        columns = clf.explain(table[0].head(2)).to_dict()
        assert {type(cell) for column in columns.values() for cell in column} <= {str, float, int, type(None)}

    def test_importances_follow_the_features(self, clf, several):
        for model in (clf, several):
            d = len(model.features_)
            assert model.importance_.shape == (d,) and np.all(model.importance_ >= 0)
            shares = np.atleast_2d(model.part_variation_)
            np.testing.assert_allclose(shares.sum(axis=1), 100.0)
            cases = np.atleast_2d(model.instance_variation_).sum(axis=1)
            np.testing.assert_allclose(np.atleast_2d(model.feature_variation_).sum(axis=1) + cases, 100.0)
            with pytest.raises(AttributeError, match="feature_variation_"):
                _ = model.feature_importance_


class TestCurves:
    def test_are_what_a_feature_contributes(self, clf, table):
        X = table[0]
        found = clf.explain(X)
        for place, name in enumerate(found.features):
            grid, values = clf.curve(name, X[name].tolist())
            assert len(grid) == len(X)
            np.testing.assert_array_equal(values, found.by_feature[:, 0, place])

    def test_are_what_the_whole_score_does_on_average(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 2))
        y = X[:, 0] * X[:, 1] + 0.15 * X[:, 0] + 0.3 * rng.normal(size=200) > 0
        model = TamisClassifier(max_pairs=0).fit(X, y)  # so that cases take what a product leaves
        assert len(model.instances_) and model.features_.tolist() == [0, 1]
        for j in (0, 1):
            rows = np.repeat(X[None], 200, axis=0)
            rows[:, :, j] = X[:, j, None]
            effect = model.decision_function(rows.reshape(-1, 2)).reshape(200, 200).mean(axis=1)
            curve = model.curve(j, X[:, j])[1]
            assert np.std(effect - curve) < 0.15 * np.ptp(curve)

    def test_have_every_inner_edge_twice(self, clf):
        grid, values = clf.curve("age")
        assert grid.shape == values.shape and np.all(np.diff(grid) >= 0)
        np.testing.assert_array_equal(grid[1:-1:2], grid[2:-1:2])
        middle = 0.5 * (grid[::2] + grid[1::2])
        np.testing.assert_allclose(clf.curve("age", middle)[1], 0.5 * (values[::2] + values[1::2]), atol=1e-12)

    def test_of_few_values_are_flat_around_each_of_them(self):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.integers(0, 2, 400), rng.integers(1, 6, 400)])
        y = X @ [2.0, 0.5] + rng.normal(size=400) > 2.5
        model = TamisClassifier(max_pairs=0, max_instances=0).fit(X, y)
        for place in model.features_:
            _, values = model.curve(int(place))
            np.testing.assert_array_equal(values[::2], values[1::2])

    def test_of_a_category_are_over_its_levels(self, clf):
        grid, values = clf.curve("site")
        assert grid.tolist() == ["north", "south", "west"] and values.shape == (3,)
        assert clf.curve("site", ["elsewhere"])[1] == [0.0]

    def test_of_several_classes_have_a_column_for_each(self, several):
        grid, values = several.curve(int(several.features_[0]))
        assert values.shape == (len(grid), 3)

    def test_of_what_is_not_kept_are_refused(self, clf):
        with pytest.raises(ValueError, match="'weight' is not among the kept ones"):
            clf.curve("weight")


class TestSurfaces:
    def test_are_what_a_pair_contributes(self, paired):
        model, X = paired
        found = model.explain(X[:50])
        assert set(found.pairs) == set(model.pairs_) and model.pairs_
        for k, (a, b) in enumerate(found.pairs):
            x, z, values = model.surface(a, b, (X[:50, int(a[1:])], X[:50, int(b[1:])]))
            assert values.shape == (len(x), len(z)) == (50, 50)
            np.testing.assert_array_equal(np.diag(values), found.by_pair[:, 0, k])

    def test_seen_from_the_other_side_are_transposed(self, paired):
        model, _ = paired
        a, b = model.pairs_[0]
        x, z, values = model.surface(a, b)
        other = model.surface(b, a)
        np.testing.assert_array_equal(other[2], values.T)
        assert np.array_equal(other[0], z) and np.array_equal(other[1], x)

    def test_without_a_pair_are_refused(self, clf):
        with pytest.raises(ValueError, match="have no surface"):
            clf.surface("age", "age")


class TestProbabilities:
    def test_are_the_sigmoid_or_the_softmax_of_scores(self, clf, several, table):
        X = table[0]
        np.testing.assert_allclose(clf.predict_proba(X)[:, 1], expit(clf.decision_function(X)), rtol=1e-12)
        X, _ = three_classes()
        np.testing.assert_allclose(several.predict_proba(X), softmax(several.decision_function(X), axis=1), rtol=1e-12)

    def test_are_right_on_average(self, clf, table):
        assert clf.predict_proba(table[0])[:, 1].mean() == pytest.approx((table[1] == "well").mean(), abs=0.05)

    def test_class_weights_move_labels_and_not_probabilities(self, clf, table):
        X, y = table
        weighted = TamisClassifier(**SMALL, class_weight={"ill": 6.0, "well": 1.0}).fit(X, y)
        assert (weighted.predict(X) == "ill").sum() > (clf.predict(X) == "ill").sum()
        assert weighted.predict_proba(X)[:, 1].mean() == pytest.approx((y == "well").mean(), abs=0.06)

    def test_it_learns_what_is_there(self, clf, several):
        assert clf.score(*mixed(600, seed=1)) > 0.8
        X, y = three_classes(300, seed=1)
        assert several.score(X, y) > 0.75


class TestRows:
    def test_a_fit_is_reproducible_whatever_the_jobs_and_the_order(self, clf, table):
        X, y = table
        again = TamisClassifier(**SMALL, n_jobs=2).fit(X, y)
        np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
        order = np.random.default_rng(0).permutation(len(y))
        other = clone(clf).fit(X.iloc[order], y[order])
        np.testing.assert_allclose(other.decision_function(X), clf.decision_function(X), atol=1e-8)
        assert set(other.instance_labels_) == set(clf.instance_labels_)

    def test_a_row_has_the_same_score_alone_and_among_many(self, clf):
        X, _ = mixed(20_000, seed=2)
        all_scores = clf.decision_function(X)
        for rows in ([0], [19_999], list(range(16_380, 16_390)), list(range(7, 4000, 3))):
            np.testing.assert_array_equal(clf.decision_function(X.iloc[rows]), all_scores[rows])

    def test_only_ratios_of_weights_matter(self, table):
        X, y = table
        weight = np.arange(len(y)) % 3
        one, two = (TamisClassifier(**SMALL).fit(X, y, scale * weight) for scale in (1.0, 50.0))
        np.testing.assert_allclose(two.decision_function(X), one.decision_function(X), atol=1e-7)
        assert set(one.instances_) <= set(np.flatnonzero(weight))

    def test_missing_cells_and_unseen_levels_have_scores(self, clf, table):
        X = table[0].head(2).assign(site="elsewhere")
        place = clf.explain(X).features.index("site")
        assert np.all(clf.explain(X).by_feature[:, 0, place] == 0.0)
        assert np.isfinite(clf.decision_function(X.assign(age=np.nan, site=None))).all()

    def test_missing_cells_are_filled_or_refused(self, table):
        X, y = table
        filled = TamisClassifier(**SMALL, missing="median").fit(X, y)
        gap, median = X.head(1).assign(age=np.nan), X.head(1).assign(age=X["age"].median())
        np.testing.assert_allclose(filled.decision_function(gap), filled.decision_function(median), atol=0.2)
        with pytest.raises(ValueError, match="missing=None"):
            TamisClassifier(**SMALL, missing=None).fit(X, y)

    def test_folds_of_groups_and_of_splitters(self, table):
        X, y = table
        groups = np.arange(len(y)) // 3
        assert TamisClassifier(**SMALL).fit(X, y, groups=groups).n_splits_ >= 1
        assert TamisClassifier(**{**SMALL, "cv": KFold(4)}).fit(X, y).n_splits_ >= 1

    def test_a_class_of_one_row_or_group_does_not_end_the_holding_out(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(200, 6)), rng.choice(["a", "b"], 200)
        rare, groups = np.where(np.arange(200) == 0, "c", y), np.where(y == "a", 0, np.arange(200))
        for labels, options in ((rare, {}), (y, {"groups": groups})):
            with pytest.warns(UserWarning, match="kept no feature"):
                TamisClassifier(cv=3).fit(X, labels, **options)

    def test_splitters_name_rows_as_given_whatever_their_weights(self, table):
        X, y = table
        weight, fold = np.arange(len(y)) % 4 != 0, np.arange(len(y)) % 3
        pairs = [[(np.flatnonzero(f != k), np.flatnonzero(f == k)) for k in range(3)] for f in (fold, fold[weight])]
        one = TamisClassifier(**{**SMALL, "cv": pairs[0]}).fit(X, y, weight.astype(float))
        two = TamisClassifier(**{**SMALL, "cv": pairs[1]}).fit(X[weight], y[weight])
        np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-10)

    def test_folds_without_rows_are_left_out(self, table):
        X, y = table
        half = np.arange(len(y)) % 2 == 0
        pairs = [(np.flatnonzero(half), np.flatnonzero(~half)), (np.flatnonzero(half), []), ([], np.flatnonzero(half))]
        with pytest.warns(UserWarning, match="2 of 3 folds are left out"):
            model = TamisClassifier(**{**SMALL, "cv": pairs}).fit(X, y)
        assert model.n_splits_ == 1 and np.isfinite(model.decision_function(X)).all()
        with pytest.raises(ValueError, match="leaves no fold"):
            TamisClassifier(cv=pairs[1:]).fit(X, y)

    def test_of_one_group_nothing_is_kept(self, table):
        with pytest.warns(match="all rows are of one group"), pytest.warns(match="kept no feature"):
            model = TamisClassifier(**SMALL).fit(*table, groups=np.zeros(len(table[1])))
        assert not len(model.features_)

    def test_names_of_columns_may_be_odd(self, table):
        X, y = table
        renamed = X.rename(columns={"age": "similar cases", "dose": "a * b"})
        model = TamisClassifier(**SMALL).fit(renamed, y)
        np.testing.assert_allclose(model.explain(renamed).decision[:, 0], model.decision_function(renamed), atol=1e-10)


class TestBlocks:
    def test_files_and_memory_maps_are_explained_and_predicted(self, tmp_path, monkeypatch):
        X, y = line_bump_product(300)
        model = TamisClassifier(**SMALL).fit(X, y)
        pd.DataFrame(X, columns=[f"x{j}" for j in range(6)]).to_parquet(tmp_path / "rows.parquet")
        np.save(tmp_path / "rows.npy", X)
        monkeypatch.setattr("tamis.table.table.LARGE_BYTES", 100)
        for given in (tmp_path / "rows.parquet", np.load(tmp_path / "rows.npy", mmap_mode="r")):
            np.testing.assert_array_equal(model.decision_function(given), model.decision_function(X))
            np.testing.assert_array_equal(model.explain(given).by_feature, model.explain(X).by_feature)
            assert model.explain(given).values is None and len(model.explain(given).to_frame())


class TestCopies:
    def test_files_and_pickles_decide_alike(self, clf, several, table, tmp_path):
        for model, X in ((clf, table[0]), (several, three_classes()[0])):
            io.save(model, tmp_path / "model.tamis")
            for again in (io.load(tmp_path / "model.tamis"), pickle.loads(pickle.dumps(model))):
                np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
                np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
                assert again.pairs_ == model.pairs_ and again.summary() == model.summary()

    def test_files_do_not_grow_with_the_rows(self, tmp_path):
        sizes = []
        for n in (2000, 8000):
            model = TamisClassifier(max_features=3, max_pairs=0, max_instances=0, cv=2).fit(*mixed(n))
            io.save(model, tmp_path / "model.tamis")
            sizes.append((tmp_path / "model.tamis").stat().st_size)
        assert sizes[1] < 1.2 * sizes[0]

    def test_seen_from_the_other_class_every_sign_turns(self, clf, table):
        X = table[0]
        other = clf.oriented("ill")
        np.testing.assert_array_equal(other.decision_function(X), -clf.decision_function(X))
        np.testing.assert_array_equal(other.explain(X).by_part, -clf.explain(X).by_part)
        np.testing.assert_allclose(other.predict_proba(X)[:, ::-1], clf.predict_proba(X))
        np.testing.assert_array_equal(other.curve("age")[1], -clf.curve("age")[1])

    def test_other_labels_negate(self, table):
        X, y = table
        one = TamisClassifier(**SMALL).fit(X, y)
        two = TamisClassifier(**SMALL).fit(X, np.where(y == "ill", "z", "a"))
        np.testing.assert_allclose(two.decision_function(X), -one.decision_function(X), atol=1e-6)

    def test_notebooks_show_what_was_kept(self, clf, table):
        html = clf._repr_mimebundle_()["text/html"]
        assert "age" in html and "a curve for each feature" in html
        assert "age" in clf.explain(table[0].head(2))._repr_html_()


class TestReports:
    def test_a_verbose_fit_logs_what_it_kept(self, table, caplog):
        with caplog.at_level("INFO", logger="tamis"):
            TamisClassifier(**SMALL, verbose=1).fit(*table)
        assert "TamisClassifier: features" in caplog.text and "held-out loss" in caplog.text

    def test_threads_share_their_memory(self, table):
        one, four = (TamisClassifier(n_jobs=jobs).memory_estimate(*table) for jobs in (None, 4))
        assert one == four


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"max_features": 0}, "max_features=0"),
            ({"max_features": "all"}, "max_features='all'"),
            ({"max_features": 2.5}, "max_features=2.5"),
            ({"max_pairs": -1}, "max_pairs=-1"),
            ({"max_instances": -1}, "max_instances=-1"),
            ({"cv": 1}, "cv=1"),
            ({"missing": "x"}, "missing='x'"),
            ({"class_weight": "even"}, "class_weight='even'"),
            ({"n_jobs": 0}, "n_jobs=0"),
        ],
    )
    def test_name_the_parameter(self, change, words, table):
        with pytest.raises(ValueError, match=words):
            TamisClassifier(**change).fit(*table)

    def test_name_what_is_wrong_with_the_rows(self, table):
        X, y = table
        with pytest.raises(ValueError, match="one class only"):
            TamisClassifier().fit(X, np.full(len(y), "ill"))
        with pytest.raises(ValueError, match="infinity"):
            TamisClassifier().fit(X.assign(dose=np.inf), y)
        with pytest.raises(ValueError, match="no pair"):
            TamisClassifier(cv=[1, 2]).fit(X, y)
        with pytest.raises(ValueError, match="sample_weight is zero for all rows"):
            TamisClassifier().fit(X, y, np.where(y == "ill", 0.0, 1.0))

    @pytest.mark.filterwarnings("ignore:nothing can be held out")
    def test_columns_that_say_nothing_are_not_kept(self, table):
        X, y = table
        model = TamisClassifier(**SMALL).fit(X.assign(one=1.0, gone=np.nan), y)
        assert not {"one", "gone"} & set(model.explain(X.assign(one=1.0, gone=np.nan)).features)
        with pytest.warns(UserWarning, match="'customer' has 290 levels in 300 rows and looks like an identifier"):
            model = TamisClassifier(**SMALL).fit(X.assign(customer=[f"c{min(k, 289)}" for k in range(len(y))]), y)
        assert "customer" not in model.feature_names_in_[model.features_]
        with pytest.warns(UserWarning, match="kept no feature"):
            nothing = TamisClassifier(cv=2).fit(np.ones((30, 2)), np.arange(30) < 10)
        np.testing.assert_allclose(nothing.predict_proba(np.ones((1, 2))), [[2 / 3, 1 / 3]], atol=0.02)
        assert nothing.explain(np.ones((3, 2))).by_part.shape == (3, 1, 0)


class TestHonesty:
    def test_permuted_labels_give_the_prior(self):
        ratios = []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            n, d = (120, 20) if seed % 2 else (300, 8)
            X, y = rng.normal(size=(3 * n, d)), rng.permutation(np.arange(3 * n) % 3 == 0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that nothing was kept
                model = TamisClassifier(max_features=5).fit(X[:n], y[:n])
            share = np.full((2 * n, 2), [1 - y[:n].mean(), y[:n].mean()])
            ratios.append(log_loss(y[n:], model.predict_proba(X[n:])) / log_loss(y[n:], share))
        assert np.mean(ratios) < 1.02 and max(ratios) < 1.05

    def test_pairs_that_nothing_supports_are_not_kept(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(300, 120)), np.arange(300) % 2
        with pytest.warns(UserWarning, match="kept no feature"):
            model = TamisClassifier().fit(X, y)
        assert not len(model.pairs_) and not len(model.features_)

    def test_cases_of_which_little_is_left_are_not_kept(self, monkeypatch):
        X, y = line_bump_product(800)
        assert len(TamisClassifier(max_pairs=0, cv=3).fit(X, y).instances_)
        monkeypatch.setattr("tamis.flagship.cases._factor", lambda *_: 1e-3)
        assert not len(TamisClassifier(max_pairs=0, cv=3).fit(X, y).instances_)

    def test_pairs_bend_no_main_effect_far_from_its_curve(self):
        rng = np.random.default_rng(1)
        X = rng.normal(size=(600, 2)) @ np.array([[1.0, 0.9], [0.0, 0.44]])  # two columns that go together
        y = X[:, 0] + 2.0 * X[:, 0] * X[:, 1] + rng.logistic(size=600) > 0
        model = TamisClassifier(max_instances=0).fit(X, y)
        assert len(model.pairs_) == 1
        for j in range(2):
            effect = []
            for value in X[:150, j]:
                Z = X.copy()
                Z[:, j] = value
                effect.append(model.decision_function(Z).mean())
            curve = model.explain(X[:150]).by_part[:, 0, list(model.features_).index(j)]
            gap = np.array(effect) - curve
            assert gap.std() < 0.15 * np.ptp(curve)
