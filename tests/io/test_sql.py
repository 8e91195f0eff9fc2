"""Models as SQL say what they say in Python, in SQLite and in DuckDB."""

from __future__ import annotations

import sqlite3

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from tamis import (
    AbsentMKLClassifier,
    EM2NOLCClassifier,
    Job,
    KernelBank,
    L0MKLClassifier,
    LassoADMM,
    SimpleMKLClassifier,
    TamisClassifier,
    TamisRegressor,
    bandwidths,
    per_feature,
    per_group,
    precomputed,
    product,
    run,
)
from tamis.io import to_sql
from tamis.kernels.bank import Channel
from tamis.kernels.base import Categorical, Epanechnikov, Gaussian, Laplacian, Normalised, Polynomial, Sigmoid
from tamis.kernels.composed import ScaledGaussian, Whole

from small_fits import SMALL, Peak, Product, Widths, fitted, mixed, quick

duckdb = pytest.importorskip("duckdb")


class SQLite:
    def __init__(self, frame, table):
        self.connection = sqlite3.connect(":memory:")
        try:
            self.connection.execute("SELECT exp(1), tanh(1), sqrt(1), power(1, 1)")
        except sqlite3.OperationalError:  # built without them
            for name, count in (("exp", 1), ("tanh", 1), ("sqrt", 1), ("power", 2)):
                self.connection.create_function(name, count, getattr(np, name))
        frame.astype(dict.fromkeys(frame.select_dtypes("category"), object)).to_sql(table, self.connection, index=False)

    def rows(self, statement):
        return self.connection.execute(statement).fetchall()


class DuckDB:
    def __init__(self, frame, table):
        self.connection = duckdb.connect()
        self.connection.register("frame", frame)
        self.connection.execute(f"CREATE TABLE {quoted(table)} AS SELECT * FROM frame")

    def rows(self, statement):
        return self.connection.execute(statement).fetchall()


ENGINES = pytest.mark.parametrize("engine", [SQLite, DuckDB])


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def scores(engine, model, frame, table="t", **options):
    rows = engine(frame, table).rows(f"SELECT {to_sql(model, **options)} AS score FROM {quoted(table)}")
    return np.array(rows, dtype=float)[:, 0]


def agree(engine, model, frame, tolerance=1e-9, **options):
    expected = model.decision_function(frame) if hasattr(model, "classes_") else model.predict(frame)
    if expected.ndim == 2:
        expected = expected[:, model.classes_.tolist().index(options["output"])]
    found = scores(engine, model, frame, **options)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max()))


def gappy(n=40, seed=3):
    """Rows like those of `mixed`, with more missing cells, values beyond the range and a category never seen."""
    X, _ = mixed(n, seed)
    X["c"] = X["c"].astype(object)
    X.loc[::3, "v"] = np.nan
    X.loc[::4, "c"] = None
    X.loc[1::5, "u"] *= 100
    X.loc[2, "c"] = "what's this?"
    X.loc[6, ["u", "v", "c"]] = [np.nan, np.nan, None]
    return X


ADDITIVE = ["TamisClassifier", "TamisRegressor", "EM2NOLCClassifier", "EM2NOLCClassifierCV", "L0MKLClassifier"]
ADDITIVE += ["L0MKLClassifierCV", "ZeroOneMKLClassifier", "AbsentMKLClassifier", "AbsentMKLClassifierCV"]
ADDITIVE += ["SimpleMKLClassifier", "EasyMKLClassifier", "AverageMKLClassifier", "FeatureScalingSVC", "LinearL0SVC"]
ADDITIVE += ["LinearSVMADMM", "KernelSVMADMM", "LassoADMM"]


@ENGINES
@pytest.mark.parametrize("name", ADDITIVE)
def test_every_additive_model(name, engine):
    if engine is DuckDB and name in ("EasyMKLClassifier", "AverageMKLClassifier"):
        pytest.skip("the kernels of SimpleMKLClassifier, but more of them, which take long to plan")
    agree(engine, fitted(name), gappy())


@pytest.mark.parametrize("name", ["IMKPLClassifier", "PrototypeSelectionClassifier", "ChannelBaselineClassifier"])
def test_models_that_are_no_sum_are_refused(name):
    with pytest.raises(ValueError, match=rf"the decision of {name} is no sum of kernels with fixed coefficients"):
        to_sql(fitted(name))


def bank(kernel, columns=(0, 1)):
    return KernelBank((Channel("own", kernel, columns),))


