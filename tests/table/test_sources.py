"""Rows in blocks: whatever they come from, and however they are cut, the model is that of the rows in memory."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis import EM2NOLCClassifier, EM2NOLCClassifierCV, Plan, SimpleMKLClassifier, Statistics
from tamis.progress import Remaining, listening
from tamis.statistics import passes
from tamis.statistics.profile import SAMPLE_ROWS
from tamis.statistics.survey import Survey
from tamis.table.folds import block_folds, group_folds
from tamis.table.keys import group_keys, row_keys
from tamis.table.reservoir import Reservoir, SampledRows
from tamis.table.sources import source as sources
from tamis.table.sources.source import Block, prefetched, source_of
from tamis.table.table import Table, read_table

N = 3000
NAMES = ["a", "b", "c", "few", "site", "flag"]


def frame(n=N, seed=0):
    """Numbers with and without gaps, few values, text, flags, weights (some zero) and groups."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    X.loc[rng.random(n) < 0.2, "b"] = np.nan
    X["few"] = rng.integers(0, 4, n)
    X["site"] = rng.choice(["north", "south", "west"], n)
    X.loc[rng.random(n) < 0.05, "site"] = None
    X["flag"] = rng.random(n) < 0.4
    score = np.sin(2 * X["a"]) + X["b"].fillna(0) ** 2 + (X["site"] == "west") + X["flag"] - 1.5
    y = np.where(score + 0.3 * rng.normal(size=n) > 0, "yes", "no")
    return X, y, rng.integers(0, 3, n).astype(float), rng.integers(0, 200, n)


X, Y, W, G = frame()
OPTIONS = {"max_instances": 8, "max_features": 4, "random_state": 3}


@pytest.fixture(scope="module")
def whole():
    return EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(X, Y, sample_weight=W)


def same(one, other, tolerance=1e-9):
    np.testing.assert_array_equal(one.instances_, other.instances_)
    np.testing.assert_array_equal(one.features_, other.features_)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=tolerance)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=tolerance)
    assert one.outside_ == other.outside_


def cut(pieces, *columns):
    """Blocks of consecutive rows."""
    ends = np.linspace(0, len(columns[0]), pieces + 1).astype(int)
    return [tuple(c[a:b] for c in columns) for a, b in pairwise(ends)]


