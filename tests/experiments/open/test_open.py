"""The open benchmark: tables, splits, measures, runs and pages."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split
from typer.testing import CliRunner

from experiments.__main__ import app
from experiments.cells import Cell, Row
from experiments.method import Method, as_it_is
from experiments.open import comparison
from experiments.open.methods import METHODS, OnColumns, calibration_error, limited, scores
from experiments.open.page import Results, write_page
from experiments.open.tables import MAX_TRAIN, folder_of, problem_of
from experiments.peers import majority
from experiments.runner import Plan, reproduce
from experiments.store import Store
from tamis.errors import BadOption

COMMAND = "python -m experiments open"


@pytest.fixture
def folder(tmp_path):
    X, y = load_iris(return_X_y=True)
    folds = np.arange(len(y)) % 4
    for name, rows in (("iris", slice(None)), ("two", slice(50, None))):
        labels = np.unique(y[rows], return_inverse=True)[1]
        np.savez(tmp_path / f"{name}.npz", X=X[rows], y=labels, categorical=np.zeros(4, bool), fold_caiml=folds[rows])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 2))
    y = np.r_[np.repeat([0, 1], 4499), 2, 2]
    np.savez(tmp_path / "long.npz", X=X, y=y)
    return tmp_path


class TestTables:
    def test_splits_are_those_of_scikit_learn(self, folder):
        problem = problem_of(folder, "iris", "splits", 1)
        X, y = load_iris(return_X_y=True)
        train, test = train_test_split(np.arange(150), test_size=0.3, random_state=3004, stratify=y)
        np.testing.assert_array_equal(problem.train[0], X[train])
        np.testing.assert_array_equal(problem.test[1], y[test])
        assert problem.seed == 3004

    def test_rare_classes_and_rows_beyond_the_limits_are_left_out(self, folder):
        problem = problem_of(folder, "long", "splits", 0)
        assert problem.n_train == MAX_TRAIN and set(problem.y) == {0, 1}

    def test_published_folds_are_kept(self, folder):
        problem = problem_of(folder, "iris", "caiml", 3)
        np.testing.assert_array_equal(problem.test[0], load_iris().data[3::4])
        assert comparison(folder, "caiml").available == ["iris", "two"]

    def test_a_folder_without_tables_is_refused(self, tmp_path):
        with pytest.raises(BadOption, match="has no file"):
            folder_of(str(tmp_path))


class TestMeasures:
    def test_are_right_by_hand(self):
        y, P = np.array([0, 0, 1, 1]), np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.3, 0.7]])
        found = scores(y, P)
        assert found["accuracy"] == 75.0 and found["auc"] == 100.0
        assert found["log_loss"] == pytest.approx(-np.mean(np.log([0.9, 0.4, 0.8, 0.7])))
        assert found["ece"] == pytest.approx((0.1 + 0.6 + 0.2 + 0.3) / 4)

    def test_a_certain_and_wrong_answer_has_a_finite_loss(self):
        assert 30 < scores(np.array([0, 1]), np.array([[0.0, 1.0], [0.0, 1.0]]))["log_loss"] * 2 < 40

    def test_confidence_that_is_right_on_average_has_no_calibration_error(self):
        y = np.array([0, 0, 0, 1])
        assert calibration_error(y, np.tile([0.75, 0.25], (4, 1))) == pytest.approx(0.0)

    def test_a_fit_that_takes_too_long_is_stopped(self):
        with pytest.raises(TimeoutError, match="had not ended"), limited(0.05):
            time.sleep(5)
        with limited(0.05):
            pass
        time.sleep(0.06)


def small(folder, **more):
    """The comparison with few quick methods."""
    methods = {name: METHODS[name] for name in ("tamis@5", "tree", "boosting")}
    return replace(comparison(folder, splits=2), methods=methods | more, main="tamis@5")


class TestRuns:
    def test_rows_have_all_measures_and_are_kept(self, folder, tmp_path):
        paper, store = small(folder), Store(tmp_path / "rows.sqlite")
        plan = Plan(("open",), ("honest",), "full", ("two",), known={"open": paper})
        assert reproduce(plan, store).ran == 6 and reproduce(plan, store).ran == 0
        rows = {row.cell.method: row for row in store.rows()}
        assert set(rows) == {"tamis@5", "tree", "boosting"}
        own = rows["tamis@5"]
        assert set(paper.measures) <= set(own.measures) and own.extra["columns"] == 4
        assert own.measures["n_features"] == len(own.extra["features"]) <= 4
        assert "n_terms" not in rows["tree"].measures and rows["tree"].measures["bytes"] > 100

    def test_a_failure_is_a_row(self, folder, tmp_path):
        def broken(problem, quick):
            raise RuntimeError("no luck")

        paper, store = small(folder, broken=Method(broken)), Store(tmp_path / "rows.sqlite")
        plan = Plan(("open",), ("honest",), "full", ("two", "broken"), known={"open": paper})
        assert reproduce(plan, store).failed == 2 and "no luck" in store.rows()[0].error

    def test_probabilities_of_classes_that_training_rows_lack_are_zero(self, folder, tmp_path):
        def two(problem, quick):
            kept = replace(problem, X=np.delete(problem.X, 0, 0), y=np.minimum(np.delete(problem.y, 0), 1))
            return replace(as_it_is(kept, majority(kept, quick).fresh), test=problem.test[0])

        paper, store = small(folder, two=Method(two)), Store(tmp_path / "rows.sqlite")
        reproduce(Plan(("open",), ("honest",), "full", ("iris", "two"), known={"open": paper}), store)
        assert all(row.status == "ok" for row in store.rows() if row.cell.method == "two")

    def test_a_model_on_some_columns_needs_these(self):
        class Echo:
            classes_ = np.array([0, 1])

            def predict_proba(self, X):
                return X

        assert OnColumns(Echo(), [2, 0]).predict_proba(np.arange(6.0).reshape(2, 3)).tolist() == [[2, 0], [5, 3]]


class TestPages:
    def rows(self, paper, values):
        """Rows of invented accuracies {method: value} on two splits of both tables."""
        size = {"rows": 100, "columns": 30, "classes": 2}
        return [
            Row(
                Cell("open", "honest", "full", name, split, "splits", method),
                {"accuracy": value + split, "log_loss": 1 - value / 100, "n_features": 3.0, "seconds": 1.0},
                seed=split,
                extra={**size, "features": [0, split, 2]},
            )
            for method, value in values.items()
            for name in ("iris", "two")
            for split in range(2)
        ]

    def test_a_page_has_means_differences_and_stability(self, folder, tmp_path):
        paper = small(folder)
        rows = self.rows(paper, {"tamis@5": 80.0, "tree": 70.0})
        written = write_page(Results(paper, rows), tmp_path, COMMAND)
        text = written[0].read_text()
        assert "| tamis@5 | 2 | 4 | 80.50 | 0.2000 |" in text
        assert "| tree | 2 | +10.00 ± 0.00 | -0.1000 ± 0.0000 | 2 / 0 / 0 |" in text
        assert "| tamis@5 | 0.67 |" in text and COMMAND in text

    def test_methods_are_compared_on_splits_that_both_have(self, folder, tmp_path):
        paper = small(folder)
        rows = self.rows(paper, {"tamis@5": 80.0, "tree": 70.0})
        rows = [r for r in rows if not (r.cell.method == "tree" and r.cell.split == 1)]
        results = Results(paper, rows)
        assert results.gaps("tamis@5", "tree", "accuracy") == {"iris": 10.0, "two": 10.0}

    def test_the_command_runs_and_writes(self, folder, tmp_path):
        out = tmp_path / "out"
        asked = ["open", "--part", str(folder), "--tables", "two", "--methods", "tree", "--splits", "1"]
        found = CliRunner().invoke(app, [*asked, "--out", str(out)])
        assert found.exit_code == 0 and "1 of 1 cells ran" in found.output
        assert "tree" in (out / "open.md").read_text()
        assert CliRunner().invoke(app, [*asked, "--folds", "none", "--out", str(out)]).exit_code != 0
