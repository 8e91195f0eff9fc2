"""Curves, surfaces and cases as SQL give what Python gives, in SQLite and in DuckDB."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tamis.io import to_sql

from additive_models import random_flagship, targets

duckdb = pytest.importorskip("duckdb")


class SQLite:
    def __init__(self, frame, table="t"):
        self.connection = sqlite3.connect(":memory:")
        try:
            self.connection.execute("SELECT exp(1)")
        except sqlite3.OperationalError:  # built without it
            self.connection.create_function("exp", 1, np.exp)
        frame.to_sql(table, self.connection, index=False)

    def rows(self, statement):
        return self.connection.execute(statement).fetchall()


class DuckDB:
    def __init__(self, frame, table="t"):
        self.connection = duckdb.connect()
        self.connection.register("frame", plain(frame))
        self.connection.execute(f'CREATE TABLE "{table}" AS SELECT * FROM frame')

    def rows(self, statement):
        return self.connection.execute(statement).fetchall()


def plain(frame):
    """Columns of one type each."""
    return frame.assign(flag=frame["flag"].astype("boolean")) if "flag" in frame else frame


ENGINES = pytest.mark.parametrize("engine", [SQLite, DuckDB])


def agrees(engine, made, tolerance=1e-12):
    scores, _ = made.parts()
    clf, database = made.estimator, engine(made.rows)
    outputs = clf.classes_ if scores.shape[1] > 1 else [None]
    for k, output in enumerate(outputs):
        found = np.array(database.rows(f"SELECT {to_sql(clf, output=output)} AS score FROM t"), dtype=float)[:, 0]
        np.testing.assert_allclose(found, scores[:, k], rtol=0, atol=tolerance * max(1, np.abs(scores).max()))
    return database, scores


@ENGINES
@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("missing", ["absent", "median", None])
@pytest.mark.parametrize("seed", range(3))
def test_expressions_give_the_scores(seed, missing, classes, engine):
    agrees(engine, random_flagship(seed, classes, missing=missing))


@ENGINES
@pytest.mark.parametrize("classes", [2, 3])
def test_statements_give_scores_probabilities_and_labels(classes, engine):
    made = random_flagship(9, classes)
    scores, _ = made.parts()
    clf = made.estimator
    found = np.array(engine(made.rows).rows(to_sql(clf, "t", columns=["age"])), dtype=object)
    q = scores.shape[1]
    np.testing.assert_allclose(found[:, 1 : 1 + q].astype(float), scores, atol=1e-12)
    probabilities = clf.calibrator_.probabilities(scores)[:, -q:]
    np.testing.assert_allclose(found[:, 1 + q : 1 + 2 * q].astype(float), probabilities, atol=1e-12)
    codes = (scores[:, 0] >= 0).astype(int) if q == 1 else np.argmax(scores, axis=1)
    assert found[:, -1].tolist() == clf.classes_[codes].tolist()


@ENGINES
def test_a_regressor_has_a_prediction(engine):
    made = random_flagship(9, 0)
    found = np.array(engine(made.rows).rows(to_sql(made.estimator, "t")), dtype=float)
    np.testing.assert_allclose(found, made.parts()[0], atol=1e-12)


@ENGINES
@pytest.mark.parametrize("kept", [[], [1], [4], [6], [1, 6], [5, 6], [2, 3]])
@pytest.mark.parametrize("cases", [0, 3])
def test_models_of_few_columns(kept, cases, engine):
    made = random_flagship(7, 2, kept=kept, cases=cases if kept else 0)
    agrees(engine, made)
    found = np.array(engine(made.rows).rows(to_sql(made.estimator, "t")), dtype=object)
    np.testing.assert_allclose(found[:, 0].astype(float), made.parts()[0][:, 0], atol=1e-12)


@ENGINES
def test_distances_that_no_exponential_can_take(engine):
    made = random_flagship(6, 2)
    model = made.estimator.model_
    object.__setattr__(model.cases, "gaps", model.cases.gaps * 2000.0)
    agrees(engine, made)


@ENGINES
def test_a_row_that_python_refuses_has_no_score_and_no_prediction(engine):
    made = random_flagship(4, 2, missing=None)
    rows = made.rows[:3].copy()
    rows.loc[0, "age"], rows.loc[1, "colour"] = np.nan, None
    found = engine(rows).rows(to_sql(made.estimator, "t"))
    assert [(row[0] is None, row[-1] is None) for row in found] == [(True, True), (True, True), (False, False)]


def test_numbers_that_are_none_are_missing_in_duckdb():
    made = random_flagship(3, 2)
    database = DuckDB(made.rows)
    database.connection.execute("UPDATE t SET age = CAST('nan' AS DOUBLE) WHERE age > 60")
    database.connection.execute("UPDATE t SET stage = CAST('inf' AS DOUBLE) WHERE stage = 2")
    rows = made.rows.assign(
        age=made.rows["age"].mask(made.rows["age"] > 60), stage=made.rows["stage"].mask(made.rows["stage"] == 2)
    )
    found = np.array(database.rows(f"SELECT {to_sql(made.estimator)} FROM t"), dtype=float)
    np.testing.assert_allclose(found, made.parts(rows)[0], atol=1e-12)


@pytest.mark.parametrize("name", ["*/ DROP TABLE t; /*", "/*/", "a\nb -- c", "*"])
@ENGINES
def test_names_cannot_leave_their_comments(name, engine):
    made = random_flagship(3, 2, kept=[1, 2])
    clf, old = made.estimator, "age"
    object.__setattr__(clf.model_.encoder, "names", (name, "income, in $"))
    clf.feature_names_in_ = np.array([name if n == old else n for n in made.train.columns], dtype=object)
    agrees(engine, made._replace(rows=made.rows.rename(columns={old: name})))


@ENGINES
def test_a_large_model_is_within_the_limits_of_databases(engine):
    made = random_flagship(1, 2)
    model, d = made.estimator.model_, 120
    wide = pd.concat([made.rows[["age"]].rename(columns={"age": f"a{j}"}) for j in range(d)], axis=1)
    encoder = replace(model.encoder, columns=model.encoder.columns[:1] * d, names=tuple(f"a{j}" for j in range(d)))
    made.estimator.model_ = replace(
        model,
        encoder=encoder,
        columns=np.arange(d),
        cells=model.cells[:1] * d,
        curves=model.curves[:1] * d,
        surfaces=(),
        cases=replace(model.cases, rows=np.zeros((0, d)), pull=np.zeros((0, 1))),
    )
    made.estimator.feature_names_in_ = np.array(encoder.names, dtype=object)
    made.estimator.n_features_in_ = d
    made.estimator.instance_labels_ = np.arange(0)
    made.estimator.reader_ = replace(made.estimator.reader_, categorical=None)
    agrees(engine, made._replace(rows=wide))


def test_features_are_named_in_comments():
    text = to_sql(random_flagship(0, 2).estimator)
    assert "/* income, in $ */ CASE" in text and "/* case 0 */" in text


@ENGINES
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_fits_agree_with_their_predictions(classes, engine):
    made = random_flagship(11, classes)
    y = targets(made.train, classes, np.random.default_rng(0))
    cls, named = type(made.estimator), ["stage", "flag", 'job\'s "kind"', "colour"]
    model = cls(6, 4, 3, cv=2, categorical_features=named).fit(made.train, y)
    found = np.array(engine(made.rows).rows(to_sql(model, "t")), dtype=object)
    wanted = model.decision_function(made.rows) if classes else model.predict(made.rows)
    wanted = wanted.reshape(len(found), -1)
    np.testing.assert_allclose(found[:, : wanted.shape[1]].astype(float), wanted, rtol=0, atol=1e-12)
    if classes:
        assert found[:, -1].tolist() == model.predict(made.rows).tolist()