KERNELS = {
    "Gaussian": bank(Gaussian(0.7, (0.0, 0.0, 2.0)), (0, 1, 2)),
    "Gaussian of a category": bank(Gaussian(0.7, (2.0,)), (2,)),
    "narrow Gaussian": bank(Gaussian(0.01)),
    "ScaledGaussian": bank(ScaledGaussian((2.0, 0.0, 0.5), (0.0, 0.0, 1.0)), (0, 1, 2)),
    "ScaledGaussian of one": bank(ScaledGaussian((0.0, 2.0))),
    "ScaledGaussian of a category": bank(ScaledGaussian((0.0, 2.0), (0.0, 1.0)), (0, 2)),
    "Laplacian": bank(Laplacian(0.5)),
    "Epanechnikov": bank(Epanechnikov(2.0)),
    "Polynomial": bank(Polynomial(3, 0.5)),
    "linear": bank(Polynomial(1, 0.0)),
    "Sigmoid": bank(Sigmoid(0.5, 0.2)),
    "Sigmoid of one": bank(Sigmoid(50.0, 0.2), (1,)),
    "several widths": bank(Widths((3.0, 1.0, 0.3), (0.0, 0.0, 2.0)), (0, 1, 2)),
    "product": bank(Product((Gaussian(1.0), Widths((1.0, 0.2))))),
    "product with a category": bank(Product((Gaussian(1.0), Gaussian(1.0, (1.0,)))), (1, 2)),
    "categories": per_feature(),
    "scaled to unit norm": bank(Normalised(Polynomial(2, 1.0)), (0, 1)),
    "categories of unit norm": bank(Normalised(Categorical()), (1, 2)),
    "of complete rows": bank(Whole(Gaussian(1.0)), (0, 1)),
    "unknown to the package": bank(Peak(), (0, 1)),
}


@ENGINES
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_kernel(kernel, engine):
    X, y = mixed()
    X.loc[::5, "v"] = np.nan
    clf = EM2NOLCClassifier(max_instances=8, max_features=3, kernels=KERNELS[kernel], calibration=None).fit(X, y)
    assert len(clf.instances_)
    agree(engine, clf, gappy())


@ENGINES
@pytest.mark.parametrize(
    "clf",
    [
        EM2NOLCClassifier(**SMALL, scaling="rank", missing="median"),
        EM2NOLCClassifier(**SMALL, scaling=None, kernels=per_feature() + product(), coupling="full"),
        AbsentMKLClassifier(kernels=per_group({"a": ["u", "c"], "b": ["v"]}), pattern_weight="share", calibration=None),
        SimpleMKLClassifier(kernels=bandwidths([0.5, 1.0], on="both"), missing="median", calibration=None),
        L0MKLClassifier(kernels=per_feature(Sigmoid(0.5)), scaling="rank", calibration=None),
    ],
    ids=lambda clf: f"{type(clf).__name__} {clf.scaling} {clf.missing}",
)
def test_scalings_fills_and_groups(clf, engine):
    agree(engine, clf.fit(*mixed()), gappy())


@ENGINES
def test_whole_numbers_categories_that_are_numbers_and_flags(engine):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"n": rng.integers(-5, 50, 60), "stage": rng.integers(1, 4, 60), "flag": rng.random(60) < 0.5})
    y = (X["n"] / 7 + X["flag"] * (X["stage"] == 2)) > 3
    clf = TamisClassifier(max_instances=5, max_features=3, cv=2, categorical_features=["stage", "flag"]).fit(X, y)
    X = pd.concat([X, pd.DataFrame({"n": [2**40, 7], "stage": [9, 1], "flag": [True, False]})])
    agree(engine, clf, X)


NAMES = ['a "quoted" name', "it's", "select", "größe in µm; DROP TABLE t", "tamis_0", "Score"]


@ENGINES
def test_names_of_any_kind(engine):
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(60, 6)), columns=NAMES)
    clf = LassoADMM(calibration=None).fit(X, X.sum(axis=1) > 0)
    assert len(clf.features_) == 6
    agree(engine, clf, X, table='from "here"')
    X["id"] = np.arange(60)
    rows = engine(X, 'from "here"').rows(to_sql(clf, 'from "here"', columns=["id"]))
    np.testing.assert_allclose([row[1] for row in rows], clf.decision_function(X[NAMES]), atol=1e-9)
    assert [row[0] for row in rows] == list(range(60))


@ENGINES
@pytest.mark.parametrize("scale", [1e-250, 1e-9, 1e12, 1e250])
def test_tiny_and_huge_numbers(scale, engine):
    X, y = mixed()
    X = X[["u", "v"]] * scale
    X["v"] += 1e3 * scale
    agree(engine, TamisClassifier(max_instances=5, max_features=2, cv=2).fit(X, y), X)


