"""Experiments: the store, runs that are stopped, doubled or killed, and the pages."""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

from tamis import bandwidths
from tamis.cli.commands import app
from tamis.errors import BadOption
from tamis.experiments import PAPERS, Plan, datasets, pages, problem, reproduce, runner
from tamis.experiments.cells import FAILED, KEY, MEASURES, OK, UNSETTLED, Cell, Row
from tamis.experiments.method import Method, kept, measured, on_kernels, points, scores
from tamis.experiments.pages import html, markdown, page, verdict, write_index, write_pages
from tamis.experiments.peers import majority, svc
from tamis.experiments.problem import Problem, holdout, limited
from tamis.experiments.statistics import holm, mean_ranks, resampled, signed_ranks
from tamis.experiments.store import Store, _started
from tamis.experiments.summary import Table
from tamis.methods.baselines.mkl_estimators import AverageMKLClassifier

CELL = Cell("l01-svm", "honest", "quick", "quadrants", 0, "", "SVC")
SMALL = Plan(("l01-svm",), only=("quadrants", "SVC", "majority", "mean kernel"))


def row(cell=CELL, accuracy=90.0, **kw):
    return Row(cell, {"accuracy": accuracy, "seconds": 0.5}, **kw)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "rows.sqlite")


def raises(problem, quick):
    raise RuntimeError("no luck")


def dies(problem, quick):
    os._exit(3)


def slow(problem, quick):
    time.sleep(0.4)
    return majority(problem, quick)


def with_methods(monkeypatch, **methods):
    """The synthetic set with other methods."""
    own = {name.replace("_", " "): Method(run) for name, run in methods.items()}
    paper = replace(PAPERS["l01-svm"], methods=own, datasets={"quadrants": ""}, tell=None)
    monkeypatch.setitem(PAPERS, "l01-svm", paper)
    return paper


class TestStore:
    def test_a_row_comes_back_as_it_was(self, store):
        given = row(chosen={"C": 1.0}, extra={"scores": [0.1, 2.0]}, seed=4)
        assert store.add(given)
        assert store.rows() == [given] and store.done() == {CELL}

    def test_a_row_is_never_written_over(self, store):
        store.add(row(accuracy=90.0))
        assert not store.add(row(accuracy=10.0))
        assert [r.measures["accuracy"] for r in store.rows()] == [90.0]

    def test_numbers_that_are_none_and_arrays_are_stored(self, store):
        store.add(Row(CELL, {"accuracy": np.float64(80), "auc": float("nan")}, extra={"a": np.array([1.0, np.nan])}))
        found = store.rows()[0]
        assert found.measures == {"accuracy": 80.0} and found.extra == {"a": [1.0, None]}

    def test_rows_are_found_by_columns(self, store):
        other = replace(CELL, method="majority")
        store.add(row())
        store.add(row(other))
        assert [r.cell for r in store.rows(method="majority")] == [other]

    def test_failed_rows_may_be_forgotten(self, store):
        store.add(row(status=FAILED, error="x"))
        assert store.done() == {CELL} and store.done(failed=False) == set()
        store.forget([CELL])
        assert store.rows() == []

    def test_other_files_and_missing_folders_are_refused(self, tmp_path):
        (tmp_path / "a.csv").write_text("no database, but long enough to be taken for one\n" * 40)
        with pytest.raises(BadOption, match="no store of experiments"):
            Store(tmp_path / "a.csv")
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            Store(tmp_path / "none" / "rows.sqlite")
        with sqlite3.connect(tmp_path / "old.sqlite") as db:
            db.execute("PRAGMA user_version = 99")
        with pytest.raises(BadOption, match="of version 99"):
            Store(tmp_path / "old.sqlite")
        with sqlite3.connect(tmp_path / "other.sqlite") as db:
            db.execute("CREATE TABLE rows (a)")
        with pytest.raises(BadOption, match="a database of something else"):
            Store(tmp_path / "other.sqlite")

    def test_many_may_open_a_new_one_at_once(self, tmp_path):
        for k in range(20):
            with ThreadPoolExecutor(6) as pool:
                found = list(pool.map(Store, [tmp_path / f"{k}.sqlite"] * 6))
            assert found[0].add(row()) and len(found[5].rows()) == 1

    def test_what_one_run_has_claimed_another_leaves(self, store):
        other = Store(store.path)
        parent = os.getppid()
        other.owner = f"{other.owner.split(':')[0]}:{parent}:{_started(parent)}"
        second = replace(CELL, split=1)
        assert list(store.claimed([[CELL]])) == [[CELL]] and store.mine() == [CELL]
        assert list(other.claimed([[CELL, second]])) == [[second]]
        store.release()
        assert list(other.claimed([[CELL]])) == [[CELL]]
        other.add(row())
        assert other.mine() == [second] and list(store.claimed([[CELL]])) == []

    def test_claims_of_the_dead_are_void(self, store):
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()
        dead = Store(store.path)
        dead.owner = f"{dead.owner.split(':')[0]}:{child.pid}:7"
        assert list(dead.claimed([[CELL]])) == [[CELL]]
        assert list(store.claimed([[CELL]])) == [[CELL]]

    def test_a_later_process_of_the_same_number_has_no_claims(self, store):
        earlier = Store(store.path)
        host, pid, started = earlier.owner.split(":")
        assert started
        earlier.owner = f"{host}:{pid}:{int(started) - 1}"
        assert list(earlier.claimed([[CELL]])) == [[CELL]]
        assert store.held_elsewhere() == {} and list(store.claimed([[CELL]])) == [[CELL]]

    def test_claims_of_other_machines_hold_until_they_are_taken_over(self, store):
        away = Store(store.path)
        away.owner = "another-machine:1:2"
        assert list(away.claimed([[CELL]])) == [[CELL]] and list(store.claimed([[CELL]])) == []
        assert store.held_elsewhere() == {"another-machine:1:2": 1}
        plan = Plan(("l01-svm",), only=("quadrants", "majority"))
        held = replace(CELL, method="majority")
        assert list(away.claimed([[held]])) == [[held]]
        summary = reproduce(plan, store)
        assert (summary.ran, summary.left) == (2, 1)
        assert reproduce(plan, store, take_over=True).left == 0 and len(store.done()) == 3

    def test_several_writers_do_not_get_in_each_others_way(self, store):
        with ThreadPoolExecutor(3) as pool:  # a connection each, as processes have
            list(pool.map(partial(write_many, store.path), range(3)))
        found = store.rows()
        assert len(found) == 40 and {r.cell.split for r in found} == set(range(40))
        with sqlite3.connect(store.path) as db:
            assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def write_many(path, owner):
    own = Store(path)
    for split in range(40):
        own.add(row(replace(CELL, split=split), accuracy=float(owner)))