def parquet(folder, pieces=1, **extra):
    """The rows as Parquet files, in small row groups."""
    table = pa.Table.from_pandas(X.assign(y=Y, w=W, g=G, **extra), preserve_index=False)
    step = -(-len(table) // pieces)
    for k in range(pieces):
        pq.write_table(table.slice(k * step, step), folder / f"part{k}.parquet", row_group_size=700)
    return folder


def seen_by(survey, n_folds=3):
    """What a plan with folds is made from."""
    return survey.profile(survey.class_factor(None), n_folds, survey.units.earlier(n_folds))


class TestSameModel:
    @pytest.mark.parametrize("pieces", [1, 2, 7, 40])
    def test_from_blocks_however_they_are_cut(self, whole, pieces):
        same(EM2NOLCClassifier(**OPTIONS).fit(cut(pieces, X, Y, W)), whole)

    def test_from_a_function_that_gives_an_iterator(self, whole):
        same(EM2NOLCClassifier(**OPTIONS).fit(lambda: iter(cut(3, X, Y, W))), whole)

    def test_from_an_iterator_that_is_read_once(self, whole):
        same(EM2NOLCClassifier(**OPTIONS).fit(iter(cut(5, X, Y, W))), whole)

    def test_from_dicts_of_columns(self, whole):
        columns = {name: X[name].to_numpy() for name in NAMES}
        blocks = [({n: v[k::2] for n, v in columns.items()}, Y[k::2], W[k::2]) for k in range(2)]
        other = EM2NOLCClassifier(**OPTIONS).fit(blocks)
        np.testing.assert_allclose(other.decision_function(X), whole.decision_function(X), atol=1e-9)

    def test_from_a_parquet_file_and_a_folder_and_a_dataset(self, whole, tmp_path, monkeypatch):
        monkeypatch.setattr(sources, "BLOCK_CELLS", 1500)
        parquet(tmp_path)
        data = pq.read_table(tmp_path / "part0.parquet").drop_columns(["g"])
        pq.write_table(data, tmp_path / "part0.parquet", row_group_size=700)
        same(EM2NOLCClassifier(**OPTIONS).fit(str(tmp_path / "part0.parquet"), "y", "w"), whole)
        folder = tmp_path / "folder"
        folder.mkdir()
        for k in range(3):
            pq.write_table(data.slice(1000 * k, 1000), folder / f"{k}.parquet", row_group_size=300)
        same(EM2NOLCClassifier(**OPTIONS).fit(folder, "y", "w"), whole)
        same(EM2NOLCClassifier(**OPTIONS).fit(ds.dataset(folder), "y", sample_weight="w"), whole)

    def test_from_a_memory_map(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tamis.table.table.LARGE_BYTES", 1000)
        monkeypatch.setattr(sources, "block_rows", lambda d: 640)
        numbers = X[["a", "c"]].to_numpy()
        mapped = np.memmap(tmp_path / "rows", dtype=float, mode="w+", shape=numbers.shape)
        mapped[:] = numbers
        one = EM2NOLCClassifier(**OPTIONS).fit(mapped, Y)
        other = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(numbers, Y)
        np.testing.assert_allclose(one.decision_function(numbers), other.decision_function(numbers), atol=1e-9)
        np.testing.assert_allclose(one.decision_function(mapped), one.decision_function(numbers), atol=1e-12)

    def test_in_single_precision_to_its_digits(self):
        numbers = X[["a", "c"]].to_numpy(dtype=np.float32)
        one = EM2NOLCClassifier(**OPTIONS).fit(cut(4, numbers, Y))
        other = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(numbers, Y)
        np.testing.assert_allclose(one.decision_function(numbers), other.decision_function(numbers), atol=1e-4)

    @pytest.mark.parametrize(
        "options",
        [{"class_weight": "balanced"}, {"class_weight": {"yes": 3.0}}, {"missing": "median"}, {"scaling": "rank"}],
        ids=str,
    )
    def test_with_other_parameters(self, options):
        one = EM2NOLCClassifier(**OPTIONS, **options).fit(cut(3, X, Y, W))
        same(one, EM2NOLCClassifier(engine="statistics", **OPTIONS, **options).fit(X, Y, sample_weight=W))

    def test_with_categories_that_come_as_numbers(self):
        chosen = {"categorical_features": ["few", "site", "flag"]}
        one = EM2NOLCClassifier(**OPTIONS, **chosen).fit(cut(3, X, Y))
        same(one, EM2NOLCClassifier(engine="statistics", **OPTIONS, **chosen).fit(X, Y))

    def test_where_a_choice_is_close_too(self):
        rng = np.random.default_rng(3)
        rows = rng.normal(size=(12000, 4)).astype(np.float32).astype(float)
        noise = rows @ rng.normal(size=(4, 3)) + 0.3 * rng.normal(size=(12000, 3))
        labels = (noise[:, 0] + np.sin(3 * rows[:, 1]) > 0).astype(int)
        options = {"max_instances": 6, "max_features": 3, "coupling": "full", "calibration": None}
        one = EM2NOLCClassifier(**options).fit([(rows[:5000], labels[:5000]), (rows[5000:], labels[5000:])])
        whole = EM2NOLCClassifier(engine="statistics", **options).fit(rows, labels)
        np.testing.assert_allclose(one.decision_function(rows), whole.decision_function(rows), atol=1e-9)

    @pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2)])
    def test_where_a_category_has_no_cell_in_some_block(self, order):
        table, parts = X.copy(), []
        table["site"] = table["site"].astype(object)
        table.loc[:999, "site"] = None
        for k in order:
            parts.append((table[1000 * k : 1000 * (k + 1)], Y[1000 * k : 1000 * (k + 1)]))
        whole = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(table, Y)
        found = EM2NOLCClassifier(**OPTIONS).fit(parts)
        np.testing.assert_allclose(found.decision_function(X), whole.decision_function(X), atol=1e-9)
        surveys = [Survey("auto", "absent", None, 0).update(Block(k, *part)) for k, part in enumerate(parts)]
        for total in (surveys[0] + surveys[1] + surveys[2], surveys[2] + (surveys[1] + surveys[0])):
            assert set(total.level_mass) == {table.columns.get_loc("site")} | set(surveys[1].level_mass)

    def test_from_a_dataset_on_another_file_system(self, tmp_path):
        pq.write_table(pa.table({"a": X["a"], "y": Y}), tmp_path / "a.parquet")
        there = pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem())
        found = EM2NOLCClassifier(4, 1).fit(ds.dataset("a.parquet", filesystem=there, format="parquet"), "y")
        same_here = EM2NOLCClassifier(4, 1).fit(tmp_path / "a.parquet", "y")
        np.testing.assert_array_equal(found.decision_function(X[["a"]]), same_here.decision_function(X[["a"]]))

    def test_in_a_search(self):
        options = {"max_instances": 4, "max_features": 3, "bandwidths": (1.0,), "cv": 3}
        one = EM2NOLCClassifierCV(**options).fit(cut(3, X, Y))
        other = EM2NOLCClassifierCV(engine="statistics", **options).fit(X, Y)
        same(one, other)
        assert one.summary() == other.summary()

    def test_with_another_pass_where_polynomials_are_not_enough(self, monkeypatch):
        from tamis.methods.em2nolc import sums as em2nolc_sums

        monkeypatch.setattr(em2nolc_sums, "doubts", lambda *a: True)
        options = OPTIONS | {"class_weight": {"yes": 4.0}}
        one = EM2NOLCClassifier(**options).fit(cut(3, X, Y, W))
        same(one, EM2NOLCClassifier(engine="statistics", **options).fit(X, Y, sample_weight=W))

    def test_rows_of_one_group_share_a_fold(self):
        survey = Survey("auto", "absent", None, 0)
        for k, block in enumerate(cut(3, X, Y, W, G)):
            survey.update(Block(k, *block))
        seen = seen_by(survey)
        groups = G[seen.rows.position]
        assert all(len(set(seen.rows.groups[groups == g])) == 1 for g in np.unique(groups))
        clf = EM2NOLCClassifier(**OPTIONS).fit([(X, Y, W, G)])
        assert clf.score(X, Y) > 0.8

    def test_rare_classes_that_come_late(self):
        y = Y.astype(object)
        y[-5:] = "rare"
        one = EM2NOLCClassifier(**OPTIONS).fit(cut(6, X, y))
        same(one, EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(X, y))