def test_numbers_that_are_none_count_as_missing_in_duckdb():
    X = gappy()[["u", "v"]]
    clf = quick("TamisClassifier").fit(*((a := mixed())[0][["u", "v"]], a[1]))
    engine = DuckDB(X, "t")
    engine.connection.execute("UPDATE t SET u = CAST('nan' AS DOUBLE) WHERE u IS NULL OR u > 5")
    engine.connection.execute("UPDATE t SET v = CAST('-inf' AS DOUBLE) WHERE v IS NULL")
    X.loc[X["u"] > 5, "u"] = np.nan
    found = np.array(engine.rows(f"SELECT {to_sql(clf)} FROM t"))[:, 0]
    np.testing.assert_allclose(found, clf.decision_function(X), atol=1e-9)


@ENGINES
def test_decimals_and_integers_do_not_round_in_duckdb_or_sqlite(engine):
    X, y = mixed()
    X = pd.DataFrame({"u": np.arange(60) % 7, "v": X["v"].round(2)})
    clf = quick("EM2NOLCClassifier").fit(X, y)
    database = engine(X, "t")
    kind = "DECIMAL(9, 2)" if engine is DuckDB else "NUMERIC"
    database.connection.execute(f"CREATE TABLE d AS SELECT u, CAST(v AS {kind}) AS v FROM t")
    np.testing.assert_allclose(
        np.array(database.rows(f"SELECT {to_sql(clf)} FROM d"))[:, 0], clf.decision_function(X), atol=1e-9
    )