class TestRun:
    def test_every_cell_gets_a_row_and_none_runs_twice(self, store, monkeypatch):
        summary = reproduce(SMALL, store)
        assert (summary.asked, summary.found, summary.ran, summary.failed) == (9, 0, 9, 0)
        first = store.rows()
        assert {r.cell for r in first} == set(SMALL.cells()) and all(r.status == OK for r in first)
        monkeypatch.setattr(runner, "run_cell", raises)
        again = reproduce(SMALL, store)
        assert (again.found, again.ran) == (9, 0) and store.rows() == first

    def test_rows_tell_all_that_was_asked_for(self, store):
        reproduce(Plan(("l01-svm",), only=("quadrants", "SVC")), store)
        found = store.rows()[0]
        for name in ("accuracy", "auc", "ks", "f1", "mcc", "n_instances", "n_features", "irr", "frr", "seconds"):
            assert np.isfinite(found.measures[name])
        assert found.measures["n_features"] == 2 and 0 < found.measures["n_instances"] <= 140
        assert set(found.chosen) == {"svc__C", "svc__gamma"} and "scikit-learn" in json.loads(found.versions)
        assert found.seed == found.cell.split and found.machine and found.finished

    def test_processes_give_the_same_rows(self, store, tmp_path):
        other = Store(tmp_path / "other.sqlite")
        reproduce(SMALL, store)
        reproduce(SMALL, other, jobs=2)
        numbers = [{r.cell: r.measures["accuracy"] for r in s.rows()} for s in (store, other)]
        assert numbers[0] == numbers[1] and len(numbers[1]) == 9

    def test_a_failing_method_is_a_row(self, store, monkeypatch, tmp_path):
        paper = with_methods(monkeypatch, good=majority, bad=raises)
        plan = Plan(("l01-svm",))
        summary = reproduce(plan, store)
        assert summary.failed == 3 and summary.ran == 6
        bad = store.rows(method="bad")
        assert all(r.status == FAILED and "RuntimeError: no luck (test_experiments.py, line" in r.error for r in bad)
        text = markdown(page(paper, store.rows(), tmp_path, "x")[0])
        assert "bad failed on quadrants, split 0: RuntimeError: no luck" in text and "| failed |" in text
        assert reproduce(plan, store).ran == 0
        with_methods(monkeypatch, good=majority, bad=majority)
        assert reproduce(plan, store, retry=True).ran == 3 and not Table(paper, "honest", store.rows()).failures

    def test_a_worker_that_dies_takes_no_other_row_with_it(self, store, monkeypatch):
        paper = with_methods(monkeypatch, good=slow, deadly=dies, better=majority)
        shared = {name: replace(method, family="one bundle") for name, method in paper.methods.items()}
        splits = {("honest", "quick"): 1}  # a deadly cell takes its workers with it, which take their time to start
        monkeypatch.setitem(PAPERS, "l01-svm", replace(paper, methods=shared, splits=splits))
        summary = reproduce(Plan(("l01-svm",)), store, jobs=2)
        by = {name: store.rows(method=name) for name in ("good", "deadly", "better")}
        assert summary.ran == 3 and all(len(found) == 1 for found in by.values())
        assert all(r.status == FAILED and "the process died" in r.error for r in by["deadly"])
        assert all(r.status == OK for r in by["good"] + by["better"])

    def test_a_stopped_run_goes_on_where_it_was(self, tmp_path):
        out = tmp_path / "results"
        args = ["reproduce", "l01-svm", "--out", str(out)]
        args += ["--only", "quadrants,SimpleMKL on 10 (d + 1) kernels,SVC,majority", "--json"]
        command = [sys.executable, "-m", "tamis", *args]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        path = out / "rows.sqlite"
        wait_for(lambda: path.exists() and len(Store(path).done()) >= 2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()
        before = Store(path).rows()
        assert 2 <= len(before) < 9
        summary = json.loads(CliRunner().invoke(app, args).stdout)
        assert summary["found"] == len(before) and summary["ran"] == 9 - len(before) and summary["failed"] == 0
        assert Store(path).rows()[: len(before)] == before and len(Store(path).rows()) == 9
        assert (out / "l01-svm.md").is_file() and (out / "l01-svm.html").is_file()

    def test_two_runs_at_once_share_the_work(self, tmp_path):
        command = [sys.executable, "-m", "tamis", "reproduce", "l01-svm", "--json", "--out"]
        only = ["--only", "quadrants,SimpleMKL,mean kernel,SVC,majority", "--store", str(tmp_path / "s")]
        runs = [
            subprocess.Popen([*command, str(tmp_path / name), *only], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for name in ("one", "two")
        ]
        told = [json.loads(process.communicate()[0]) for process in runs]
        found = Store(tmp_path / "s").rows()
        assert len(found) == 12 and all(r.status != FAILED for r in found)
        assert sum(one["ran"] for one in told) == 12

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"backend": "spark"}, "backend='spark' is unknown"),
            ({"scheduler": "tcp://x"}, "scheduler='tcp://x' needs backend='dask'"),
        ],
    )
    def test_bad_options_are_refused(self, store, options, sentence):
        with pytest.raises(BadOption, match=sentence):
            reproduce(SMALL, store, **options)

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"papers": ("x",)}, "paper='x' is unknown: use one of em2nolc"),
            ({"protocols": ("x",)}, "protocol='x'"),
            ({"size": "x"}, "size='x'"),
            ({"only": ("x",)}, "only='x'"),
            ({"papers": "em2nolc"}, "papers='em2nolc' must be a tuple"),
        ],
    )
    def test_bad_plans_are_refused(self, options, sentence):
        with pytest.raises(BadOption, match=sentence):
            Plan(**options)

    def test_handing_out_costs_little(self, store):
        summary = reproduce(Plan(("l01-svm",), only=("quadrants", "mean kernel", "SVC")), store)
        assert 0 <= summary.overhead < 0.5 * max(summary.compute, 0.5) and summary.compute > 0


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made,
    ):
        yield made


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "deadly"])
def test_a_cluster_that_loses_a_worker_loses_and_doubles_no_row(cluster, store, monkeypatch, kill):
    """A worker is killed from outside, or by a method that is told of in its row."""
    cloudpickle = pytest.importorskip("cloudpickle")
    paper = with_methods(monkeypatch, one=slow, two=slow if kill else dies, three=majority, four=slow)
    splits = 3 if kill else 1  # a deadly cell takes several workers with it, which take their time to start again
    monkeypatch.setitem(PAPERS, "l01-svm", replace(paper, splits={("honest", "quick"): splits}))
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        address = cluster.scheduler_address
        work = Thread(
            target=reproduce, args=(Plan(("l01-svm",)), store), kwargs={"backend": "dask", "scheduler": address}
        )
        work.start()
        if kill:
            wait_for(lambda: len(store.done()) >= 1)
            os.kill(cluster.workers[0].process.pid, signal.SIGKILL)
        work.join(240)
        assert not work.is_alive()
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    found = store.rows()
    assert len(found) == 4 * splits == len({r.cell for r in found})
    bad = [r for r in found if r.status == FAILED]
    assert [r.cell.method for r in bad] == ([] if kill else ["two"])
    assert all("the process died" in r.error for r in bad)


