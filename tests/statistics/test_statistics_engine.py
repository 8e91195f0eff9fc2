"""engine="statistics": the same classifiers from sums over rows."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit
from sklearn.utils.estimator_checks import check_classifiers_train, parametrize_with_checks

import tamis.kernels.stacks.chebyshev as chebyshev_module
import tamis.methods.em2nolc.search as grid_module
import tamis.methods.em2nolc.sums as sums_module
from tamis import EM2NOLCClassifier, EM2NOLCClassifierCV, Laplacian, Plan, Statistics, product
from tamis.base.design import RowDesign
from tamis.kernels.recipes import per_feature
from tamis.methods.em2nolc import solver as method
from tamis.methods.em2nolc.refit import coefficients
from tamis.methods.em2nolc.search import Point
from tamis.methods.em2nolc.solver import State, Task
from tamis.methods.em2nolc.sums import better_rows
from tamis.optim.subset import fit_support
from tamis.statistics.fit import TrainingSums, fold_sums
from tamis.table.rows import codings
from tamis.table.table import read_table

import zoo
from small_fits import rows_of

ANY_ENGINE = {  # checks of what comes before or after a fit: they have passed for the dense engine
    "check_classifier_data_not_an_array",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_score_takes_y",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_sample_weights_not_an_array",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_supervised_y_2d",
}


@parametrize_with_checks(
    [
        EM2NOLCClassifier(2, 2, engine="statistics", calibration=2),
        EM2NOLCClassifierCV(2, 1, engine="statistics", bandwidths=(1.0,), alphas=(0.01,), cv=3, rule="largest"),
    ]
)
@pytest.mark.filterwarnings(
    "ignore:nothing can be held out",
    "ignore:.*kept no instance",
    "ignore:.*folds are left out",
    "ignore:calibration failed",
)
def test_scikit_learn_compatible(estimator, check):
    if check.func is check_classifiers_train and not check.keywords:
        pytest.skip("the same check on the same rows, in memory that cannot be written to, is here too")
    if check.func.__name__ in ANY_ENGINE:
        pytest.skip("what it looks at is the same lines for all engines")
    if check.func.__name__.startswith("check_sample_weight_equivalence") and "calibration" in estimator.get_params():
        estimator = clone(estimator).set_params(calibration=None)  # copies are dealt over the folds of a calibration
    check(estimator)


def mixed_table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(np.clip(rng.normal(size=(n, 4)), -3.5, 3.5), columns=list("abcd"))
    X.loc[rng.random(n) < 0.15, "b"] = np.nan
    X["few"] = rng.integers(0, 5, n)
    X["site"] = pd.Series(rng.choice(["n", "s", "w"], n)).where(rng.random(n) > 0.1)
    score = np.sin(2 * X["a"]) + X["b"].fillna(0) ** 2 + (X["site"] == "w") - 1.3
    return X, np.where(score + 0.3 * rng.normal(size=n) > 0, "yes", "no")


def three(n=300, seed=0):
    X, y = zoo.three_classes(n, seed)
    return X, y


def designs(X, y, *, shared=False, weight=None, degrees=24, **options):
    """A row design and a moment design of the same problem, on the same candidates in the same order."""
    clf = EM2NOLCClassifier(candidates=60, **options)
    rows = rows_of(clf, X, y, weight)
    plan = Plan.of(X, y, sample_weight=weight, candidates=60, degrees=degrees, folds=1, winsorise=0)
    stats = Statistics(plan)
    stats.add_training_rows(rows, np.zeros(len(rows), dtype=int))
    prepared = TrainingSums(plan, stats.sums(), plan.pool).prepare(None, per_feature(), 1.0)
    Z = plan.encoder.encode(rows.table)
    stack = prepared.bank.stack(Z, plan.pool.Z, form="dense")
    pairs = zip(codings(len(plan.classes), shared), prepared.designs(shared), strict=True)
    return [(RowDesign(stack, c[rows.codes], rows.weight, plan.pool.position), d) for c, d in pairs]


CASES = {
    "numbers": lambda: designs(*zoo.planted(400)),
    "gaps, few values, categories": lambda: designs(*mixed_table(), degrees=None),
    "weights": lambda: designs(*zoo.planted(400), weight=np.random.default_rng(0).integers(1, 4, 400)),
    "several outputs": lambda: designs(*three(), shared=True),
    "one output each": lambda: designs(*three()),
}


@pytest.fixture(params=CASES, scope="module")
def pair(request):
    """Rows against sums."""
    return CASES[request.param]()


class TestDesignFromSums:
    """Both half steps and the refit are the same problems as from kernel values."""

    def test_totals(self, pair):
        for rows, sums in pair:
            assert sums.total_weight == pytest.approx(rows.total_weight)
            assert sums.energy == pytest.approx(rows.energy)
            np.testing.assert_allclose(sums.target_mean, rows.target_mean)
            np.testing.assert_array_equal(sums.candidate_targets, rows.candidate_targets)

    def test_instance_problem(self, pair, rng):
        for rows, sums in pair:
            weights = rng.normal(size=rows.n_kernels)
            self.same(rows.instance_problem(weights, 1.0), sums.instance_problem(weights, 1.0))

    def test_kernel_problem(self, pair, rng):
        for rows, sums in pair:
            idx = np.array([3, 17, 40])
            unit = rng.normal(size=(3, rows.n_outputs))
            self.same(rows.kernel_problem(idx, unit, 1.0), sums.kernel_problem(idx, unit, 1.0))

    def same(self, one, two):
        np.testing.assert_allclose(two.diagonal, one.diagonal, atol=1e-6 * one.diagonal.max())
        np.testing.assert_allclose(two.cross, one.cross, atol=1e-6 * np.abs(one.cross).max())
        idx = np.arange(one.size)
        np.testing.assert_allclose(two.columns(idx), one.columns(idx), atol=1e-6 * one.diagonal.max())
        assert two.energy == pytest.approx(one.energy)

    def test_pairs(self, pair):
        for rows, sums in pair:
            chosen = np.array([5, 9]), np.arange(rows.n_kernels)[:3]
            np.testing.assert_allclose(sums.pair_means(*chosen), rows.pair_means(*chosen), atol=1e-6)
            for one, two in zip(rows.pair_products(*chosen), sums.pair_products(*chosen), strict=True):
                assert one.shape == two.shape
                np.testing.assert_allclose(two, one, atol=1e-6 * np.abs(one).max())

    def test_a_changed_copy_has_problems_of_its_own(self, pair):
        (rows, _), *_ = pair
        weights = np.ones(rows.n_kernels)
        before = rows.instance_problem(weights, 1.0)
        after = replace(rows, targets=-rows.targets).instance_problem(weights, 1.0)
        np.testing.assert_allclose(after.cross, -before.cross)

    @pytest.mark.parametrize("coupling", ["rank_one", "full"])
    def test_solutions_and_coefficients_on_the_same_supports(self, pair, coupling):
        for rows, sums in pair:
            task = Task(sums, 0.01, 6, 3)
            solution = method.solve(task)
            one = coefficients(Task(rows, 0.01, 6, 3), solution.state, coupling=coupling)
            two = coefficients(task, solution.state, coupling=coupling)
            scale = np.abs(one.coef).max()
            np.testing.assert_allclose(two.coef, one.coef, atol=1e-4 * scale)
            np.testing.assert_allclose(two.intercept, one.intercept, atol=1e-4 * scale)
            assert method.objective(Task(rows, 0.01, 6, 3), solution.state) == pytest.approx(
                solution.objective, rel=1e-5
            )

    def test_residual_gives_the_squared_error(self, pair):
        for rows, sums in pair:
            solution = method.solve(Task(sums, 0.01, 5, 2))
            c = coefficients(Task(sums, 0.01, 5, 2), solution.state)
            values = rows.stack.take(cols=c.instances, kernels=c.kernels)
            F = c.intercept + sum(values.one(m) @ c.coef[:, :, m].T for m in range(len(c.kernels)))
            wanted = rows.sample_weight @ np.sum((F - rows.targets) ** 2, axis=1)
            plain = sums.sums.centred + sums.sums.weight * np.outer(sums.sums.mean, sums.sums.mean)
            r = sums.residual(c)
            assert np.sum(r * (plain @ r)) == pytest.approx(wanted, rel=1e-5)


def both(X, y, **options):
    options = {"calibration": None, **options}
    return (EM2NOLCClassifier(8, 4, engine=e, **options).fit(X, y) for e in ("dense", "statistics"))


class TestFit:
    @pytest.mark.parametrize(
        "options",
        [
            {"bandwidth": "median"},
            {"scaling": "rank"},
            {"class_weight": "balanced"},
            {"missing": "median", "bandwidth": 1.0},
            {"coupling": "full"},
            {"refit": "logistic"},
            {"coupling": "full", "refit": "logistic"},
            {"solver": "admm"},
        ],
        ids=str,
    )
    def test_as_good_as_dense(self, options):
        X, y = mixed_table()
        dense, summed = both(X, y, **options)
        assert summed.objective_ <= 1.03 * dense.objective_
        assert summed.score(X, y) > dense.score(X, y) - 0.03

    def test_decisions_agree_on_the_same_supports(self):
        X, y = mixed_table()
        dense, summed = both(X, y)
        assert set(summed.instances_) == set(dense.instances_)
        assert set(summed.features_) == set(dense.features_)
        np.testing.assert_allclose(summed.decision_function(X), dense.decision_function(X), atol=1e-4)
        assert summed.objective_ == pytest.approx(dense.objective_, rel=1e-5)

    @pytest.mark.parametrize("shared", [False, True])
    def test_several_classes(self, shared):
        X, y = load_wine(return_X_y=True)
        dense, summed = both(X, y, shared_support=shared)
        assert summed.score(X, y) > 0.95
        assert summed.objective_ <= 1.02 * dense.objective_
        assert summed.explain(X).by_instance.shape[1] == 3

    def test_explanations_add_up(self):
        X, y = mixed_table()
        clf = EM2NOLCClassifier(6, 3, engine="statistics").fit(X, y)
        explained = clf.explain(X)
        np.testing.assert_allclose(explained.decision[:, 0], clf.decision_function(X), atol=1e-9)
        assert set(clf.instance_labels_) <= set(X.index)

    def test_order_of_rows_does_not_matter(self):
        X, y = zoo.planted(300)
        rows = np.random.default_rng(0).permutation(300)
        one, two = (EM2NOLCClassifier(6, 3, engine="statistics").fit(A, b) for A, b in ((X, y), (X[rows], y[rows])))
        np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-8)
        np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-6)
        assert set(rows[two.instances_]) == set(one.instances_)

    def test_columns_in_single_precision_are_summed_in_double(self):
        X, y = zoo.planted(300)
        single, clf = X.astype(np.float32), EM2NOLCClassifier(6, 3, engine="statistics")
        wanted = clf.fit(single.astype(float), y).decision_function(X)
        for source in ((single, y), ([(single[:170], y[:170]), (single[170:], y[170:])],)):
            np.testing.assert_allclose(clf.fit(*source).decision_function(X), wanted, atol=1e-8)

    def test_automatic_engine_goes_by_size_and_kernels(self, monkeypatch):
        X, y = zoo.planted(300)
        assert self.engine_of(X, y) == "rows"
        monkeypatch.setattr("tamis.statistics.fit.MAX_DENSE_BYTES", 1000)
        assert self.engine_of(X, y) == "sums"
        assert self.engine_of(X, y, kernels=product("all")) == "rows"
        assert self.engine_of(X, y, kernels=per_feature(Laplacian())) == "rows"
        assert self.engine_of(X, y, engine="streaming") == "rows"
        assert self.engine_of(X, y, solver="paper", max_iter=2, tol=1e9) == "rows"
        monkeypatch.setattr("tamis.statistics.plan.MAX_BYTES", 1000)
        assert self.engine_of(X, y) == "rows"

    def engine_of(self, X, y, **options):
        clf = EM2NOLCClassifier(4, 8, calibration=None, **options)
        seen = []
        original = clf._learn_prepared
        clf._learn_prepared = lambda prepared, *a, **k: (
            seen.append(type(prepared).__name__) or original(prepared, *a, **k)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf.fit(X, y)
        return {"PreparedRows": "rows", "PreparedSums": "sums"}[seen[0]]

    def test_unsuitable_kernels_are_refused_when_the_engine_is_asked_for(self, monkeypatch):
        X, y = zoo.planted(100)
        for match, options in (
            ("kernels of one column", {"kernels": product("all")}),
            ("no short form of the kernel of 'x0'", {"kernels": per_feature(Laplacian())}),
            ("solver='paper' works on rows", {"solver": "paper"}),
        ):
            with pytest.raises(ValueError, match=match):
                EM2NOLCClassifier(engine="statistics", **options).fit(X, y)
        monkeypatch.setattr("tamis.statistics.plan.MAX_BYTES", 1000)
        with pytest.raises(ValueError, match=r"more than a gibibyte.*another engine"):
            EM2NOLCClassifier(engine="statistics").fit(X, y)

    def test_narrow_bandwidths_go_to_panels_not_to_wrong_answers(self):
        X, y = zoo.planted(400)
        dense, summed = both(X, y, bandwidth=0.05)
        assert summed.objective_ == pytest.approx(dense.objective_, rel=0.02)
        assert np.abs(summed.decision_function(X)).max() < 3
        assert dense.score(X, y) == pytest.approx(summed.score(X, y), abs=0.03)

    def test_cells_beyond_the_limits_are_counted(self):
        X, y = zoo.planted(5000)
        X[:3, 1] = 1e9
        clf = EM2NOLCClassifier(2, 2, engine="statistics", calibration=None).fit(X, y)
        assert clf.outside_["x1"] >= 3
        clf.set_params(engine="streaming", candidates=50).fit(X[7:300], y[7:300])
        assert not hasattr(clf, "outside_")

    def test_copies_of_columns_are_told_apart_by_position(self):
        X, y = zoo.planted(600)
        X = np.c_[X, X]
        kept = set()
        for seed in range(3):
            rows = np.random.default_rng(seed).permutation(600)
            clf = EM2NOLCClassifier(4, 2, engine="statistics", calibration=None).fit(X[rows], y[rows])
            kept.add(tuple(clf.features_.tolist()))
        assert kept == {(1, 4)}

    def test_cancellation_is_announced(self):
        X, y = zoo.planted(3000)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            EM2NOLCClassifier(10, 5, engine="statistics", alpha=0, bandwidth=100.0, calibration=None).fit(X, y)
        assert any("digits cancel" in str(w.message) for w in caught), [str(w.message) for w in caught]

    def test_falling_back_to_rows_for_want_of_memory_is_announced(self, monkeypatch):
        monkeypatch.setattr("tamis.statistics.fit.MAX_DENSE_BYTES", 1000)
        monkeypatch.setattr("tamis.statistics.plan.MAX_BYTES", 1000)
        with pytest.warns(UserWarning, match="engine='auto' works on rows, which may take long"):
            EM2NOLCClassifier(3, 2, calibration=None).fit(*zoo.planted(100))

    def test_zero_weights_are_as_good_as_absent_rows(self):
        X, y = zoo.planted(300)
        w = np.r_[np.ones(200), np.zeros(100)]
        one = EM2NOLCClassifier(5, 3, engine="statistics").fit(X, y, sample_weight=w)
        two = EM2NOLCClassifier(5, 3, engine="statistics").fit(X[:200], y[:200])
        np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-8)

    def test_ridge_shrinks_with_the_number_of_rows(self):
        X, y = zoo.planted(4000)
        clf = EM2NOLCClassifier(2, 1, engine="statistics", calibration=None)
        assert clf.fit(X, y).alpha_ == pytest.approx(0.005)
        assert clf.fit(X[:500], y[:500]).alpha_ == 0.01
        assert clf.set_params(alpha=0.3).fit(X, y).alpha_ == 0.3

    def test_nothing_but_kept_rows_is_stored(self):
        X, y = zoo.planted(3000)
        clf = EM2NOLCClassifier(5, 3, engine="statistics").fit(X, y)
        import pickle

        assert len(pickle.dumps(clf)) < 20_000


class TestExactRefit:
    """Where a choice hangs on less than the error of the short forms, exact kernels have the last word."""

    def test_close_choices_are_refitted_exactly(self, monkeypatch):
        X, y = mixed_table()
        used = []
        original = sums_module.refit_exactly
        monkeypatch.setattr(
            sums_module,
            "refit_exactly",
            lambda *a, **k: used.append(1) or original(*a, **k),
        )
        copies = X.assign(e=X["a"] + 1e-9 * X["c"])  # choosing between a and e hangs on nothing
        clf = EM2NOLCClassifier(6, 3, engine="statistics", calibration=None).fit(copies, y)
        assert used
        dense = EM2NOLCClassifier(6, 3, engine="dense", calibration=None).fit(copies, y)
        assert clf.objective_ == pytest.approx(dense.objective_, rel=0.02)

    @pytest.mark.parametrize("weights", [None, {"no": 1, "yes": 5}])
    def test_coefficients_and_objective_are_those_of_exact_kernels(self, weights, monkeypatch):
        X, y = mixed_table()
        monkeypatch.setattr(sums_module, "doubts", lambda *a: True)
        options = {"engine": "statistics", "calibration": None, "class_weight": weights}
        clf = EM2NOLCClassifier(6, 3, **options).fit(X, y)
        rows = rows_of(clf, X, y)
        Z = clf.model_.encode(rows.table)
        stack = clf.model_.expansion.bank.stack(Z, clf.model_.expansion.instances, form="dense")
        task = Task(RowDesign(stack, rows.targets, rows.weight, clf.instances_), 0.01, 6, 3, thorough=False)
        state = State(np.arange(6), clf.dual_coef_[:, None], np.arange(3), clf.kernel_weights_)
        assert method.objective(task, state) == pytest.approx(clf.objective_, rel=1e-8)
        again = method.kernel_step(task, state)
        np.testing.assert_allclose(again.weights, clf.kernel_weights_, rtol=1e-6)  # they solve the exact problem

    @pytest.mark.filterwarnings("ignore:the squared error is")
    @pytest.mark.parametrize("coupling", ["rank_one", "full"])
    def test_the_refit_matters_where_short_forms_are_poor(self, coupling, monkeypatch):
        X, y = zoo.planted(500)
        original = chebyshev_module.Chebyshev.coefficients
        noisy = lambda self, kernel, s: original(self, kernel, s) * (1 + 0.2 * np.cos(np.arange(self.size)))  # noqa: E731
        found = []
        for exact in (False, True):
            with monkeypatch.context() as patch:
                patch.setattr(chebyshev_module.Chebyshev, "coefficients", noisy)
                patch.setattr(sums_module, "doubts", lambda *a, exact=exact: exact)
                options = {"calibration": None, "alpha": 1e-4, "coupling": coupling}
                clf = EM2NOLCClassifier(5, 2, engine="statistics", **options).fit(X, y)
            found.append(np.mean((clf.decision_function(X) - np.where(y == 1, 1, -1)) ** 2))
        assert found[1] < 0.99 * found[0]

    def test_doubt_measures_the_error_of_the_short_forms(self, monkeypatch):
        X, y = zoo.planted(600)
        seen = []
        original = sums_module.doubts
        spy = lambda *a: seen.append(original(*a)) or seen[-1]  # noqa: E731
        monkeypatch.setattr(sums_module, "doubts", spy)
        EM2NOLCClassifier(2, 2, engine="statistics", calibration=None).fit(X, y)
        exact = chebyshev_module.Chebyshev.coefficients
        poor = lambda self, kernel, s: exact(self, kernel, s) * (1 + 0.1 * np.cos(np.arange(self.size)))  # noqa: E731
        monkeypatch.setattr(chebyshev_module.Chebyshev, "coefficients", poor)
        EM2NOLCClassifier(2, 2, engine="statistics", calibration=None).fit(X, y)
        assert seen == [False, True]

    def test_poor_short_forms_are_announced_where_no_refit_can_follow(self, monkeypatch):
        X, y = zoo.planted(600)
        stats = Statistics(Plan.of(X, y)).update(X, y)
        exact = chebyshev_module.Chebyshev.coefficients
        poor = lambda self, kernel, s: exact(self, kernel, s) * (1 + 0.1 * np.cos(np.arange(self.size)))  # noqa: E731
        monkeypatch.setattr(chebyshev_module.Chebyshev, "coefficients", poor)
        with pytest.warns(UserWarning, match="move decisions by up to"):
            EM2NOLCClassifier(2, 2).fit_statistics(stats)
        monkeypatch.setattr(sums_module, "MAX_PAIRS", 3)
        with pytest.warns(UserWarning, match="move decisions by up to"):
            EM2NOLCClassifier(2, 2, engine="statistics", calibration=None).fit(X, y)

    def test_clear_choices_need_no_second_pass(self, monkeypatch):
        X, y = zoo.planted(600)
        monkeypatch.setattr(sums_module, "refit_exactly", None)
        EM2NOLCClassifier(2, 2, engine="statistics", calibration=None).fit(X, y)


class TestPolish:
    def test_finds_the_best_exchange_over_all_rows(self):
        X, y = zoo.planted(500)
        (rows, sums), *_ = designs(X, y)
        task = Task(sums, 0.01, 5, 2)
        state = method.solve(task).state
        plan = Plan.of(X, y, candidates=60, degrees=24, folds=1, winsorise=0)
        Z = plan.encoder.encode(read_table(X, list(plan.encoder.names), None, True))
        bank = plan.bank(None, per_feature(), 1.0)
        bases = plan.functions.bases

        def short(block):
            return [bases[m].coefficients(bank.channels[m].kernel, Z[block, m]) for m in state.kernels]

        found = better_rows(task, state, short, [slice(0, 200), slice(200, 500)])
        everything = RowDesign(bank.stack(Z, Z, form="dense"), rows.targets, rows.sample_weight, np.arange(500))
        value = method.solve(task).objective
        best = 0.0
        for j, old in enumerate(plan.pool.position[state.instances]):
            for i in range(500):
                at = np.append(np.delete(plan.pool.position[state.instances], j), i)
                problem = Task(everything, 0.01, 5, 2).instance_problem(
                    method.State(at, np.ones((5, 1)), state.kernels, state.weights)
                )
                gain = value - fit_support(problem, at).objective if i != old else 0.0
                if gain > best:
                    best, winner = gain, i
        assert best > 0
        assert winner in found

    def test_all_rows_as_candidates_lower_the_objective(self):
        X, y = zoo.planted(3000, d=5)
        few = EM2NOLCClassifier(5, 2, engine="statistics", calibration=None, random_state=0).fit(X, y)
        every = EM2NOLCClassifier(5, 2, engine="statistics", candidates="all", calibration=None).fit(X, y)
        assert every.objective_ < few.objective_
        assert every.instances_.max() < 3000
        np.testing.assert_allclose(every.explain(X[:5]).decision[:, 0], every.decision_function(X[:5]), atol=1e-9)

    def test_dense_engine_takes_all_rows_too(self):
        X, y = zoo.planted(1300, d=5)
        clf = EM2NOLCClassifier(2, 1, engine="dense", candidates="all", calibration=None).fit(X, y)
        assert len(clf.instances_) == 2


@pytest.fixture(scope="module")
def one():
    """Rows summed in three folds."""
    X, y = mixed_table()
    clf = EM2NOLCClassifier(engine="statistics", class_weight={"no": 1, "yes": 3}, calibration=3)
    return clf._sum(rows_of(clf, X, y, np.random.default_rng(0).integers(1, 3, len(y))), 0)


class TestFolds:
    """Nothing of a fold reaches the model that is judged on it."""

    def test_training_sums_leave_the_fold_out(self, one):
        parts = one.statistics.parts
        for fold in range(3):
            wanted = sum(parts[k] for k in range(3) if k != fold)
            np.testing.assert_allclose(one.summary(fold).sums, wanted, atol=1e-9)
            np.testing.assert_array_equal(one.held_out(fold).sums, parts[fold])

    def test_rows_of_a_fold_are_looked_at_on_one_side_only(self, one):
        for fold in range(3):
            train, test = one.summary(fold).sample, one.held_out(fold).sample
            assert not set(train.position) & set(test.position)
            assert test.weight.sum() == pytest.approx(one.statistics.parts[fold][0, 0])
            total = one.statistics.parts[:, 0, 0].sum()
            assert train.weight.sum() + test.weight.sum() == pytest.approx(total)
            assert one.summary(fold).rows is None

    def test_candidates_of_the_fold_are_left_out(self, one):
        plan = one.statistics.plan
        for fold in range(3):
            wanted = set(plan.pool.position[plan.pool_fold != fold])
            assert set(one.summary(fold).pool.position) == wanted

    def test_sums_and_rows_judge_alike(self, one):
        summary, held = one.summary(0), one.held_out(0)
        prepared = summary.prepare(None, per_feature(), 1.0)
        problems = [Task(d, 0.01, 5, 3, thorough=False) for d in prepared.designs(False)]
        point = Point(("k", 1.0, 0.01), (5, 3), prepared, problems, [method.solve(t) for t in problems])
        blocks = point.coefficients("rank_one", "squared")
        by_sums, by_rows = grid_module._Sums.of(held)(point, blocks), grid_module._Rows(held.sample)(point, blocks)
        assert by_sums.squares == pytest.approx(by_rows.squares, rel=1e-5)
        assert by_sums.weight == pytest.approx(by_rows.weight)
        np.testing.assert_allclose(by_sums.decision, by_rows.decision, atol=1e-4)

    def test_noise_cannot_be_learned(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(120, 4)), rng.integers(0, 2, 120)
        options = {"bandwidths": (0.1,), "alphas": (1e-4,), "rule": "largest", "engine": "statistics", "cv": 3}
        cv = EM2NOLCClassifierCV(20, 4, **options).fit(X, y)
        assert cv.path_["objective"][-1, -1] < 0.35  # it memorises ...
        assert cv.path_["squared_error"][-1, -1] > 1.0  # ... and is found out
        assert cv.path_["log_loss"][-1, -1] > 0.6

    def test_folds_that_cannot_be_used_are_announced(self):
        X, y = zoo.planted(100)
        with pytest.warns(UserWarning, match="of 5 folds are left out"):
            EM2NOLCClassifierCV(2, 2, engine="statistics", bandwidths=(1.0,)).fit(X, y, groups=np.arange(100) // 34)

    def test_a_class_that_cannot_be_held_out(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(400, 3)), np.zeros(400, int)
        X[0], y[0] = 4.0, 1  # one row
        with pytest.warns(UserWarning) as caught:
            clf = EM2NOLCClassifier(5, 3, engine="statistics").fit(X, y)
        assert any("nothing can be held out" in str(w.message) for w in caught)
        assert clf.score(X, y) == 1.0
        with pytest.raises(ValueError, match="no fold can be made"), pytest.warns(UserWarning, match="left out"):
            EM2NOLCClassifierCV(5, 3, engine="statistics").fit(X, y)

    def test_rare_classes_are_always_looked_at(self, monkeypatch):
        monkeypatch.setattr("tamis.statistics.profile.SAMPLE_ROWS", 300)
        monkeypatch.setattr("tamis.statistics.profile.MIN_CLASS_ROWS", 5)
        X, y = zoo.planted(3000)
        rare = np.where(np.arange(3000) % 200 == 0, 2, y)
        w = np.random.default_rng(0).integers(1, 4, 3000).astype(float)
        clf = EM2NOLCClassifier(engine="statistics", calibration=3)
        rows = rows_of(clf, X, rare, w)
        look = clf._sum(rows, 0).sample
        assert np.sum(look.codes == 2) == 5
        assert 250 < len(look) < 350
        for c in range(3):
            wanted = rows.weight[rows.codes == c].sum()
            assert look.weight[look.codes == c].sum() == pytest.approx(wanted)


class TestSecondLook:
    def test_missing_cells_go_by_the_plan(self):
        X, y = mixed_table()
        stats = Statistics(Plan.of(X, y)).update(X, y)
        clf = EM2NOLCClassifier(4, 2, missing=None).fit_statistics(stats, X, y)
        assert len(clf.predict(X)) == len(X)

    def test_class_weights_of_the_plan_hold(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 2))
        y = (X[:, 0] + rng.normal(size=2000) > 1.2).astype(int)
        stats = Statistics(Plan.of(X, y, class_weight="balanced", folds=3)).update(X, y)
        alone = EM2NOLCClassifier(5, 2).fit_statistics(stats)
        rows = EM2NOLCClassifier(5, 2).fit_statistics(stats, X, y)
        recall = [np.mean(clf.predict(X)[y == 1]) for clf in (alone, rows)]
        assert abs(recall[0] - recall[1]) < 0.08
        assert rows.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.03)

    def test_dictionaries_of_weights_mean_the_same_in_both_engines(self):
        X, y = mixed_table()
        dense, summed = both(X, y, class_weight={"no": 1, "yes": 5})
        assert summed.objective_ == pytest.approx(dense.objective_, rel=0.01)

    def test_rows_that_the_plan_does_not_know(self):
        X, y = mixed_table()
        stats = Statistics(Plan.of(X, y)).update(X, y)
        gaps = X.assign(a=X["a"].where(X["a"] < 1))
        with pytest.raises(ValueError, match="'a' has missing cells, but the plan saw none"):
            EM2NOLCClassifier().fit_statistics(stats, gaps, y)
        with pytest.raises(ValueError, match="groups must be given for all rows or for none"):
            EM2NOLCClassifier().fit_statistics(stats, X, y, groups=np.arange(len(y)))
        with pytest.raises(ValueError, match="y has the classes"):
            EM2NOLCClassifier().fit_statistics(stats, X, y == "yes")
        with pytest.raises(ValueError, match="solver='paper' works on rows"):
            EM2NOLCClassifier(solver="paper").fit_statistics(stats, X, y)


class TestCrossValidation:
    options = {"bandwidths": (1.0, 3.0), "alphas": (0.01,), "cv": 3, "engine": "statistics"}

    def test_squared_error_from_sums_is_the_error_on_held_out_rows(self):
        X, y = mixed_table()
        cv = EM2NOLCClassifierCV(4, 3, bandwidths=(1.0,), alphas=(0.01,), cv=KFold(3), engine="statistics").fit(X, y)
        errors = []
        plan = Plan.of(X, y, folds=1)
        for train, test in KFold(3).split(X):
            stats = Statistics(plan).update(X.iloc[train], y[train])
            clf = EM2NOLCClassifier(4, 3, alpha=0.01, calibration=None).fit_statistics(stats)
            errors.append((clf.decision_function(X.iloc[test]) - np.where(y[test] == "yes", 1, -1)) ** 2)
        wanted = np.concatenate(errors).mean()
        assert cv.scoring_ == "squared_error"
        assert cv.path_["squared_error"][-1, -1] == pytest.approx(wanted, rel=0.1)

    def test_path_has_every_score(self):
        X, y = mixed_table()
        cv = EM2NOLCClassifierCV(5, 4, **self.options).fit(X, y)
        for name in ("objective", "squared_error", "log_loss", "accuracy", "roc_auc"):
            assert cv.path_[name].shape == (len(cv.path_["max_instances"]), len(cv.path_["max_features"]))
        assert cv.score(X, y) > 0.8
        assert cv.predict_proba(X).shape == (len(X), 2)
        assert np.all(np.diff(cv.path_["objective"], axis=0) <= 1e-9)

    @pytest.mark.parametrize("scoring", ["log_loss", "accuracy", "roc_auc"])
    def test_other_scores_take_a_second_look_at_rows(self, scoring):
        X, y = mixed_table()
        cv = EM2NOLCClassifierCV(4, 2, scoring=scoring, **self.options).fit(X, y)
        assert cv.scoring_ == scoring
        assert cv.score(X, y) > 0.75

    def test_from_statistics_alone_and_with_rows(self):
        X, y = mixed_table()
        stats = Statistics(Plan.of(X, y, bandwidth=[1.0, 3.0], folds=3)).update(X, y)
        options = {"bandwidths": (1.0, 3.0), "alphas": (0.01,)}
        alone = EM2NOLCClassifierCV(4, 3, **options).fit_statistics(stats)
        rows = EM2NOLCClassifierCV(4, 3, **options).fit_statistics(stats, X, y)
        assert list(alone.path_) == ["max_instances", "max_features", "objective", "squared_error"]
        np.testing.assert_allclose(alone.path_["squared_error"], rows.path_["squared_error"])
        assert (alone.max_instances_, alone.max_features_) == (rows.max_instances_, rows.max_features_)
        assert not hasattr(alone, "predict_proba")
        assert rows.predict_proba(X).shape == (len(X), 2)
        judged = EM2NOLCClassifierCV(2, 2, **options, scoring="roc_auc").fit_statistics(stats, X, y)
        assert judged.scoring_ == "roc_auc"

    def test_groups_stay_together_in_the_second_look(self):
        X, y = mixed_table()
        groups = np.array([f"person {k}" for k in np.arange(len(y)) // 5])
        stats = Statistics(Plan.of(X, y, folds=3)).update(X, y, groups=groups)
        one = fold_sums(stats, rows_of(EM2NOLCClassifier(), X, y, groups=groups), groups)
        for fold in range(3):
            held = one.held_out(fold).sample
            assert held.mass.sum() == pytest.approx(stats.parts[fold][0, 0])

    def test_several_classes_variants_and_jobs(self):
        X, y = load_wine(return_X_y=True)
        options = {**self.options, "couplings": ("rank_one", "full"), "refits": ("squared", "logistic"), "cv": 2}
        one = EM2NOLCClassifierCV(3, 3, **options).fit(X, y)
        two = EM2NOLCClassifierCV(3, 3, n_jobs=2, **options).fit(X, y)
        np.testing.assert_array_equal(one.path_["squared_error"], two.path_["squared_error"])
        assert one.score(X, y) > 0.9

    def test_own_splitters(self):
        X, y = zoo.planted(300)
        folds = ((np.flatnonzero(np.arange(300) % 3 != k), np.flatnonzero(np.arange(300) % 3 == k)) for k in range(3))
        assert EM2NOLCClassifierCV(3, 2, **{**self.options, "cv": folds}).fit(X, y).n_splits_ == 3
        groups = np.arange(300) // 30
        cv = EM2NOLCClassifierCV(3, 2, **{**self.options, "cv": GroupKFold(3)}).fit(X, y, groups=groups)
        assert cv.n_splits_ == 3
        half = [(np.arange(100, 300), np.arange(100))]
        assert EM2NOLCClassifierCV(3, 2, **{**self.options, "cv": half}).fit(X, y).n_splits_ == 1
        with pytest.raises(ValueError, match="train on all rows which they do not test"):
            EM2NOLCClassifierCV(3, 2, **{**self.options, "cv": ShuffleSplit(3, random_state=0)}).fit(X, y)

    def test_squared_error_can_decide_with_the_dense_engine_too(self):
        X, y = zoo.planted(200)
        cv = EM2NOLCClassifierCV(4, 3, scoring="squared_error", bandwidths=(1.0,), cv=3).fit(X, y)
        assert cv.scoring_ == "squared_error"
        assert cv.path_["squared_error"].min() < 1


class TestPartialFit:
    def test_blocks_give_the_model_of_their_sum(self):
        X, y = mixed_table(900)
        clf = EM2NOLCClassifier(6, 3)
        for start in range(0, 900, 300):
            clf.partial_fit(X[start : start + 300], y[start : start + 300])
        plan = Plan.of(X[:300], y[:300], gaps="all", folds=1)
        once = EM2NOLCClassifier(6, 3).fit_statistics(Statistics(plan).update(X, y))
        np.testing.assert_array_equal(clf.instances_, once.instances_)
        np.testing.assert_allclose(clf.decision_function(X), once.decision_function(X), atol=1e-8)
        assert clf.statistics_.n_rows == 900

    @pytest.mark.filterwarnings("ignore:cells beyond the plan's ranges")
    def test_waits_for_all_classes(self):
        X, y = zoo.planted(200)
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
        clf = EM2NOLCClassifier(4, 2).partial_fit(X[:50], y[:50], classes=[0, 1])
        with pytest.raises(NotFittedError):
            clf.predict(X)
        assert clf.partial_fit(X[50:], y[50:]).score(X, y) > 0.5
        with pytest.raises(ValueError, match="name all of them in `classes`"):
            EM2NOLCClassifier(4, 2).partial_fit(X[:50], y[:50])

    def test_a_failed_call_changes_nothing(self):
        X, y = zoo.planted(400)
        clf = EM2NOLCClassifier(4, 2).partial_fit(X[:200], y[:200])
        with pytest.raises(ValueError, match="too narrow"):
            clf.set_params(bandwidth=0.1).partial_fit(X[200:], y[200:])
        assert clf.statistics_.n_rows == 200
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert clf.set_params(bandwidth=1.0).partial_fit(X[200:], y[200:]).statistics_.n_rows == 400
        with pytest.raises(ValueError, match="differ from those of the first call"):
            clf.partial_fit(X, y, classes=[0, 1, 2])

    @pytest.mark.filterwarnings("ignore:cells beyond the plan's ranges")
    def test_another_fit_starts_anew(self):
        X, y = zoo.planted(400)
        clf = EM2NOLCClassifier(4, 2).partial_fit(X[:200], y[:200]).fit(X, y)
        assert not hasattr(clf, "statistics_")
        assert clf.partial_fit(X[200:], y[200:]).statistics_.n_rows == 200

    def test_balanced_weights_need_all_rows(self):
        X, y = zoo.planted(100)
        with pytest.raises(ValueError, match="class_weight='balanced' needs all rows"):
            EM2NOLCClassifier(class_weight="balanced").partial_fit(X, y)


def test_streaming_engine_never_forms_the_whole_matrix(monkeypatch):
    X, y = zoo.planted(300)
    one = EM2NOLCClassifier(5, 3, engine="streaming", calibration=None).fit(X, y)
    monkeypatch.setattr("tamis.base.design.MEMORY", 1000)
    monkeypatch.setattr("tamis.kernels.stacks.base.MAX_BLOCK_VALUES", 10_000)
    monkeypatch.setattr("tamis.kernels.stacks.base.MAX_CHUNK_VALUES", 10_000)
    two = EM2NOLCClassifier(5, 3, engine="streaming", calibration=None).fit(X, y)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-6)