def test_statistics_of_a_plan_take_blocks_too(tmp_path):
    plan = Plan.of(X, Y, folds=2)
    whole = Statistics(plan).update(X, Y, W)
    data = pq.read_table(parquet(tmp_path) / "part0.parquet").drop_columns(["g"])
    pq.write_table(data, tmp_path / "part0.parquet")
    for rows in ((tmp_path, "y", "w"), (cut(3, X, Y, W),)):
        found = Statistics(plan).update(*rows)
        np.testing.assert_allclose(found.parts, whole.parts, atol=1e-12 * np.abs(whole.parts).max())
        np.testing.assert_array_equal(found.count, whole.count)
        assert found.outside == whole.outside


def test_groups_as_a_column_of_a_file(tmp_path):
    parquet(tmp_path)
    clf = EM2NOLCClassifier(**OPTIONS).fit(tmp_path, "y", "w", "g")
    assert clf.feature_names_in_.tolist() == NAMES


class TestPredictions:
    def test_of_files_read_the_kept_columns_only(self, whole, tmp_path):
        pq.write_table(pa.Table.from_pandas(X[list(whole.model_.encoder.names)]), tmp_path / "kept.parquet")
        np.testing.assert_array_equal(whole.predict(tmp_path / "kept.parquet"), whole.predict(X))
        np.testing.assert_allclose(whole.predict_proba(tmp_path / "kept.parquet"), whole.predict_proba(X), atol=1e-12)
        told = whole.explain(tmp_path / "kept.parquet")
        np.testing.assert_allclose(told.contributions, whole.explain(X).contributions, atol=1e-12)
        assert list(told.rows) == list(range(N))

    def test_of_many_rows_go_in_pieces(self, whole, monkeypatch):
        from tamis.base import model

        expected = whole.decision_function(X)
        monkeypatch.setattr(model, "BLOCK_ROWS", 700)
        np.testing.assert_allclose(whole.decision_function(X), expected, atol=1e-12)


def test_single_rows_of_a_folder(tmp_path):
    source = source_of(parquet(tmp_path, pieces=3), "y")
    rows = np.array([2999, 5, 1000, 5, 1750])
    found = source.take(rows, ["a", "y"])
    np.testing.assert_array_equal(found.column("a").to_numpy(), X["a"].to_numpy()[rows])
    assert found.column("y").to_pylist() == Y[rows].tolist()


def test_one_large_row_group_is_never_held_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("tamis.table.sources.parquet.block_rows", lambda d: 10_000)
    values = np.random.default_rng(0).normal(size=500_000)
    table = pa.table(dict.fromkeys("abcd", values) | {"y": np.arange(500_000) % 2})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=500_000, compression="NONE", use_dictionary=False)
    size = table.nbytes
    del table
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        assert sum(len(block) for block in source_of(tmp_path, "y").blocks()) == 500_000
        assert 0 < pool.max_memory() < 0.5 * size
    finally:
        pa.set_memory_pool(before)


class Stopping:
    """Blocks of which the last cannot be read, at first."""

    def __init__(self, blocks, last):
        self.rows, self.last, self.read = blocks, last, []

    def __call__(self):
        for k, block in enumerate(self.rows):
            if k == self.last and len(self.read) > len(self.rows):
                raise KeyboardInterrupt
            self.read.append(k)
            yield block