def test_missing_clusters_are_one_sentence(store, monkeypatch):
    for package, extra in (("distributed", r"tamis\[dist\]"), ("ray", r"ray\[default\]")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ImportError, match=f"pip install '{extra}'"):
            reproduce(SMALL, store, backend={"distributed": "dask", "ray": "ray"}[package])


def wait_for(condition, seconds=90.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def planted(n=60, missing=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
    if missing:
        X[rng.random(X.shape) < 0.3] = np.nan
    return Problem(X, y, 40, np.zeros(3, dtype=bool), None, 3, 0)


class TestKernelsOfFolds:
    def test_each_fold_is_computed_once_for_all_settings_and_methods(self, monkeypatch):
        made = []
        compute = problem._stack
        monkeypatch.setattr(problem, "_stack", lambda *a: made.append((a[2].tobytes(), a[3].tobytes())) or compute(*a))
        here = planted()
        make = partial(AverageMKLClassifier, calibration=None)
        for _ in range(2):
            on_kernels(here, make, points(C=(0.1, 1.0, 10.0)), "ten", bandwidths())
        assert len(made) == len(set(made)) == 3 + 2  # folds, training rows, test rows

    def test_kernels_are_scaled_by_the_rows_of_the_fold(self):
        here = planted()
        fit, rows = np.arange(20), np.arange(40)
        found = here.stack("one", bandwidths(1.0), fit, rows, rows).values
        Z = (here.X - here.X[:20].mean(axis=0)) / here.X[:20].std(axis=0)
        low, high = Z[:20].min(axis=0), Z[:20].max(axis=0)
        Z = np.clip(Z, low, high)[:40]
        expected = np.exp(-((Z[:, None] - Z) ** 2).sum(axis=2) / 2)
        np.testing.assert_allclose(found[0], expected, atol=1e-9)

    def test_what_a_row_lacks_is_nan_where_channels_are_whole(self):
        here = planted(missing=True)
        rows = np.arange(40)
        found = here.stack("one", bandwidths(1.0, on="each"), rows, rows, rows, whole=True).values
        lacking = np.isnan(here.X[:40])
        for k in range(3):
            np.testing.assert_array_equal(np.isnan(found[k]), lacking[:, [k]] | lacking[:, k])

    def test_the_model_is_that_of_the_table(self):
        here = planted()
        make = partial(AverageMKLClassifier, calibration=None)
        found = on_kernels(here, make, points(C=(1.0,)), "ten", bandwidths())
        direct = AverageMKLClassifier(C=1.0, calibration=None).fit(*here.train)
        np.testing.assert_allclose(
            found.model.decision_function(found.test), direct.decision_function(here.test[0]), atol=2e-3
        )
        assert kept(found, here)[1] == 3 and abs(kept(found, here)[0] - len(direct.instances_)) <= 1

    def test_settings_are_chosen_on_folds(self):
        here = planted()
        seen = []

        def make(C, kernels):
            seen.append(C)
            return AverageMKLClassifier(C=C, kernels=kernels, calibration=None)

        found = on_kernels(here, make, points(C=(1e-6, 1.0)), "ten", bandwidths())
        assert found.chosen == {"C": 1.0} and len(seen) == 2 * 3 + 1


class TestSplits:
    def test_groups_stay_on_one_side(self):
        rng = np.random.default_rng(1)
        groups, y = np.repeat(np.arange(20), 5), np.repeat(rng.integers(0, 2, 20), 5)
        for seed in range(5):
            train, test = holdout(y, groups, 0.3, seed)
            assert not set(groups[train]) & set(groups[test]) and len(train) + len(test) == 100
            assert set(y[train]) == set(y[test]) == {0, 1}

    def test_classes_have_their_share(self):
        y = np.repeat([0, 1, 2], [60, 30, 10])
        train, test = holdout(y, None, 0.3, 0)
        assert np.bincount(y[test]).tolist() == [18, 9, 3] and not set(train) & set(test)
        few = limited(train, y, 30, 0)
        assert 28 <= len(few) <= 31 and set(few) <= set(train) and set(y[few]) == {0, 1, 2}

    def test_groups_of_a_dataset_stay_together_in_the_folds(self):
        X, y = np.zeros((30, 1)), np.arange(30) % 2
        here = Problem(X, y, 30, np.zeros(1, dtype=bool), np.arange(30) // 3, 3, 0)
        assert all(not set(here.groups[a]) & set(here.groups[b]) for a, b in here.inner)

    def test_test_rows_have_no_part_in_a_fit(self):
        here = planted()
        other = replace(here, X=here.X.copy(), memo={})
        other.X[40:] = 100.0
        for run in (svc, PAPERS["l01-svm"].methods["mean kernel"].run, PAPERS["em2nolc"].methods["EM2NOLC"].run):
            first, second = run(here, True), run(other, True)
            guess = [found.model.predict(found.train) for found in (first, second)]
            np.testing.assert_array_equal(*guess)
            assert first.chosen == second.chosen

    def test_the_paper_draws_as_many_of_both_classes_with_repetitions(self):
        from tamis.experiments.papers import em2nolc

        data = replace(datasets.load("breast_cancer"), name="wdbc")
        train, test = em2nolc._balanced(data, 0)
        assert np.bincount(data.y[train]).tolist() == [250, 250] and not set(train) & set(test)
        assert len(np.unique(train)) < len(train) and len(test) == len(data.y) - len(np.unique(train))

    def test_every_row_lacks_the_same_number_of_channels(self):
        from tamis.experiments.papers import absent_mkl

        X = absent_mkl._blanked(np.ones((50, 6)), [[0], [1, 2], [3], [4, 5]], 0.5, np.random.default_rng(0))
        lacking = np.isnan(X)
        assert np.all(lacking[:, 1] == lacking[:, 2]) and np.all(lacking[:, [0, 1, 3, 4]].sum(axis=1) == 2)


class TestMeasures:
    def test_scores_are_those_of_scikit_learn(self):
        rng = np.random.default_rng(0)
        truth, score = rng.integers(0, 2, 60), rng.normal(size=60)
        from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, roc_auc_score

        found = scores(truth, score > 0, score)
        assert found["accuracy"] == pytest.approx(100 * accuracy_score(truth, score > 0))
        assert found["f1"] == pytest.approx(100 * f1_score(truth, score > 0))
        assert found["mcc"] == pytest.approx(100 * matthews_corrcoef(truth, score > 0))
        assert found["auc"] == pytest.approx(100 * roc_auc_score(truth, score))
        assert found["ks"] == pytest.approx(100 * stats.ks_2samp(score[truth == 1], score[truth == 0]).statistic)
        many = scores(np.arange(9) % 3, np.arange(9) % 3, None)
        assert many["accuracy"] == many["f1"] == 100 and "auc" not in many

    def test_counts_of_what_models_keep(self):
        here = planted()
        numbers, status, found = measured(here, svc, True)
        assert numbers["n_instances"] == len(found.model[-1].support_) and status == OK
        assert numbers["irr"] == pytest.approx(100 * (1 - numbers["n_instances"] / 40)) and numbers["frr"] == 0
        assert measured(here, majority, True)[0]["n_features"] == 0


class TestStatistics:
    def test_paired_test_is_that_of_scipy(self):
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(2, 8))
        assert resampled(a, b, 0.0) == pytest.approx(stats.ttest_rel(a, b).pvalue)
        assert resampled([1.0, 2.0], [1.0, 2.0], 0.0) == 1.0 and math.isnan(resampled([1.0], [2.0], 0.0))
        assert math.isnan(resampled([0.3, 1.3, 2.3], [0.0, 1.0, 2.0], 0.4))  # nothing is known of the variance

    def test_shared_rows_make_differences_less_certain(self):
        a, b = [1.0, 2.0, 1.5, 1.7], [0.5, 1.9, 1.0, 1.6]
        d = np.subtract(a, b)
        t = d.mean() / (d.std(ddof=1) * np.sqrt(1 / 4 + 0.4))
        assert resampled(a, b, 0.4) == pytest.approx(2 * stats.t.sf(t, 3)) and resampled(a, b, 0.4) > resampled(
            a, b, 0.0
        )

    def test_signed_ranks_are_those_of_scipy(self):
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(2, 9))
        assert signed_ranks(a, b) == pytest.approx(stats.wilcoxon(a, b).pvalue)
        assert signed_ranks([1.0] * 6, [1.0] * 6) == 1.0 and math.isnan(signed_ranks([1.0] * 4, [2.0] * 4))

    def test_holm_steps(self):
        found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": float("nan")})
        assert found["a"] == pytest.approx(0.03) and found["c"] == pytest.approx(0.06)
        assert found["b"] == pytest.approx(0.06) and math.isnan(found["d"])
        assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}

    def test_ranks_share_ties_and_put_what_is_missing_last(self):
        assert mean_ranks(np.array([[3.0, 2.0, 2.0], [1.0, np.nan, 5.0]])).tolist() == [1.5, 2.75, 1.75]


