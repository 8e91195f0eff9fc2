"""The store of rows: rows, claims, several writers."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from experiments.cells import FAILED, KEY, MEASURES, Row
from experiments.store import Store, _started
from tamis.errors import BadOption

from small_experiments import CELL, row


def write_many(path, owner):
    own = Store(path)
    for split in range(40):
        own.add(row(replace(CELL, split=split), accuracy=float(owner)))


def test_a_row_is_read_as_it_was_added(store):
    given = row(chosen={"C": 1.0}, extra={"scores": [0.1, 2.0]}, seed=4)
    assert store.add(given)
    assert store.rows() == [given] and store.done() == {CELL}


def test_a_row_is_never_replaced(store):
    store.add(row(accuracy=90.0))
    assert not store.add(row(accuracy=10.0))
    assert [r.measures["accuracy"] for r in store.rows()] == [90.0]


def test_missing_numbers_and_arrays_are_stored(store):
    store.add(Row(CELL, {"accuracy": np.float64(80), "auc": float("nan")}, extra={"a": np.array([1.0, np.nan])}))
    found = store.rows()[0]
    assert found.measures == {"accuracy": 80.0} and found.extra == {"a": [1.0, None]}


def test_rows_are_found_by_columns(store):
    other = replace(CELL, method="majority")
    store.add(row())
    store.add(row(other))
    assert [r.cell for r in store.rows(method="majority")] == [other]


def test_failed_rows_may_be_forgotten(store):
    store.add(row(status=FAILED, error="x"))
    assert store.done() == {CELL} and store.done(failed=False) == set()
    store.forget([CELL])
    assert store.rows() == []


def test_other_files_and_missing_folders_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("no database, but long enough to be taken for one\n" * 40)
    with pytest.raises(BadOption, match="no store of experiments"):
        Store(tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        Store(tmp_path / "none" / "rows.sqlite")
    with sqlite3.connect(tmp_path / "old.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(BadOption, match="has version 99"):
        Store(tmp_path / "old.sqlite")
    with sqlite3.connect(tmp_path / "other.sqlite") as db:
        db.execute("CREATE TABLE rows (a)")
    with pytest.raises(BadOption, match="a database without rows of experiments"):
        Store(tmp_path / "other.sqlite")


def test_several_threads_open_a_new_store_at_once(tmp_path):
    for k in range(20):
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(Store, [tmp_path / f"{k}.sqlite"] * 6))
        assert found[0].add(row()) and len(found[5].rows()) == 1


def test_cells_claimed_by_one_run_are_left_by_another(store):
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


def test_claims_of_dead_processes_are_void(store):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead = Store(store.path)
    dead.owner = f"{dead.owner.split(':')[0]}:{child.pid}:7"
    assert list(dead.claimed([[CELL]])) == [[CELL]]
    assert list(store.claimed([[CELL]])) == [[CELL]]


def test_a_later_process_with_the_same_number_has_no_claims(store):
    earlier = Store(store.path)
    host, pid, started = earlier.owner.split(":")
    assert started
    earlier.owner = f"{host}:{pid}:{int(started) - 1}"
    assert list(earlier.claimed([[CELL]])) == [[CELL]]
    assert store.claimed_elsewhere() == {} and list(store.claimed([[CELL]])) == [[CELL]]


def test_several_writers_share_a_file(store):
    with ThreadPoolExecutor(3) as pool:  # a connection each, as processes have
        list(pool.map(partial(write_many, store.path), range(3)))
    found = store.rows()
    assert len(found) == 40 and {r.cell.split for r in found} == set(range(40))
    with sqlite3.connect(store.path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_key_and_measures_are_columns():
    flat = row().flat()
    assert set(KEY) | set(MEASURES) <= set(flat)
