"""Dask: real workers, one of which is killed in the middle; the model is that of one machine."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

from tamis import EM2NOLCClassifier, EM2NOLCClassifierCV, SimpleMKLClassifier, TamisClassifier
from tamis.progress import listening
from tamis.statistics.statistics import Statistics
from tamis.table.sources.on_dask import DaskSource, mapped

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:distributed", "ignore::ResourceWarning")
N, OPTIONS = 6000, {"max_instances": 8, "max_features": 3, "random_state": 1}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(N, 5)), columns=list("abcde"))
    X.loc[rng.random(N) < 0.1, "b"] = np.nan
    y = (np.sin(2 * X["a"]) + X["c"] ** 2 + 0.4 * rng.normal(size=N) > 1).to_numpy().astype(int)
    return X, y


@pytest.fixture(scope="module")
def whole(rows):
    return EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(*rows)


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 3, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(memory_limit=0, **options) as cluster, Client(cluster) as client:
        yield client


def same(one, other, X):
    np.testing.assert_array_equal(one.instances_, other.instances_)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-9)


class Slow:
    """Sums that take their time, so that there is a middle to be killed in; says which processes made some."""

    def __init__(self, seconds, log):
        self.seconds, self.log = seconds, str(log)

    def __call__(self, statistics, block):
        with open(self.log, "a") as file:
            file.write(f"{block.number} {os.getpid()}\n")
        time.sleep(self.seconds)
        return statistics.add_block(block)


def test_workers_give_the_model_of_one_machine(client, rows, whole):
    X, y = rows
    values = X.to_numpy()
    clf = EM2NOLCClassifier(**OPTIONS).fit(da.from_array(values, chunks=(700, 5)), da.from_array(y, chunks=700))
    np.testing.assert_array_equal(clf.instances_, whole.instances_)
    np.testing.assert_allclose(clf.decision_function(values), whole.decision_function(X), atol=1e-9)
    frame = dd.from_pandas(X.assign(y=y), npartitions=5)
    same(EM2NOLCClassifier(**OPTIONS).fit(frame, "y"), whole, X)


def test_workers_tell_how_many_rows_are_done(client, rows):
    told = []
    with listening(lambda *words: told.append(words)):
        X, y = rows
        EM2NOLCClassifier(**OPTIONS).fit(da.from_array(X.to_numpy(), chunks=(2000, 5)), da.from_array(y, chunks=2000))
    for what in ("reading rows", "summing rows"):
        assert [words[1:] for words in told if words[0] == what] == [(2000, N), (4000, N), (N, N)]


def test_a_cluster_need_not_be_used(client, rows, whole):
    frame = dd.from_pandas(rows[0].assign(y=rows[1]), npartitions=2)
    with dask.config.set(scheduler="synchronous"):
        same(EM2NOLCClassifier(**OPTIONS).fit(frame, "y"), whole, rows[0])


def test_a_killed_worker_changes_nothing(client, rows, whole, tmp_path):
    X, y = rows
    source = DaskSource(da.from_array(X.to_numpy(), chunks=(300, 5)), y)
    plan = EM2NOLCClassifier(**OPTIONS).partial_fit(X.to_numpy(), y).statistics_.plan
    log = tmp_path / "log"
    log.touch()
    found = {}

    def work():
        found["total"] = source.total(lambda: Statistics(plan), Slow(0.3, log), "summing rows")

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(3000):
        if len(log.read_text().splitlines()) >= 8:
            break
        time.sleep(0.02)
    victim = int(log.read_text().splitlines()[0].split()[1])
    os.kill(victim, signal.SIGKILL)
    thread.join(60)
    done = [line.split() for line in log.read_text().splitlines()]
    assert len({process for _, process in done}) >= 3 and str(victim) in {process for _, process in done}
    assert len(done) > len({number for number, _ in done}) == 20, "no block was summed again"
    plain = Statistics(plan).update(X.to_numpy(), y)
    assert found["total"].n_rows == N
    np.testing.assert_allclose(found["total"].parts, plain.parts, atol=1e-9 * np.abs(plain.parts).max())


def test_a_fit_with_a_worker_killed_is_the_same(client, rows, whole):
    X, y = rows
    client.wait_for_workers(3, timeout=30)
    pids = list(client.run(os.getpid).values())
    timer = threading.Timer(0.4, lambda: os.kill(pids[0], signal.SIGKILL))
    frame = dd.from_pandas(X.assign(y=y), npartitions=30)
    timer.start()
    clf = EM2NOLCClassifier(**OPTIONS).fit(frame, "y")
    timer.join()
    same(clf, whole, X)


class TestFlagship:
    OPTIONS = {"max_features": 3, "max_pairs": 1, "max_instances": 2, "random_state": 1}

    @pytest.fixture(autouse=True)
    def few_are_many(self, monkeypatch):
        monkeypatch.setattr("tamis.flagship.estimator.MANY", 1000)
        monkeypatch.setattr("tamis.flagship.estimator.SAMPLE_ROWS", 2000)

    def same(self, one, other, X):
        assert one.features_.tolist() == other.features_.tolist() and one.pairs_ == other.pairs_
        np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-8)

    def test_workers_give_the_model_of_one_machine(self, client, rows):
        X, y = rows
        whole, told = TamisClassifier(**self.OPTIONS).fit(X, y), []
        with listening(lambda *words: told.append(words)):
            found = TamisClassifier(**self.OPTIONS).fit(dd.from_pandas(X.assign(y=y), npartitions=3), "y")
        self.same(found, whole, X)
        for what, known in (("reading rows", 0), ("reading rows again", N)):
            assert [words[1:] for words in told if words[0] == what] == [(2000, known), (4000, known), (N, known)]

    @pytest.mark.parametrize("phase", ["reading rows again", "fitting to all rows"])
    def test_a_killed_worker_changes_nothing(self, client, rows, phase):
        X, y = rows
        whole = TamisClassifier(**self.OPTIONS).fit(X, y)
        client.wait_for_workers(2, timeout=60)  # those killed before may still be starting
        pids = list(client.run(os.getpid).values())
        killed = []

        def kill(what, done, total):
            if what == phase and not killed:
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

        with listening(kill):
            found = TamisClassifier(**self.OPTIONS).fit(dd.from_pandas(X.assign(y=y), npartitions=12), "y")
        assert killed
        self.same(found, whole, X)

    def test_what_is_wrong_on_a_worker_is_named(self, client, rows):
        X, y = rows
        frame = dd.from_pandas(X.assign(y=y, a=np.where(np.arange(N) == 5000, np.inf, X["a"])), npartitions=4)
        with pytest.raises(ValueError, match="infinity in column 'a'"):
            TamisClassifier(**self.OPTIONS).fit(frame, "y")


class TestLazyPredictions:
    def test_of_arrays_know_their_shape(self, rows, whole):
        X, _ = rows
        values = da.from_array(X.to_numpy(), chunks=(1500, 5))
        clf = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(X.to_numpy(), rows[1])
        for name in ("predict", "decision_function", "predict_proba"):
            lazy = getattr(clf, name)(values)
            assert isinstance(lazy, da.Array) and lazy.chunks[0] == values.chunks[0]
            np.testing.assert_allclose(lazy.compute(scheduler="threads"), getattr(clf, name)(X.to_numpy()), atol=1e-12)

    def test_of_frames(self, rows, whole):
        X, _ = rows
        frame = dd.from_pandas(X, npartitions=4)
        lazy = whole.predict(frame)
        assert isinstance(lazy, da.Array)
        np.testing.assert_array_equal(lazy.compute(scheduler="threads"), whole.predict(X))

    def test_explanations_can_be_had_in_memory(self, rows, whole):
        X = rows[0][:200]
        lazy = whole.explain(dd.from_pandas(X, npartitions=3))
        assert lazy._repr_html_() is None
        for name in ("to_frame", "to_dict", "to_shap"):
            if name != "to_shap" or importlib.util.find_spec("shap"):
                with pytest.raises(ValueError, match=rf"use \.compute\(\)\.{name}\(\)"):
                    getattr(lazy, name)()
        there, wanted = lazy.compute(), whole.explain(X)
        np.testing.assert_array_equal(there.contributions, wanted.contributions)
        assert there.to_dict()["contribution"] == wanted.to_dict()["contribution"] and there.rows == range(200)

    def test_explanations_add_up(self, rows, whole):
        X, _ = rows
        told, plain = whole.explain(dd.from_pandas(X, npartitions=4)), whole.explain(X)
        assert isinstance(told.contributions, da.Array)
        for name in ("contributions", "by_instance", "by_feature", "decision"):
            lazy = getattr(told, name).compute(scheduler="threads")
            np.testing.assert_allclose(lazy, getattr(plain, name), atol=1e-12)

    def test_of_other_estimators_too(self, rows):
        X, y = rows
        clf = TamisClassifier(max_instances=5, max_features=3).fit(X[:300], y[:300])
        frame = dd.from_pandas(X, npartitions=3)
        lazy = clf.predict_proba(frame)
        np.testing.assert_allclose(lazy.compute(scheduler="threads"), clf.predict_proba(X), atol=1e-9)
        told, plain = clf.explain(frame), clf.explain(X)
        assert isinstance(told.by_feature, da.Array) and told._repr_html_() is None
        with pytest.raises(ValueError, match=r"use \.compute\(\)\.to_frame\(\)"):
            told.to_frame()
        for name in ("by_part", "by_feature", "by_pair", "by_case", "similarity", "decision"):
            np.testing.assert_array_equal(getattr(told.compute(), name), getattr(plain, name))


class TestWithoutACluster:
    def test_weights_groups_and_a_search(self, rows):
        X, y = rows
        rng = np.random.default_rng(2)
        frame = X.assign(y=y, w=rng.integers(0, 3, N).astype(float), g=rng.integers(0, 500, N))
        options = {"max_instances": 4, "max_features": 3, "bandwidths": (1.0,), "cv": 3}
        one = EM2NOLCClassifierCV(**options).fit(dd.from_pandas(frame, npartitions=4), "y", "w", "g")
        blocks = [(X, y, frame["w"].to_numpy(), frame["g"].to_numpy())]
        other = EM2NOLCClassifierCV(**options).fit(blocks)
        np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-9)

    def test_columns_in_several_chunks_and_labels_in_others(self, rows, whole):
        X, y = rows
        values = da.from_array(X.to_numpy(), chunks=(1000, 2))
        clf = EM2NOLCClassifier(**OPTIONS).fit(values, da.from_array(y, chunks=1500))
        np.testing.assert_array_equal(clf.instances_, whole.instances_)

    def test_a_total_is_a_tree(self):
        source = DaskSource(da.zeros((90, 2), chunks=(10, 2)), da.arange(90, chunks=10))
        total = source.total(list, lambda s, b: [*s, int(b.y[0])], "adding")
        assert sorted(total) == list(range(0, 90, 10))

    def test_empty_partitions_are_nothing(self, rows, whole):
        X, y = rows
        frame = dd.from_pandas(X.assign(y=y), npartitions=6)
        some = frame.map_partitions(lambda part: part[part.index < 2500])
        one = EM2NOLCClassifier(**OPTIONS).fit(some, "y")
        other = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(X[:2500], y[:2500])
        np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-6)
        assert len(one.predict(some.drop(columns="y")).compute(scheduler="threads")) == 2500

    def test_threads_of_blas_are_as_they_were_when_contexts_overlap(self):
        from threadpoolctl import threadpool_info, threadpool_limits

        from tamis.parallel import blas_threads

        def threads():
            return {one["filepath"]: one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

        with threadpool_limits(2, user_api="blas"):
            before = threads()  # a library built for one thread, as that of a solver may be, stays at one
            assert 2 in before.values()
            first, second = blas_threads(1), blas_threads(1)
            first.__enter__()
            second.__enter__()
            first.__exit__(None, None, None)
            assert set(threads().values()) == {1}
            second.__exit__(None, None, None)
            assert threads() == before

    def test_parts_use_one_core(self):
        from tamis.parallel import available_cores

        source = DaskSource(da.zeros((4, 2), chunks=(2, 2)), da.arange(4, chunks=2))
        assert source.total(list, lambda s, b: [*s, available_cores()], "adding") == [1, 1]

    def test_functions_of_partitions(self):
        out = mapped(lambda part: np.asarray(part).sum(axis=1), da.ones((8, 3), chunks=(4, 3)))
        assert out.compute(scheduler="threads").tolist() == [3.0] * 8


class TestRefusals:
    def test_name_what_is_wrong(self, rows):
        X, y = rows
        values = da.from_array(X.to_numpy(), chunks=(1000, 5))
        with pytest.raises(ValueError, match="name of a column, and X is an array"):
            EM2NOLCClassifier().fit(values, "y")
        with pytest.raises(ValueError, match="no column 'z'"):
            EM2NOLCClassifier().fit(dd.from_pandas(X, npartitions=2), "z")
        with pytest.raises(ValueError, match="no Dask collection"):
            EM2NOLCClassifier().fit(dd.from_pandas(X, npartitions=2), y)
        with pytest.raises(ValueError, match="SimpleMKLClassifier needs all rows in memory"):
            SimpleMKLClassifier().fit(values, y)