class TestTables:
    def rows(self, values, protocol="honest", paper="l01-svm", dataset="sonar"):
        cell = Cell(paper, protocol, "quick", dataset, 0, "", "")
        return [
            Row(replace(cell, method=m, split=s), {"accuracy": v})
            for m, found in values.items()
            for s, v in enumerate(found)
        ]

    def test_means_and_deviations_over_splits(self):
        table = Table(PAPERS["l01-svm"], "honest", self.rows({"MKL-L0/1-SVM": [70, 80, 75], "SVC": [80, 90, 86]}))
        assert str(table.number("sonar", "SVC", "accuracy")) == "85.3 ± 5.0"
        assert table.ranks == {"MKL-L0/1-SVM": 2.0, "SVC": 1.0} and table.main == "MKL-L0/1-SVM"
        ((method, difference, p, corrected, wins, losses),) = table.against_main()
        assert (
            (method, difference, wins, losses) == ("SVC", pytest.approx(-31 / 3), 0, 1)
            and math.isnan(p)
            and math.isnan(corrected)
        )

    def test_the_best_repetition_where_the_paper_has_it_so(self):
        rows = self.rows({"EM2NOLC": [70, 80, 75]}, "paper", "em2nolc", "wdbc")
        rows = [replace(r, extra={"spread": {"accuracy": float(r.cell.split)}}) for r in rows]
        found = Table(PAPERS["em2nolc"], "paper", rows).number("wdbc", "EM2NOLC", "accuracy")
        assert (found.mean, found.spread) == (80.0, 1.0)

    def test_splits_with_a_failure_do_not_count_and_are_told(self):
        rows = self.rows({"SVC": [80, 90, 85]})
        rows[1] = Row(rows[1].cell, {}, FAILED, "x")
        table = Table(PAPERS["l01-svm"], "honest", rows)
        assert str(table.number("sonar", "SVC", "accuracy")) == "82.5 ± 3.5 (2 of 3)"

    def test_settings_are_averaged_within_a_split(self):
        cell = Cell("absent-mkl", "honest", "quick", "sonar", 0, "0.0", "C-AMKL")
        rows = [
            Row(replace(cell, setting=s, split=k), {"accuracy": v + k})
            for s, v in (("0.0", 90.0), ("0.8", 60.0))
            for k in (0, 1)
        ]
        table = Table(PAPERS["absent-mkl"], "honest", rows)
        assert table.values("sonar", "C-AMKL", "accuracy") == {0: 75.0, 1: 76.0}

    def test_the_paper_stands_beside_ours_even_where_ours_is_lower(self, tmp_path):
        rows = self.rows({"MKL-L0/1-SVM": [70.0, 72.0], "SVC": [85.0, 87.0]})
        text = markdown(page(PAPERS["l01-svm"], rows, tmp_path, "tamis reproduce")[0])
        assert "| sonar | MKL-L0/1-SVM | 71.0 ± 1.4 | 75.79 | -4.8 |" in text
        assert "within 2 points of the published accuracy on 0 of 1 sets, lower on 1" in text
        assert "| **86.0 ± 1.4** |" in text

    def test_every_published_number_belongs_to_a_known_set_and_method(self):
        for paper in PAPERS.values():
            names = {*paper.methods, *paper.aliases.values(), "MKLDPL", "MIDL", "DKMLD", "MMAF"}
            for dataset, method, measure in paper.published:
                assert dataset.partition(":")[0] in (*paper.datasets, *paper.absent) and measure in MEASURES
                assert method in names, (paper.name, method)

    def test_published_numbers_are_those_of_the_papers(self):
        told = PAPERS["em2nolc"].told("german_numeric", "EM2NOLC", "accuracy")
        assert told == (96.73, 2.42) and PAPERS["em2nolc"].told("wdbc", "SVC", "n_instances").value == 112.2
        assert PAPERS["l0-mkl"].told("colon", "l0-MKL as published", "n_features").value == 14
        assert PAPERS["l01-svm"].told("sonar", "MKL-L0/1-SVM as printed", "accuracy").value == 75.79
        assert PAPERS["imkpl"].told("tox_171", "IMKPL", "dr").value == 89
        assert PAPERS["absent-mkl"].told("protein_fold", "C-AMKL", "accuracy").value == 51.99

    def test_verdict_without_published_numbers(self):
        rows = self.rows({"IMKPL": [90.0]}, paper="imkpl", dataset="wine")
        assert "no numbers" in verdict(Table(PAPERS["imkpl"], "honest", rows))