class TestStoppedPasses:
    def test_go_on_where_they_were(self, whole, tmp_path, monkeypatch):
        monkeypatch.setattr("tamis.table.sources.checkpoint.SAVE_SECONDS", 0.0)
        rows, file = Stopping(cut(6, X, Y, W), 4), tmp_path / "sums"
        with pytest.raises(KeyboardInterrupt):
            EM2NOLCClassifier(**OPTIONS).fit(rows, checkpoint=file)
        assert file.exists()
        summed = []
        original = Statistics.add_block
        monkeypatch.setattr(Statistics, "add_block", lambda s, b, **k: summed.append(b.number) or original(s, b, **k))
        rows.last = None
        same(EM2NOLCClassifier(**OPTIONS).fit(rows, checkpoint=file), whole)
        assert min(summed) > 0
        assert not file.exists()

    def test_begin_again_where_rows_or_parameters_have_changed(self, whole, tmp_path, monkeypatch):
        monkeypatch.setattr("tamis.table.sources.checkpoint.SAVE_SECONDS", 0.0)
        rows, file = Stopping(cut(6, X, Y, W), 4), tmp_path / "sums"
        with pytest.raises(KeyboardInterrupt):
            EM2NOLCClassifier(**(OPTIONS | {"random_state": 4})).fit(rows, checkpoint=file)
        rows.last = None
        with pytest.warns(UserWarning, match="other rows or of a fit with other parameters"):
            same(EM2NOLCClassifier(**OPTIONS).fit(rows, checkpoint=file), whole)

    def test_do_not_take_files_of_others(self, tmp_path):
        (tmp_path / "sums").write_text("not ours")
        with pytest.raises(ValueError, match="sums"):
            EM2NOLCClassifier(**OPTIONS).fit(cut(2, X, Y), checkpoint=tmp_path / "sums")

    def test_are_for_blocks(self, tmp_path):
        with pytest.raises(ValueError, match=r"checkpoint=.*table in memory"):
            EM2NOLCClassifier(**OPTIONS).fit(X, Y, checkpoint=tmp_path / "sums")

    def test_cannot_be_had_from_what_is_read_once(self, tmp_path):
        (tmp_path / "sums").write_text("mine")
        with pytest.raises(ValueError, match=r"checkpoint=.*one after another"):
            EM2NOLCClassifier(**OPTIONS).fit(iter(cut(2, X, Y)), checkpoint=tmp_path / "sums")
        assert (tmp_path / "sums").read_text() == "mine"

    def test_of_parquet_skip_row_groups(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tamis.table.sources.parquet.block_rows", lambda d: 300)
        source = source_of(parquet(tmp_path), "y")
        numbers = [block.number for block in source.blocks()]
        assert numbers == list(range(len(numbers)))
        late = {block.number: block for block in source.blocks(5)}
        assert sorted(late) == numbers[5:]
        early = {block.number: block for block in source.blocks()}
        assert all((late[k].X["a"] == early[k].X["a"]).all() for k in late)
        assert sum(len(block) for block in early.values()) == N


class TestWhatIsRefused:
    @pytest.mark.parametrize("name", ["sample_weight", "groups"])
    def test_what_stands_beside_blocks(self, name):
        blocks = cut(3, X, Y)
        for what in (blocks, lambda: blocks, iter(blocks)):
            with pytest.raises(ValueError, match=f"{name} is given with blocks: put it into them"):
                EM2NOLCClassifier(**OPTIONS).fit(what, **{name: np.ones(N)})
        with pytest.raises(ValueError, match=f"{name} is given with blocks"):
            Statistics(Plan.of(X, Y)).update(blocks, **{name: np.ones(N)})

    def test_labels_of_two_kinds(self):
        (first, words), (second, numbers) = (X[:1500], Y[:1500]), (X[1500:], (Y[1500:] == Y[0]).astype(int))
        for blocks, where in (([(first, words), (second, numbers)], "numbers in block 1 and text"),
                              ([(second, numbers), (first, words)], "text in block 1 and numbers")):  # fmt: skip
            with pytest.raises(ValueError, match=f"y holds {where} in others"):
                EM2NOLCClassifier(**OPTIONS).fit(blocks)
        parts = [Survey("auto", "absent", None, 0).update(Block(k, *b)) for k, b in enumerate(blocks)]
        with pytest.raises(ValueError, match="y holds text in some blocks and numbers in others"):
            parts[0] + parts[1]

    def test_files_that_change_while_they_are_read(self, tmp_path, monkeypatch):
        path, original = tmp_path / "rows.parquet", Survey.class_factor
        table = pa.table({"a": X["a"], "y": Y})
        pq.write_table(table, path)

        def written(self, class_weight):
            pq.write_table(table.set_column(1, "y", pa.array(Y[::-1])), path)
            return original(self, class_weight)

        monkeypatch.setattr(Survey, "class_factor", written)
        with pytest.raises(ValueError, match="X changed while it was read"):
            EM2NOLCClassifier(4, 1).fit(path, "y")

    def test_a_checkpoint_in_no_folder(self, tmp_path):
        with pytest.raises(ValueError, match=r"checkpoint=.*there is no folder .*make it first"):
            EM2NOLCClassifier(**OPTIONS).fit(cut(3, X, Y), checkpoint=tmp_path / "none" / "sums")

    def test_blocks_to_predict(self):
        clf = EM2NOLCClassifier(**OPTIONS).fit(X[:300], Y[:300])
        blocks = cut(2, X, Y)
        for what in (blocks, lambda: blocks, iter(blocks)):
            with pytest.raises(ValueError, match="of blocks: give the rows of one block at a time"):
                clf.predict(what)

    def test_paths_and_lazy_tables_where_a_table_is_wanted(self, tmp_path):
        import polars

        for what in ([tmp_path / "a.parquet"], polars.LazyFrame({"a": [1]})):
            with pytest.raises(ValueError, match=r"y='y' is the name of a column.*the path of a Parquet file or of a"):
                EM2NOLCClassifier(**OPTIONS).fit(what, "y")
        with pytest.raises(
            ValueError, match=r"memory_estimate needs all rows in memory: read them with tamis.io.read$"
        ):
            EM2NOLCClassifier().memory_estimate(tmp_path, "y")


def test_scores_of_files_are_those_of_their_rows(tmp_path):
    path = parquet(tmp_path)
    table = pq.read_table(path).to_pandas()
    clf = EM2NOLCClassifier(**OPTIONS).fit(path, "y")
    assert clf.score(path, "y") == pytest.approx(clf.score(table.drop(columns="y"), table["y"]))
    assert clf.score(path, "y", sample_weight="few") == pytest.approx(
        clf.score(table.drop(columns="y"), table["y"], table["few"])
    )


class TestProgress:
    def test_counts_rows(self):
        heard = []
        with listening(lambda *told: heard.append(told)):
            EM2NOLCClassifier(calibration=None, **OPTIONS).fit(cut(3, X, Y))
        assert ("reading rows", 1000, 0) in heard
        assert [told for told in heard if told[0] == "summing rows"] == [
            ("summing rows", 1000, N),
            ("summing rows", 2000, N),
            ("summing rows", N, N),
        ]

    def test_tells_how_long_it_will_take(self, monkeypatch):
        from tamis import progress

        clock, lines = iter(range(0, 100, 10)), []
        monkeypatch.setattr(progress, "monotonic", lambda: float(next(clock)))
        tell = Remaining(lambda form, *values: lines.append(form % values))
        for done in (100, 200, 300):
            tell("summing rows", done, 500)
        assert lines == ["summing rows: 200 of 500, 30 s left", "summing rows: 300 of 500, 20 s left"]

    @pytest.mark.parametrize(("ends", "expected"), [(True, ["a: 9 of 9", "b: 30 so far"]), (False, ["b: 30 so far"])])
    def test_is_told_now_and_then(self, monkeypatch, ends, expected):
        from tamis import progress

        clock, lines = iter([0.0, 1.0, 1.0, 2.0, 9.0, 10.0]), []
        monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
        tell = Remaining(lambda form, *values: lines.append(form % values), ends=ends)
        tell("a", 5, 9)
        tell("a", 9, 9)
        for done in (10, 20, 30, 40):  # of nobody knows how many
            tell("b", done, 0)
        assert lines == expected


class TestMemory:
    def test_does_not_grow_with_the_rows(self):
        rng = np.random.default_rng(0)
        block = rng.normal(size=(20_000, 4))
        label = (block[:, 0] > 0).astype(int)

        def rows(pieces):
            for k in range(pieces):
                yield block + 1e-3 * k, label

        def peak(pieces):
            tracemalloc.start()
            EM2NOLCClassifier(5, 2, calibration=None).fit(lambda: rows(pieces))
            top = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return top

        few, many = peak(15), peak(40)
        assert 2 * SAMPLE_ROWS < 15 * 20_000  # the reservoir is full in both
        assert many < 1.2 * few + 4e6

    def test_items_are_made_one_prefetched(self):
        made = []

        def items():
            for k in range(5):
                made.append(k)
                yield k

        for k in prefetched(items()):
            assert len(made) <= k + 3
        assert made == list(range(5))


def drawn(n, seed=0, distinct=40):
    rng = np.random.default_rng(seed)
    rank = rng.integers(0, 2**63, size=n, dtype=np.uint64)
    rank[rng.random(n) < 0.3] = rng.choice(rank[:distinct])
    table = Table(rng.normal(size=(n, 2)), {}, ["a", "b"])
    labels = rng.choice(["x", "y", "z"], n, p=[0.6, 0.35, 0.05])
    return SampledRows(
        table, labels, np.ones(n), None, np.arange(n), rank, np.zeros(n, dtype=int), np.zeros(n, dtype=bool), rank
    )


class TestReservoir:
    @settings(max_examples=20, deadline=None)
    @given(seed=st.integers(0, 50), cuts=st.lists(st.integers(1, 1999), max_size=6), size=st.integers(1, 80))
    def test_holds_the_lowest_of_all_and_of_each_class(self, seed, cuts, size):
        rows = drawn(2000, seed)
        whole = Reservoir(size, 10)
        parts = np.split(np.arange(2000), sorted(cuts))
        for part in parts:
            if len(part):
                whole.add(rows.take(part))
        kept = whole.kept()
        lowest = np.sort(rows.rank)[:size]
        assert np.isin(lowest, kept.rank).all()
        for label in "xyz":
            own = np.sort(rows.rank[rows.labels == label])[:10]
            assert np.isin(own, kept.rank[kept.labels == label]).all()
        assert len(kept) <= size + 30

    def test_two_add_up(self):
        rows = drawn(2000)
        one, two, whole = Reservoir(50, 5), Reservoir(50, 5), Reservoir(50, 5)
        one.add(rows.take(np.arange(700)))
        two.add(rows.take(np.arange(700, 2000)))
        whole.add(rows)
        np.testing.assert_array_equal(np.sort((one + two).kept().rank), np.sort(whole.kept().rank))

    def test_distinct_rows_stay_once(self):
        rows = drawn(2000)
        kept = Reservoir(0, 30, distinct=True)
        for part in np.split(np.arange(2000), 4):
            kept.add(rows.take(part))
        found = kept.kept()
        for label in "xyz":
            expected = np.unique(rows.rank[rows.labels == label])[:30]
            np.testing.assert_array_equal(np.sort(found.rank[found.labels == label]), expected)


class TestSurvey:
    def test_parts_add_up(self):
        survey = [Survey("auto", "absent", None, 0).update(Block(k, *b)) for k, b in enumerate(cut(4, X, Y, W))]
        left = ((survey[0] + survey[1]) + survey[2]) + survey[3]
        right = survey[0] + (survey[1] + (survey[2] + survey[3]))
        for one in (left, right):
            seen = seen_by(one)
            assert seen.counts.sum() == np.sum(W > 0)
            assert seen.distinct[3].tolist() == [0, 1, 2, 3]
            assert set(seen.level_mass[4]) == {"north", "south", "west"}
            assert seen.gaps.tolist()[:4] == [False, True, False, False]
        np.testing.assert_array_equal(np.sort(left.by_value.kept().rank), np.sort(right.by_value.kept().rank))

    def test_an_empty_one_is_a_zero(self):
        one = Survey("auto", "absent", None, 0).update(Block(0, X, Y))
        assert (one + Survey("auto", "absent", None, 0)).n_rows == N
        assert (Survey("auto", "absent", None, 0) + one).n_rows == N


class TestFolds:
    """What decides on folds: the values of a row, or its group, whatever its weight."""

    @pytest.mark.parametrize("groups", [None, G])
    def test_of_sums_pool_and_look_agree(self, groups, monkeypatch):
        found = []
        original = passes.FoldSums
        monkeypatch.setattr(passes, "FoldSums", lambda *a: found.append(original(*a)) or found[-1])
        blocks = cut(4, X, Y, W) if groups is None else cut(4, X, Y, W, groups)
        EM2NOLCClassifier(calibration=4, **OPTIONS).fit(blocks)
        (one,) = found
        plan, kept = one.statistics.plan, W > 0
        if groups is None:
            keys = row_keys(read_table(X, NAMES, None, True), 3)
            fold = block_folds(keys, np.unique(Y, return_inverse=True)[1], 4, [W])
        else:
            fold = group_folds(group_keys(groups), 4, 3)
        np.testing.assert_array_equal(one.statistics.count, np.bincount(fold[kept], minlength=4))
        mass = [np.diagonal(part)[-2:].sum() for part in one.statistics.parts]
        np.testing.assert_allclose(mass, np.bincount(fold, weights=W, minlength=4))
        np.testing.assert_array_equal(plan.pool_fold, fold[plan.pool.position])
        np.testing.assert_array_equal(one.sample_fold, fold[one.sample.position])
        for k in range(4):
            left = one.summary(leave_out=k)
            assert not np.isin(left.pool.position, np.flatnonzero(fold == k)).any()
            assert not (fold[left.sample.position] == k).any()

    def test_labels_of_groups_are_the_same_in_all_types(self):
        whole = group_keys([1, 2, 3])
        for labels in ([1.0, 2.0, 3.0], np.array([1, 2, 3], dtype=np.int8), np.array([1.0, 2.0, 3.0])):
            np.testing.assert_array_equal(group_keys(labels), whole)
        for missing in ([1, None], [1.0, np.nan]):
            with pytest.raises(ValueError, match="groups has missing labels"):
                group_keys(missing)


class TestSample:
    def test_of_rows_that_come_in_every_block_is_one_of_rows(self, monkeypatch):
        monkeypatch.setattr("tamis.statistics.survey.SAMPLE_ROWS", 100)
        monkeypatch.setattr("tamis.statistics.survey.MIN_CLASS_ROWS", 5)
        values = np.arange(400.0)[:, None] % 397
        labels = np.arange(400) % 2
        survey = Survey("auto", "absent", None, 0)
        for k in range(50):
            survey.update(Block(k, values, labels))
        rows = seen_by(survey).rows
        assert len(np.unique(rows.table.numbers)) > 100

    def test_of_distinct_rows_does_not_depend_on_the_cut(self, monkeypatch):
        monkeypatch.setattr("tamis.statistics.survey.SAMPLE_ROWS", 100)
        monkeypatch.setattr("tamis.statistics.survey.MIN_CLASS_ROWS", 5)
        kept = []
        for pieces in (1, 3, 17):
            survey = Survey("auto", "absent", 50, 0)
            for k, block in enumerate(cut(pieces, X, Y)):
                survey.update(Block(k, *block))
            seen = seen_by(survey)
            kept.append((np.sort(seen.rows.position).tolist(), np.sort(seen.pool.position).tolist()))
        assert kept[0] == kept[1] == kept[2]
        assert 200 <= len(kept[0][0]) < 300


class TestOddBlocks:
    def test_without_rows_or_without_weight_are_nothing(self, whole):
        empty, weightless = (X[:0], Y[:0], W[:0]), (X[:50], Y[:50], np.zeros(50))
        blocks = [empty, *cut(2, X, Y, W), weightless, empty]
        one = EM2NOLCClassifier(**OPTIONS).fit(blocks)
        np.testing.assert_allclose(one.decision_function(X), whole.decision_function(X), atol=1e-9)

    def test_missing_cells_and_classes_of_rows_without_weight_do_not_matter(self):
        numbers, y, w = X[["a", "c"]].to_numpy(copy=True), Y.astype(object), np.ones(N)
        plain = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(numbers[10:], Y[10:])
        numbers[:10], y[:10], w[:10] = np.nan, "other", 0.0
        one = EM2NOLCClassifier(**OPTIONS).fit(cut(2, numbers, y, w))
        np.testing.assert_allclose(one.decision_function(numbers), plain.decision_function(numbers), atol=1e-6)

    def test_in_another_order_of_columns_are_refused(self):
        for device in (None, "cpu") if _has_torch() else (None,):
            with pytest.raises(ValueError, match="block 1 has the columns"):
                EM2NOLCClassifier(device=device).fit([(X[["a", "c"]], Y), (X[["c", "a"]], Y)])

    def test_with_a_category_of_which_no_cell_is_there(self, whole):
        late = X.copy()
        late.loc[:1499, "site"] = None
        one = EM2NOLCClassifier(**OPTIONS).fit([(late[1500:], Y[1500:]), (late[:1500], Y[:1500])])
        other = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(late, Y)
        np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-6)

    def test_that_use_their_memory_again(self, whole):
        def rows():
            room, labels, weight = np.empty((500, 2)), np.empty(500, dtype=Y.dtype), np.empty(500)
            for k in range(0, N, 500):
                room[:], labels[:], weight[:] = numbers[k : k + 500], Y[k : k + 500], W[k : k + 500]
                yield room, labels, weight

        numbers = X[["a", "c"]].to_numpy()
        one = EM2NOLCClassifier(**OPTIONS).fit(rows)
        other = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(numbers, Y, sample_weight=W)
        np.testing.assert_allclose(one.decision_function(numbers), other.decision_function(numbers), atol=1e-6)

    def test_of_a_function_that_gives_other_rows_the_second_time(self):
        used = iter(cut(3, X, Y))
        with pytest.raises(ValueError, match=r"3000 rows .* and 0 when it was read again: a function must return"):
            EM2NOLCClassifier().fit(lambda: used)

    def test_cut_otherwise_after_a_stop_begin_again(self, whole, tmp_path, monkeypatch):
        monkeypatch.setattr("tamis.table.sources.checkpoint.SAVE_SECONDS", 0.0)
        file = tmp_path / "sums"
        with pytest.raises(KeyboardInterrupt):
            EM2NOLCClassifier(**OPTIONS).fit(Stopping(cut(6, X, Y, W), 4), checkpoint=file)
        with pytest.warns(UserWarning, match="other rows"):
            same(EM2NOLCClassifier(**OPTIONS).fit(lambda: cut(9, X, Y, W), checkpoint=file), whole)

    def test_of_an_iterator_with_gaps_that_come_late(self, monkeypatch):
        monkeypatch.setattr("tamis.table.sources.source.FIRST_ROWS", 500)
        numbers = X[["a", "c"]].to_numpy(copy=True)
        numbers[-100:, 1] = np.nan
        clf = EM2NOLCClassifier(**OPTIONS).fit(iter(cut(6, numbers, Y)))
        assert np.isfinite(clf.decision_function(numbers)).all()


