"""Runs: cells, workers that die, clusters."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from threading import Thread

import numpy as np
import pytest

from experiments import problem, runner
from experiments.cells import FAILED, OK, Cell
from experiments.pages import markdown, page
from experiments.papers import PAPERS
from experiments.peers import majority
from experiments.runner import Plan, reproduce
from experiments.store import Store
from experiments.summary import Table
from tamis.errors import BadOption

import small_experiments
from small_experiments import CELL, SMALL, dies, raises, slow, wait_for, with_methods


def test_claims_of_other_machines_are_valid_until_taken_over(store):
    away = Store(store.path)
    away.owner = "another-machine:1:2"
    assert list(away.claimed([[CELL]])) == [[CELL]] and list(store.claimed([[CELL]])) == []
    assert store.claimed_elsewhere() == {"another-machine:1:2": 1}
    plan = Plan(("l01-svm",), only=("quadrants", "majority"))
    held = replace(CELL, method="majority")
    assert list(away.claimed([[held]])) == [[held]]
    summary = reproduce(plan, store)
    assert (summary.ran, summary.left) == (2, 1)
    assert reproduce(plan, store, take_over=True).left == 0 and len(store.done()) == 3


def test_every_cell_gets_a_row_and_none_runs_twice(store, monkeypatch):
    summary = reproduce(SMALL, store)
    assert (summary.cells, summary.found, summary.ran, summary.failed) == (9, 0, 9, 0)
    first = store.rows()
    assert {r.cell for r in first} == set(SMALL.cells()) and all(r.status == OK for r in first)
    monkeypatch.setattr(runner, "run_cell", raises)
    again = reproduce(SMALL, store)
    assert (again.found, again.ran) == (9, 0) and store.rows() == first


def test_rows_have_all_measures(store):
    reproduce(Plan(("l01-svm",), only=("quadrants", "SVC")), store)
    found = store.rows()[0]
    for name in ("accuracy", "auc", "ks", "f1", "mcc", "n_instances", "n_features", "irr", "frr", "seconds"):
        assert np.isfinite(found.measures[name])
    assert found.measures["n_features"] == 2 and 0 < found.measures["n_instances"] <= 140
    assert set(found.chosen) == {"svc__C", "svc__gamma"} and "scikit-learn" in json.loads(found.versions)
    assert found.seed == found.cell.split and found.machine and found.finished


def test_processes_give_the_same_rows(store, tmp_path):
    other = Store(tmp_path / "other.sqlite")
    reproduce(SMALL, store)
    reproduce(SMALL, other, jobs=2)
    numbers = [{r.cell: r.measures["accuracy"] for r in s.rows()} for s in (store, other)]
    assert numbers[0] == numbers[1] and len(numbers[1]) == 9


def test_a_failing_method_is_a_row(store, monkeypatch, tmp_path):
    paper = with_methods(monkeypatch, good=majority, bad=raises)
    plan = Plan(("l01-svm",))
    summary = reproduce(plan, store)
    assert summary.failed == 3 and summary.ran == 6
    bad = store.rows(method="bad")
    assert all(r.status == FAILED and "RuntimeError: no luck (small_experiments.py, line" in r.error for r in bad)
    text = markdown(page(paper, store.rows(), tmp_path, "x")[0])
    assert "bad failed on quadrants, split 0: RuntimeError: no luck" in text and "| failed |" in text
    assert reproduce(plan, store).ran == 0
    with_methods(monkeypatch, good=majority, bad=majority)
    assert reproduce(plan, store, retry=True).ran == 3 and not Table(paper, "honest", store.rows()).failures


def test_a_worker_that_dies_loses_no_other_row(store, monkeypatch):
    paper = with_methods(monkeypatch, good=slow, deadly=dies, better=majority)
    shared = {name: replace(method, family="one bundle") for name, method in paper.methods.items()}
    splits = {("honest", "quick"): 1}  # a deadly cell takes its workers with it, which take their time to start
    monkeypatch.setitem(PAPERS, "l01-svm", replace(paper, methods=shared, splits=splits))
    summary = reproduce(Plan(("l01-svm",)), store, jobs=2)
    by = {name: store.rows(method=name) for name in ("good", "deadly", "better")}
    assert summary.ran == 3 and all(len(found) == 1 for found in by.values())
    assert all(r.status == FAILED and "the process died" in r.error for r in by["deadly"])
    assert all(r.status == OK for r in by["good"] + by["better"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"backend": "spark"}, "backend='spark' is unknown"),
        ({"scheduler": "tcp://x"}, "scheduler='tcp://x' needs backend='dask'"),
    ],
)
def test_bad_options_are_refused(store, options, sentence):
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
def test_bad_plans_are_refused(options, sentence):
    with pytest.raises(BadOption, match=sentence):
        Plan(**options)


def test_distributing_cells_costs_little(store):
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
    """A worker is killed from outside, or by a method, whose row then says so."""
    cloudpickle = pytest.importorskip("cloudpickle")
    paper = with_methods(monkeypatch, one=slow, two=slow if kill else dies, three=majority, four=slow)
    splits = 3 if kill else 1  # a deadly cell takes several workers with it, which take their time to start again
    monkeypatch.setitem(PAPERS, "l01-svm", replace(paper, splits={("honest", "quick"): splits}))
    cloudpickle.register_pickle_by_value(small_experiments)
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
        cloudpickle.unregister_pickle_by_value(small_experiments)
    found = store.rows()
    assert len(found) == 4 * splits == len({r.cell for r in found})
    bad = [r for r in found if r.status == FAILED]
    assert [r.cell.method for r in bad] == ([] if kill else ["two"])
    assert all("the process died" in r.error for r in bad)


def test_a_missing_backend_is_one_sentence(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'tamis\[dist\]'"):
        reproduce(SMALL, store, backend="dask")


def test_bundles_keep_methods_that_share_kernels_together():
    cells = Plan(("l01-svm",), only=("quadrants",)).cells()
    bundles = runner.bundled(cells)
    assert sorted(c for b in bundles for c in b) == sorted(cells)
    ten = next(b for b in bundles if b[0].method == "MKL-L0/1-SVM")
    assert {c.method for c in ten} >= {"SimpleMKL", "mean kernel"} and len({c.split for c in ten}) == 1


def test_names_leave_out_others_of_their_kind_in_all_papers():
    cells = Plan(only=("quadrants", "SVC")).cells()
    assert {c.dataset for c in cells} == {"quadrants"} and {c.method for c in cells} == {"SVC"}
    assert not Plan(("l01-svm",), only=("quadrants",), without=("quadrants",)).cells()


def test_methods_of_both_protocols_run_once(store, monkeypatch):
    plan = Plan(("l01-svm",), ("honest", "paper"), only=("quadrants", "majority"))
    run, seen = runner.run_cell, []
    monkeypatch.setattr(runner, "run_cell", lambda paper, cell, memo: seen.append(cell) or run(paper, cell, memo))
    summary = reproduce(plan, store)
    assert summary.ran == 6 and len(seen) == 3 and {c.protocol for c in seen} == {"honest"}
    by = {p: [r.measures["accuracy"] for r in store.rows(protocol=p)] for p in ("honest", "paper")}
    assert by["honest"] == by["paper"] and len(by["paper"]) == 3
    assert PAPERS["em2nolc"].twin(Cell("em2nolc", "paper", "quick", "wdbc", 0, "", "SVC")) is None


def test_methods_of_a_bundle_share_the_kernels(monkeypatch):
    made = []
    compute = problem._stack
    monkeypatch.setattr(problem, "_stack", lambda *a: made.append(a[2].tobytes() + a[3].tobytes()) or compute(*a))
    paper = PAPERS["l01-svm"]
    cells = [replace(CELL, method=name) for name in ("SimpleMKL", "mean kernel")]
    rows = runner.run_bundle(paper, cells, None)
    assert all(r.status == OK for r in rows) and len(made) == len(set(made)) == 3 + 2


def test_claims_are_removed_when_a_run_stops(store, monkeypatch):
    def stop(paper, cell, memo):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_cell", stop)
    with pytest.raises(KeyboardInterrupt):
        reproduce(SMALL, store)
    assert store.mine() == [] and store.rows() == []