class TestPages:
    def test_pages_of_a_real_run(self, store, tmp_path, monkeypatch):
        pytest.importorskip("matplotlib")
        monkeypatch.setitem(PAPERS, "l01-svm", replace(PAPERS["l01-svm"], splits={("honest", "quick"): 1}))
        plan = Plan(("l01-svm",), only=("quadrants", "MKL-L0/1-SVM", "SimpleMKL", "SVC", "majority"))
        reproduce(plan, store)
        files = write_pages(PAPERS["l01-svm"], store.rows(), tmp_path, "tamis reproduce l01-svm")
        text = (tmp_path / "l01-svm.md").read_text()
        for title in ("Decision boundary", "ROC curves", "Accuracy (%), beside the paper", "Is it more than luck?"):
            assert f"### {title}" in text
        for picture in (path for path in files if path.suffix == ".png"):
            assert f"](figures/{picture.name})" in text and picture.stat().st_size > 2000
        assert len(files) >= 4 and "tamis reproduce l01-svm" in text
        assert "<table>" in (tmp_path / "l01-svm.html").read_text()

    def test_html_is_escaped_and_marked(self):
        from tamis.experiments.pages import Grid, Text

        text = html("a < b", [Text("x < y and `code`"), Grid(["a"], [["**1**"]])])
        assert "<title>a &lt; b</title>" in text and "x &lt; y and <code>code</code>" in text
        assert "<td><strong>1</strong></td>" in text

    def test_without_matplotlib_the_page_says_so(self, store, tmp_path, monkeypatch):
        reproduce(Plan(("l01-svm",), only=("quadrants", "SVC")), store)
        monkeypatch.setattr(pages, "find_spec", lambda name: None)
        blocks, files = page(PAPERS["l01-svm"], store.rows(), tmp_path, "x")
        assert not files and "pip install 'tamis[plot]'" in markdown(blocks)

    def test_the_index_has_a_line_for_each_paper(self, tmp_path):
        cell = Cell("l01-svm", "honest", "quick", "sonar", 0, "", "MKL-L0/1-SVM")
        rows = [Row(cell, {"accuracy": 70.0}), Row(replace(cell, method="SVC"), {"accuracy": 80.0})]
        rows += [Row(replace(cell, dataset="quadrants"), {"accuracy": 90.0})]
        write_index([Table(PAPERS["l01-svm"], "honest", rows)], tmp_path, "tamis reproduce all")
        line = (tmp_path / "README.md").read_text().splitlines()[-1]
        assert line == (
            "| [l01-svm](l01-svm.md) | honest | 2 | MKL-L0/1-SVM | 80.0 | 84.6 (ours 80.0) | - "
            "| 80.0 (1 of 2) | - | - |"
        )
        assert '<a href="l01-svm.html">l01-svm</a>' in (tmp_path / "index.html").read_text()

    def test_only_sets_with_both_numbers_are_set_beside_each_other(self, tmp_path):
        cell = Cell("l01-svm", "honest", "quick", "sonar", 0, "", "MKL-L0/1-SVM")
        rows = [Row(cell, {"accuracy": 70.0}), Row(replace(cell, dataset="quadrants"), {}, FAILED, "x")]
        write_index([Table(PAPERS["l01-svm"], "honest", rows)], tmp_path, "x")
        assert "| 70.0 (1 of 2) | 75.8 (ours 70.0) |" in (tmp_path / "README.md").read_text()

    def test_without_the_papers_method_nothing_is_said_of_it(self, tmp_path):
        cell = Cell("l01-svm", "honest", "quick", "sonar", 0, "", "SVC")
        rows = [Row(cell, {"accuracy": 70.0}), Row(replace(cell, method="majority"), {"accuracy": 50.0})]
        text = markdown(page(PAPERS["l01-svm"], rows, tmp_path, "x")[0])
        assert "no numbers for these sets and methods" in text and "more than luck" not in text
        write_index([Table(PAPERS["l01-svm"], "honest", rows)], tmp_path, "x")
        assert "| honest | 1 | - | - | - | - | 70.0 | - | 50.0 |" in (tmp_path / "README.md").read_text()

    def test_the_table_of_the_readme_is_that_of_the_pages(self):
        root = Path(__file__).parents[1]
        index = (root / "docs" / "results" / "README.md").read_text()
        lines = [line for line in index.splitlines() if line.startswith("|")]
        readme = (root / "README.md").read_text().replace("](docs/results/", "](")
        assert len(lines) > 3 and all(line in readme for line in lines)

    def test_every_paper_has_words_for_what_it_does(self):
        for paper in PAPERS.values():
            assert set(paper.words) == {"honest", "paper", "why"} and all(len(t) > 100 for t in paper.words.values())