def _has_torch():
    try:
        import torch
    except ImportError:
        return False
    return torch is not None


class TestFolders:
    """Folders as people have them."""

    def fitted(self, path, y="y"):
        return EM2NOLCClassifier(3, 3, calibration=None).fit(path, y)

    def test_with_partitions_in_their_names(self, tmp_path):
        table = pa.Table.from_pandas(X[["a", "c", "site"]].dropna().assign(y=Y[X["site"].notna()]))
        pq.write_to_dataset(table.drop_columns(["__index_level_0__"]), tmp_path, partition_cols=["site"])
        assert sorted(self.fitted(tmp_path).feature_names_in_) == ["a", "c", "site"]

    def test_with_columns_that_some_files_lack_or_have_in_other_types(self, tmp_path):
        first = pa.table({"b": np.arange(600), "y": Y[:600]})
        second = pa.table({"y": Y[600:1200], "b": X["c"].to_numpy()[600:1200], "a": X["a"].to_numpy()[600:1200]})
        pq.write_table(first, tmp_path / "1.parquet")
        pq.write_table(second, tmp_path / "2.parquet")
        (tmp_path / "readme.txt").write_text("not a table")
        clf = self.fitted(tmp_path)
        assert sorted(clf.feature_names_in_) == ["a", "b"]
        pq.write_table(pa.table({"y": Y[:600], "b": ["u"] * 600}), tmp_path / "3.parquet")
        with pytest.raises(ValueError, match=r"'3.parquet' does not fit the other files.*b"):
            self.fitted(tmp_path)

    def test_with_the_index_of_a_frame(self, tmp_path):
        X[["a", "c"]].assign(y=Y).sort_values("a").to_parquet(tmp_path / "rows.parquet")
        assert self.fitted(tmp_path).feature_names_in_.tolist() == ["a", "c"]

    def test_without_files(self, tmp_path):
        with pytest.raises(ValueError, match="has no Parquet files"):
            self.fitted(tmp_path)

    @pytest.mark.parametrize(
        "y", [X["a"].to_numpy() > 0, (X["a"].to_numpy() > 0).astype(np.int8)], ids=["flags", "int8"]
    )
    def test_with_flags_as_classes(self, tmp_path, y):
        pq.write_table(pa.table({"a": X["a"].to_numpy(), "y": y}), tmp_path / "rows.parquet")
        assert self.fitted(tmp_path).classes_.tolist() == np.unique(y).tolist()

    def test_with_text_that_is_missing_in_a_row_group(self, tmp_path):
        site = [v if isinstance(v, str) else None for v in X["site"]]
        site[:1400] = [None] * 1400
        table = pa.table({"a": X["a"].to_numpy(), "site": pa.array(site, pa.string()), "y": Y})
        pq.write_table(table, tmp_path / "rows.parquet", row_group_size=700)
        frame = table.to_pandas()
        other = EM2NOLCClassifier(3, 3, calibration=None, engine="statistics").fit(frame[["a", "site"]], Y)
        mine = self.fitted(tmp_path).decision_function(frame[["a", "site"]])
        np.testing.assert_allclose(mine, other.decision_function(frame[["a", "site"]]), atol=1e-6)

    def test_say_which_column_is_wrong(self, tmp_path):
        days = np.arange(600).astype("datetime64[D]")
        pq.write_table(pa.table({"when": days, "y": Y[:600]}), tmp_path / "rows.parquet")
        with pytest.raises(ValueError, match=r"column 'when'.*numbers or text"):
            self.fitted(tmp_path)
        some = Y[:600].astype(object)
        some[3] = None
        pq.write_table(pa.table({"a": np.arange(600.0), "y": some.tolist()}), tmp_path / "rows.parquet")
        with pytest.raises(ValueError, match="target 'y' has missing cells"):
            self.fitted(tmp_path)
        with pytest.raises(ValueError, match="two roles"):
            EM2NOLCClassifier().fit(tmp_path, "y", "y")

    def test_datasets_of_other_formats_are_refused(self, tmp_path):
        (tmp_path / "rows.csv").write_text("a,y\n1,0\n2,1\n")
        with pytest.raises(ValueError, match="not of Parquet files"):
            self.fitted(ds.dataset(tmp_path / "rows.csv", format="csv"))