@ENGINES
def test_a_statement_says_score_probability_and_class(engine):
    clf, X = fitted("TamisClassifier"), gappy()
    rows = engine(X, "t").rows(to_sql(clf, "t", columns=["v"]))
    _, score, probability, prediction = zip(*rows, strict=True)
    np.testing.assert_allclose(score, clf.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(probability, clf.predict_proba(X)[:, 1], atol=1e-9)
    assert list(prediction) == clf.predict(X).tolist()


@ENGINES
def test_several_classes_have_a_score_each(engine):
    data = load_iris(as_frame=True)
    X, y = data.data[::3], data.target_names[data.target[::3]]
    clf = TamisClassifier(max_instances=5, max_features=3, cv=2).fit(X, y)
    for output in clf.classes_:
        agree(engine, clf, X, output=output)
    rows = np.array(engine(X, "t").rows(to_sql(clf, "t")), dtype=object)
    np.testing.assert_allclose(rows[:, :3].astype(float), clf.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(rows[:, 3:6].astype(float), clf.predict_proba(X), atol=1e-9)
    assert rows[:, 6].tolist() == clf.predict(X).tolist()
    with pytest.raises(ValueError, match="output=None is not one of the classes"):
        to_sql(clf)


@ENGINES
def test_a_regressor_has_a_prediction(engine):
    model, X = fitted("TamisRegressor"), gappy()
    rows = engine(X, "t").rows(to_sql(model, "t"))
    np.testing.assert_allclose(np.array(rows)[:, 0], model.predict(X), atol=1e-9)


@ENGINES
def test_a_model_of_many_kernels_is_within_the_limits_of_databases(engine, cancer):
    X, y = (part[::4] for part in cancer)
    size = 20 if engine is SQLite else 8  # DuckDB has no limit of length, but takes long to plan
    clf = EM2NOLCClassifier(size, size, calibration=None).fit(X, y)
    assert len(clf.kernels_) > size // 2 and len(to_sql(clf)) < 900_000
    agree(engine, clf, X)


def test_a_model_that_kept_nothing_is_a_number():
    X, _ = mixed()
    with pytest.warns(UserWarning, match="kept no"):
        model = TamisRegressor(max_instances=3, max_features=2, cv=2).fit(X, np.full(60, 2.5))
    assert SQLite(X, "t").rows(f"SELECT {to_sql(model)} FROM t")[0] == (pytest.approx(2.5, rel=1e-12),)


def test_what_has_no_form_in_sql_is_refused_by_name():
    X, y = mixed()

    class Mine:
        positive = True

        def __call__(self, S, T):
            return np.exp(-np.abs(S[:, :1] - T[:, 0]))

    clf = EM2NOLCClassifier(**SMALL, kernels=[("own", Mine(), ["v"])], calibration=None).fit(X, y)
    with pytest.raises(ValueError, match="kernels: 'own': the kernel Mine has no form in SQL"):
        to_sql(clf)
    z = X["v"].to_numpy()
    kernels = precomputed(np.exp(-((z[:, None] - z) ** 2))[None])
    clf = SimpleMKLClassifier(kernels=kernels, calibration=None).fit(np.arange(60)[:, None], y)
    with pytest.raises(ValueError, match="column 'x0' holds positions in precomputed kernels"):
        to_sql(clf)
    frame = pd.DataFrame({"c": [1, "a", 2.5] * 20, "v": z})
    clf = EM2NOLCClassifier(**SMALL, categorical_features=["c"], kernels=product()).fit(frame, y)
    with pytest.raises(ValueError, match="column 'c' has text and numbers among its categories"):
        to_sql(clf)
    with pytest.raises(ValueError, match="names that SQL does not tell apart, 'Score' and 'score'"):
        to_sql(fitted("TamisClassifier"), "t", columns=["Score"])
    with pytest.raises(ValueError, match="needs a table to take them from"):
        to_sql(fitted("TamisClassifier"), columns=["u"])
    with pytest.raises(Exception, match="not fitted"):
        to_sql(EM2NOLCClassifier())


@ENGINES
def test_classes_that_differ_in_capitals_are_not_mixed_up(engine):
    X, _ = mixed(90)
    y = np.array(["Low", "low", "mid"])[np.arange(90) % 3]
    clf = EM2NOLCClassifier(**SMALL).fit(X[["v"]].assign(u=np.arange(90) % 3), y)
    with pytest.raises(ValueError, match="tell apart, 'score of Low' and 'score of low': rename one"):
        to_sql(clf, "t")
    frame = X[["v"]].assign(u=np.arange(90) % 3)
    for k, label in enumerate(clf.classes_):
        found = scores(engine, clf, frame, output=label)
        np.testing.assert_allclose(found, clf.decision_function(frame)[:, k], atol=1e-9)


@ENGINES
def test_a_row_that_the_model_would_refuse_has_no_score_and_no_prediction(engine):
    X, y = mixed()
    clf = EM2NOLCClassifier(**SMALL, missing=None).fit(X[["v"]].assign(w=X["v"] ** 2), y)
    frame = pd.DataFrame({"v": [0.1, None, 0.3], "w": [0.1, 0.2, None]})
    kept = [bool({0, 1} & set(clf.features_.tolist())), *(j in clf.features_ for j in (0, 1))]
    rows = engine(frame, "t").rows(to_sql(clf, "t"))
    assert kept[0] and [row[0] is None and row[-1] is None for row in rows] == [False, kept[1], kept[2]]


@ENGINES
@pytest.mark.parametrize("table", ["encoded", "scored", "tamis_encoded", "tamis_rows", "select"])
def test_tables_may_be_named_as_they_like(engine, table):
    X, _ = mixed()
    clf = fitted("EM2NOLCClassifier")
    rows = engine(X, table).rows(to_sql(clf, table))
    np.testing.assert_allclose([row[0] for row in rows], clf.decision_function(X), atol=1e-9)


def test_a_table_may_stand_in_a_schema():
    X, _ = mixed()
    clf = fitted("EM2NOLCClassifier")
    rows = SQLite(X, "t").rows(to_sql(clf, ("main", "t")))
    np.testing.assert_allclose([row[0] for row in rows], clf.decision_function(X), atol=1e-9)


def test_the_first_of_two_classes_has_the_opposite_score():
    X, _ = mixed()
    clf = fitted("EM2NOLCClassifier")
    np.testing.assert_allclose(scores(SQLite, clf, X, output="no"), -clf.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(scores(SQLite, clf, X, output="yes"), clf.decision_function(X), atol=1e-9)


def test_results_have_the_form_of_their_model():
    X, y = mixed()
    results = run(X.assign(y=y), Job("y", method="EM2NOLCClassifier", max_instances=2, max_features=2))
    assert to_sql(results) == to_sql(results.model)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"output": "nonsense"}, "output='nonsense' is not one of the classes"),
        ({"table": "t", "output": "yes"}, "output='yes' is for the expression alone"),
        ({"table": "t", "columns": "id"}, "columns='id': give names"),
        ({"table": "t", "columns": [1]}, "columns=\\[1\\]: give names"),
        ({"table": 3}, "table=3: give names"),
        ({"table": "t", "columns": ["u", "u"]}, "names that SQL does not tell apart, 'u' and 'u'"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        to_sql(fitted("EM2NOLCClassifier"), **options)


def test_columns_that_sql_does_not_tell_apart_and_other_models_are_refused():
    X, y = mixed()
    clf = LassoADMM(alpha=1e-3, calibration=None).fit(X[["v"]].assign(V=X["v"] ** 2), y)
    assert len(clf.features_) == 2
    with pytest.raises(ValueError, match="that the model needs have names that SQL does not tell apart, 'v' and 'V'"):
        to_sql(clf)
    with pytest.raises(ValueError, match="model=dict is not an estimator of tamis"):
        to_sql({})


@ENGINES
def test_ranks_of_numbers_that_are_close(engine):
    X = pd.DataFrame({"x": np.arange(12.0) % 6 * 1e-310})
    clf = EM2NOLCClassifier(3, 1, scaling="rank", calibration=None).fit(X, np.arange(12) % 6 > 2)
    assert len(clf.kernels_) == 1
    agree(engine, clf, pd.DataFrame({"x": np.arange(-2.0, 8.0) * 1e-310}))