class TestDatasets:
    def test_bundled_and_made_sets_are_always_there(self):
        assert datasets.load("wine").X.shape == (178, 13) and not datasets.why_missing("quadrants")
        made = datasets.load("quadrants")
        assert np.all((made.X[:, 0] * made.X[:, 1] > 0) == (made.y == 0)) and np.all((made.X**2).sum(axis=1) <= 1)

    def test_missing_sets_are_told_with_the_reason(self, monkeypatch, tmp_path):
        monkeypatch.delenv("TAMIS_DATA", raising=False)
        monkeypatch.setenv("TAMIS_CACHE", str(tmp_path))
        assert "not published any more" in datasets.why_missing("psort_pos")
        assert "TAMIS_DATA names (not set)" in datasets.why_missing("ckd") and not datasets.why_missing("pima")
        with pytest.raises(BadOption, match="dataset 'ckd': not in the folder"):
            datasets.load("ckd")
        with pytest.raises(BadOption, match="dataset 'nothing': unknown"):
            datasets.load("nothing")

    def test_files_are_checked(self, monkeypatch, tmp_path):
        (tmp_path / "p1").mkdir()
        (tmp_path / "p1" / "ckd.npz").write_bytes(b"other")
        monkeypatch.setenv("TAMIS_DATA", str(tmp_path))
        with pytest.raises(ValueError, match=r"ckd.npz in the folder of TAMIS_DATA has the SHA-256"):
            datasets.load("ckd")
        assert "SHA-256" in datasets.unreadable("ckd") and datasets.unreadable("wine") == ""

    def test_openml_is_asked_last_and_kept(self, monkeypatch, tmp_path):
        class Bunch:
            data = np.arange(208 * 60.0).reshape(208, 60)
            target = np.array(["Mine", "Rock"] * 104)
            feature_names = [f"a{j}" for j in range(60)]

        asked = []
        monkeypatch.delenv("TAMIS_DATA", raising=False)
        monkeypatch.setenv("TAMIS_CACHE", str(tmp_path))
        monkeypatch.setattr(datasets.bundled, "fetch_openml", lambda **kw: asked.append(kw["data_id"]) or Bunch)
        datasets.load.cache_clear()
        found = datasets.load("sonar")
        datasets.load.cache_clear()
        again = datasets.load("sonar")
        assert asked == [40] and found.X.shape == (208, 60) and np.array_equal(found.y, again.y)
        Bunch.data = Bunch.data[:100]
        (tmp_path / "sonar.npz").unlink()
        datasets.load.cache_clear()
        with pytest.raises(ValueError, match="is 100x60, and 'sonar' has 208 rows"):
            datasets.load("sonar")
        monkeypatch.setattr(datasets.bundled, "fetch_openml", lambda **kw: 1 / 0)
        with pytest.raises(BadOption, match=r"OpenML \(data set 40\) cannot be read"):
            datasets.load("sonar")
        datasets.load.cache_clear()