class TestRefusals:
    @pytest.mark.parametrize(
        "given, y, words",
        [
            ("nowhere.parquet", "y", "no file or folder"),
            (__file__, "y", "not a Parquet file"),
            ([(np.ones((3, 2)),)], None, "block 0 is a tuple"),
            (lambda: 3, None, "must return an iterable"),
            (list, [0, 1], "leave y out"),
            (
                pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]}),
                "y",
                "name of a column, and X is a DataFrame: give the labels",
            ),
            (lambda: [np.ones((3, 2))], None, "block 0 is a ndarray"),
            (lambda: iter(()), None, "no rows"),
            (lambda: [(np.ones((3, 2)), [1, 1, 1])], None, "one class only"),
            (lambda: [(np.ones((3, 2)), [0, 1])], None, "y has length 2"),
            (lambda: [(np.ones((2, 2)), [0, 1]), (np.ones((2, 3)), [0, 1])], None, "3 columns"),
        ],
    )
    def test_say_what_is_wrong(self, given, y, words):
        with pytest.raises((ValueError, FileNotFoundError), match=words):
            EM2NOLCClassifier().fit(given, y)

    def test_of_columns_that_are_not_there(self, tmp_path):
        with pytest.raises(ValueError, match=r"no column 'z'.*it has a, b, c"):
            EM2NOLCClassifier().fit(parquet(tmp_path), "z")
        with pytest.raises(ValueError, match="y is None"):
            EM2NOLCClassifier().fit(tmp_path)
        with pytest.raises(ValueError, match="must be the name of a column"):
            EM2NOLCClassifier().fit(tmp_path, Y)

    @pytest.mark.parametrize("options", [{"engine": "dense"}, {"candidates": "all"}, {"solver": "paper"}], ids=str)
    def test_of_parameters_that_need_rows_in_memory(self, options):
        with pytest.raises(ValueError, match=f"{next(iter(options))}="):
            EM2NOLCClassifier(**options).fit(cut(2, X, Y))

    def test_of_splitters(self):
        with pytest.raises(ValueError, match=r"cv=.*integer"):
            EM2NOLCClassifierCV(cv=[(np.arange(5), np.arange(5, 9))]).fit(cut(2, X, Y))

    def test_of_estimators_that_need_all_rows(self, tmp_path):
        with pytest.raises(ValueError, match=r"SimpleMKLClassifier needs all rows.*EM2NOLCClassifier"):
            SimpleMKLClassifier().fit(parquet(tmp_path), "y")

    def test_of_blocks_that_differ_in_their_kinds(self):
        blocks = [(pd.DataFrame({"a": [1.0, 2.0]}), [0, 1]), (pd.DataFrame({"a": ["u", "v"]}), [0, 1])]
        with pytest.raises(ValueError, match="'a' holds numbers in some blocks and categories in others"):
            EM2NOLCClassifier().fit(blocks)

    def test_of_a_failed_fit_leaves_the_last_one(self, whole):
        clf = EM2NOLCClassifier(**OPTIONS).fit(cut(2, X, Y, W))
        with pytest.raises(ValueError):
            clf.fit(lambda: iter(()))
        same(clf, whole)


def test_an_iterator_is_planned_from_its_first_rows(monkeypatch):
    monkeypatch.setattr("tamis.table.sources.source.FIRST_ROWS", 500)
    numbers = X[["a", "c"]].to_numpy(copy=True)
    numbers[-500:] *= 3
    with pytest.warns(UserWarning, match="beyond the plan's ranges"):
        clf = EM2NOLCClassifier(**OPTIONS).fit(iter(cut(6, numbers, Y)))
    assert max(clf.instances_) < 500
    assert clf.outside_