class TestCells:
    def test_bundles_keep_methods_that_share_kernels_together(self):
        cells = Plan(("l01-svm",), only=("quadrants",)).cells()
        bundles = runner.bundled(cells)
        assert sorted(c for b in bundles for c in b) == sorted(cells)
        ten = next(b for b in bundles if b[0].method == "MKL-L0/1-SVM")
        assert {c.method for c in ten} >= {"SimpleMKL", "mean kernel"} and len({c.split for c in ten}) == 1

    def test_names_leave_out_others_of_their_kind_in_all_papers(self):
        cells = Plan(only=("quadrants", "SVC")).cells()
        assert {c.dataset for c in cells} == {"quadrants"} and {c.method for c in cells} == {"SVC"}
        assert not Plan(("l01-svm",), only=("quadrants",), without=("quadrants",)).cells()

    def test_what_both_protocols_have_in_common_runs_once(self, store, monkeypatch):
        plan = Plan(("l01-svm",), ("honest", "paper"), only=("quadrants", "majority"))
        run, seen = runner.run_cell, []
        monkeypatch.setattr(runner, "run_cell", lambda paper, cell, memo: seen.append(cell) or run(paper, cell, memo))
        summary = reproduce(plan, store)
        assert summary.ran == 6 and len(seen) == 3 and {c.protocol for c in seen} == {"honest"}
        by = {p: [r.measures["accuracy"] for r in store.rows(protocol=p)] for p in ("honest", "paper")}
        assert by["honest"] == by["paper"] and len(by["paper"]) == 3
        assert PAPERS["em2nolc"].twin(Cell("em2nolc", "paper", "quick", "wdbc", 0, "", "SVC")) is None

    def test_protocols_have_their_methods(self):
        for paper in PAPERS.values():
            for protocol in ("honest", "paper"):
                names = {c.method for c in paper.cells(protocol, "quick")}
                assert {"SVC", "majority"} <= names or not paper.at_hand

    def test_key_and_measures_are_columns(self):
        flat = row().flat()
        assert set(KEY) | set(MEASURES) <= set(flat)


class TestCommand:
    def run(self, *args, **env):
        return CliRunner().invoke(app, ["reproduce", *args], env=env)

    def test_tells_numbers_and_writes_pages_and_rows(self, tmp_path):
        pytest.importorskip("pyarrow")
        out, export = tmp_path / "results", tmp_path / "rows.csv"
        told = self.run("l01-svm", "--only", "quadrants,SVC,majority", "--out", str(out), "--export", str(export))
        assert told.exit_code == 0, told.stderr
        assert "6 of 6 cells ran (0 were there)" in " ".join(told.stdout.split())
        names = {path.name for path in out.iterdir()}
        assert names >= {"l01-svm.md", "l01-svm.html", "README.md", "index.html", "rows.sqlite"}
        lines = export.read_text().splitlines()
        assert len(lines) == 7 and lines[0].startswith("paper,protocol,size,dataset,split,setting,method,accuracy")

    @pytest.mark.parametrize(
        ("args", "sentence"),
        [
            (("x",), "paper 'x' is unknown: use one of em2nolc"),
            (("l01-svm", "--protocol", "x"), "--protocol 'x' is unknown"),
            (("l01-svm", "--only", "x"), "only='x' is unknown"),
            (("l01-svm", "--backend", "x"), "backend='x' is unknown"),
            (("l01-svm", "--export", "rows.xls"), "is of no known kind"),
        ],
    )
    def test_bad_usage_is_one_sentence(self, tmp_path, args, sentence):
        told = self.run(*args, "--out", str(tmp_path / "r"))
        assert told.exit_code == 2 and sentence in told.stderr and isinstance(told.exception, SystemExit)

    def test_lists_what_is_missing(self, tmp_path):
        told = self.run(
            "absent-mkl", "--only", "protein_fold", "--out", str(tmp_path), TAMIS_DATA="", TAMIS_CACHE=str(tmp_path)
        )
        assert told.exit_code == 2 and "there is nothing to run" in told.stderr
        assert "without psort_pos (Absent MKL" in told.stderr and "without protein_fold" in told.stderr


def test_scores_of_probabilities_are_those_of_the_second_class():
    from sklearn.linear_model import LogisticRegression

    from tamis.experiments.method import decision

    here = planted()
    model = LogisticRegression().fit(*here.train)
    by_decision = decision(model, here.test[0])

    class Probable:
        predict_proba = staticmethod(model.predict_proba)

    assert stats.spearmanr(by_decision, decision(Probable, here.test[0])).statistic == pytest.approx(1.0)


def test_a_fit_that_did_not_converge_is_told():
    here = planted()
    from tamis import SimpleMKLClassifier

    def short(problem, quick):
        make = partial(SimpleMKLClassifier, max_iter=1, tol=1e-12, calibration=None)
        return on_kernels(problem, make, points(C=(1.0,)), "ten", bandwidths())

    with pytest.warns(ConvergenceWarning):
        assert measured(here, short, True)[1] == UNSETTLED


def test_kernels_of_different_names_are_different():
    here = planted()
    rows = np.arange(40)
    one = here.stack("one", bandwidths(1.0), rows, rows, rows).values
    assert here.stack("two", bandwidths(0.1), rows, rows, rows).values.sum() < one.sum()


def test_kernels_beyond_the_limit_make_room(monkeypatch):
    here, rows = planted(), np.arange(40)
    monkeypatch.setattr(problem, "HELD", 8 * 40 * 40 + 1)
    first = here.stack("one", bandwidths(1.0), rows, rows, rows)
    here.stack("two", bandwidths(0.5), rows, rows, rows)
    assert len(here.memo) == 1 and here.stack("one", bandwidths(1.0), rows, rows, rows) is not first


def test_the_larger_class_of_a_balanced_training_part_is_that_of_the_set():
    from tamis.experiments.papers import em2nolc

    y = datasets.load("breast_cancer").y
    here = Problem(np.zeros((10, 1)), np.arange(10) % 2, 6, np.zeros(1, dtype=bool), None, 3, 0, "breast_cancer")
    found = em2nolc._larger(here, True)
    assert set(found.model.predict(found.test)) == {np.bincount(y).argmax()}


def test_series_are_long_rows_for_methods_on_tables():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2, 4))
    y = np.arange(30) % 2
    X[y == 1] += 2.0
    here = Problem(X, y, 20, np.zeros(2, dtype=bool), None, 2, 0)
    numbers, _, found = measured(here, svc, True)
    assert found.test.shape == (10, 8) and numbers["frr"] == 0 and numbers["accuracy"] > 80
    from tamis.experiments.flagship import tamis as flagship

    assert 0 <= measured(here, flagship, True)[0]["frr"] <= 100


def test_the_five_models_of_the_folds_are_tested_in_the_papers_protocol(monkeypatch):
    paper = PAPERS["em2nolc"]
    here = replace(planted(80), name="wdbc", folds=5)
    cell = Cell("em2nolc", "paper", "quick", "wdbc", 0, "", "SVC")
    found = paper.trial(paper, cell, here)
    fits = []
    chosen = svc(here, True)
    for a, _ in here.inner:
        from sklearn.base import clone

        model = clone(chosen.fresh).fit(here.train[0][a], here.train[1][a])
        fits.append(100 * np.mean(model.predict(here.test[0]) == here.test[1]))
    assert found.measures["accuracy"] == pytest.approx(np.mean(fits))
    assert found.extra["spread"]["accuracy"] == pytest.approx(np.std(fits, ddof=1))


def test_the_smaller_halves_are_tested():
    cell = Cell("l0-mkl", "honest", "quick", "wine", 0, "", "SVC")
    here = PAPERS["l0-mkl"].problem(cell)  # 59 and 71 rows of the first two classes
    assert np.bincount(here.test[1]).tolist() == [29, 35] and np.bincount(here.train[1]).tolist() == [30, 36]


def test_methods_of_a_bundle_share_the_kernels(monkeypatch):
    made = []
    compute = problem._stack
    monkeypatch.setattr(problem, "_stack", lambda *a: made.append(a[2].tobytes() + a[3].tobytes()) or compute(*a))
    paper = PAPERS["l01-svm"]
    cells = [replace(CELL, method=name) for name in ("SimpleMKL", "mean kernel")]
    rows = runner.run_bundle(paper, cells, None)
    assert all(r.status == OK for r in rows) and len(made) == len(set(made)) == 3 + 2


def test_what_was_claimed_is_given_up_when_a_run_stops(store, monkeypatch):
    def stop(paper, cell, memo):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_cell", stop)
    with pytest.raises(KeyboardInterrupt):
        reproduce(SMALL, store)
    assert store.mine() == [] and store.rows() == []


def test_the_verdict_names_the_set_that_is_farthest_below():
    cell = Cell("l01-svm", "honest", "quick", "sonar", 0, "", "MKL-L0/1-SVM")
    rows = [Row(cell, {"accuracy": 75.0}), Row(replace(cell, dataset="quadrants"), {"accuracy": 80.0})]
    told = verdict(Table(PAPERS["l01-svm"], "honest", rows))
    assert "within 2 points of the published accuracy on 1 of 2 sets, lower on 1, higher on 0" in told
    assert "lowest on quadrants: 80.0 against 93.3" in told


def test_p_values_stand_in_their_columns(tmp_path):
    rng = np.random.default_rng(0)
    cell = Cell("l01-svm", "honest", "quick", "sonar", 0, "", "")
    rows = [
        Row(replace(cell, dataset=d, method=m), {"accuracy": float(rng.normal(80 + 3 * (m == "SVC"), 1))})
        for d in ("sonar", "pima", "wpbc", "haberman", "ionosphere", "ilpd_579")
        for m in ("MKL-L0/1-SVM", "SVC", "majority")
    ]
    table = Table(PAPERS["l01-svm"], "honest", rows)
    text = markdown(page(PAPERS["l01-svm"], rows, tmp_path, "x")[0])
    for method, difference, p, corrected, wins, losses in table.against_main():
        assert (
            p <= corrected
            and f"| {method} | {difference:+.1f} | {p:.3f} | {corrected:.3f} | {wins} | {losses} |" in text
        )
    assert any(p < corrected for _, _, p, corrected, _, _ in table.against_main())


def test_rows_of_one_person_or_molecule_are_a_group():
    raw = {"X": np.zeros((4, 2)), "y": np.arange(4) % 2}
    for key in ("subject", "bag"):
        found = datasets._dataset("any", {**raw, key: np.array([0, 0, 1, 1])})
        assert found.groups.tolist() == [0, 0, 1, 1]
    assert datasets._dataset("any", raw).groups is None


def test_instances_are_counted_where_models_are_made_of_them():
    cell = Cell("em2nolc", "honest", "quick", "wdbc", 0, "", "SVC")
    measures = {"accuracy": 90.0, "n_instances": 12.0, "irr": 97.0}
    rows = [Row(replace(cell, method=name), measures) for name in ("SVC", "LASSOC", "XGBoost")]
    table = Table(PAPERS["em2nolc"], "honest", rows)
    for measure, shown in (("n_instances", "12.0"), ("irr", "97.0")):
        assert str(table.number("wdbc", "SVC", measure)) == shown
        assert str(table.number("wdbc", "LASSOC", measure)) == str(table.number("wdbc", "XGBoost", measure)) == "-"
