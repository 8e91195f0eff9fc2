from __future__ import annotations

import math
import pickle
import threading
from decimal import Decimal

import joblib
import numpy as np
import pytest
from joblib import Parallel, delayed

from tamis.codec import read, write
from tamis.kernels import alignment as module
from tamis.kernels import global_alignment
from tamis.kernels.alignment import Aligned, AlignmentKernels, alignment, alignment_kernels
from tamis.kernels.global_alignment import align, alignment_bandwidths, check_series, is_series
from tamis.kernels.recipes import Recipe, Sample
from tamis.methods.baselines.easy_mkl import EasyMKLClassifier
from tamis.parallel import available_cores
from tamis.progress import listening

NAN = np.nan


def kappa(a, b, width):
    g = math.exp(-((a - b) ** 2) / (2 * width**2))
    return g / (2 - g)


def every_alignment(x, z, width):
    """The sum over alignments as it is defined: all paths, one by one."""

    def onward(s, t):
        here = kappa(x[s], z[t], width)
        if (s, t) == (len(x) - 1, len(z) - 1):
            return here
        steps = [(s + 1, t), (s, t + 1), (s + 1, t + 1)]
        return here * sum(onward(a, b) for a, b in steps if a < len(x) and b < len(z))

    return onward(0, 0)


def exact(x, z, width):
    """The same sum by its recursion, in numbers that neither overflow nor underflow."""
    before = [Decimal(0)] * (len(z) + 1)
    before[0] = Decimal(1)
    for a in x:
        row = [Decimal(0)]
        for t, b in enumerate(z):
            row.append(Decimal(kappa(a, b, width)) * (before[t + 1] + row[t] + before[t]))
        before = row
    return before[-1]


def normalised(k, x, z, width):
    value = k(x, z, width)
    return float(value / (k(x, x, width) * k(z, z, width)) ** type(value)(0.5))


def delannoy(a, b):
    """Number of alignments of series of a and b steps."""
    return sum(math.comb(a - 1, k) * math.comb(b - 1, k) * 2**k for k in range(min(a, b)))


@pytest.fixture
def ragged(rng):
    """Walks of 1 to 6 steps in 3 channels; a channel may end early or be absent."""
    series = np.cumsum(rng.normal(size=(7, 3, 6)), axis=2)
    for row, length in zip(series, [6, 1, 4, 2, 5, 6, 3], strict=True):
        row[:, length:] = NAN
    series[2, 1, 2:] = NAN
    series[4, 0] = NAN
    return series


def ended(channel):
    return channel[~np.isnan(channel)].tolist()


def table():
    return Sample(np.zeros((4, 2)), ["a", "b"], np.zeros(2, dtype=bool), np.ones((4, 1)), np.ones(4), 20, 0)


class TestSeries:
    def test_lists_and_trailing_nan_say_the_same(self, ragged):
        listed = [row[:, : max(len(ended(channel)) for channel in row)] for row in ragged]
        for given in (listed, tuple(listed), [row.tolist() for row in listed]):
            np.testing.assert_array_equal(check_series(given), ragged)
        objects = np.empty(7, dtype=object)
        objects[:] = listed
        np.testing.assert_array_equal(check_series(objects), ragged)

    def test_any_numbers_become_doubles(self):
        for given in (np.ones((2, 3, 4), dtype="f4"), np.ones((2, 3, 4), dtype=int), np.ones((2, 3, 4)).tolist()):
            assert check_series(given).dtype == np.float64 and check_series(given).shape == (2, 3, 4)
        masked = np.ma.MaskedArray(np.ones((1, 1, 3)), mask=[[[0, 0, 1]]])
        np.testing.assert_array_equal(check_series(masked), [[[1, 1, NAN]]])

    def test_a_sample_may_lack_every_channel(self):
        series = np.array([[[1.0, 2.0]], [[NAN, NAN]]])
        np.testing.assert_array_equal(check_series(series), series)

    @pytest.mark.parametrize(
        ("X", "match"),
        [
            ([[[1, NAN, 2]]], "sample 0, channel 0 has NaN at step 1 and a number after it: fill"),
            ([np.ones((2, 2)), np.array([[1, 2], [NAN, 1]])], "sample 1, channel 1 has NaN at step 0"),
            (np.array([[[1, 2], [1, -np.inf]]]), "sample 0, channel 1 is infinite at step 1: give a number"),
            ([np.ones((2, 3)), np.ones((1, 3))], "sample 1 has 1 channels, but sample 0 has 2: give every sample"),
            ([np.ones((2, 3)), np.ones(3)], r"sample 1 has the shape \(3,\): give a 2-D array"),
            ([np.ones((2, 3)), np.ones((2, 0))], r"sample 1 has the shape \(2, 0\).*not empty"),
            ([np.ones((1, 1)), [["a"]]], "sample 1 is not an array of real numbers"),
            ([[[1, 2], [3]]], "sample 0 is not an array of real numbers"),
            (np.full((1, 1, 1), "1"), "X is not an array of real numbers"),
            (np.full((1, 1, 1), 1j), "X is not an array of real numbers"),
            ({"a": 1}, "X is not an array of real numbers"),
            (np.ones((3, 2)), r"X has the shape \(3, 2\): series are a 3-D array"),
            (3, r"X has the shape \(\)"),
            ([], r"X is empty, its shape is \(0, 0, 0\)"),
            (np.ones((0, 2, 3)), r"X is empty, its shape is \(0, 2, 3\): give at least one sample"),
            (np.ones((2, 3, 0)), r"X is empty, its shape is \(2, 3, 0\): give at least one sample, channel and step"),
        ],
    )
    def test_what_is_no_series_is_refused_by_name(self, X, match):
        with pytest.raises(ValueError, match=match):
            check_series(X)

    def test_series_are_told_from_tables(self):
        pd = pytest.importorskip("pandas")
        objects = np.empty(2, dtype=object)
        objects[:] = [np.ones((2, 3)), np.ones((2, 4))]
        rows = np.ones((4, 2))
        for X in (np.ones((2, 3, 4)), [rows, rows], (rows,), np.ones((2, 3, 4)).tolist(), objects):
            assert is_series(X) is True
        frame = pd.DataFrame(rows)
        for X in (
            rows,
            rows.tolist(),
            list(rows),
            frame,
            {"a": [1]},
            [],
            [[]],
            None,
            3,
            "abc",
            objects[:0],
            [{"a": 1}],
        ):
            assert is_series(X) is False


class TestBandwidths:
    def test_are_those_of_tslearn_where_it_looks_at_all_observations(self, rng):
        metrics = pytest.importorskip("tslearn.metrics")
        series = rng.normal(size=(10, 3, 20)) * np.array([1.0, 10.0, 0.1])[:, None]
        theirs = [metrics.sigma_gak(series[:, c, :, None], n_samples=200) for c in range(3)]
        np.testing.assert_allclose(alignment_bandwidths(series), theirs, rtol=1e-12)

    def test_padding_and_other_channels_change_nothing(self, ragged):
        longer = np.concatenate([ragged, np.full((7, 3, 5), NAN)], axis=2)
        longer = np.concatenate([longer, np.ones((7, 1, 11))], axis=1)
        np.testing.assert_array_equal(alignment_bandwidths(longer)[:3], alignment_bandwidths(ragged))
        lengths = [len(ended(channel)) for channel in ragged[:, 0]]
        points = np.concatenate([ended(channel) for channel in ragged[:, 0]])
        gaps = np.abs(points[:, None] - points)[np.triu_indices(len(points), 1)]
        wanted = np.median(gaps) * np.sqrt(np.median([length for length in lengths if length]))
        assert alignment_bandwidths(ragged)[0] == pytest.approx(wanted)

    def test_quantiles_of_many_observations_are_near_and_know_no_order(self, rng):
        series = rng.normal(size=(47, 2, 43))
        np.testing.assert_allclose(alignment_bandwidths(series), 0.6745 * np.sqrt(2) * np.sqrt(43), rtol=0.05)
        np.testing.assert_array_equal(alignment_bandwidths(series), alignment_bandwidths(rng.permutation(series)))

    def test_constant_absent_and_mostly_constant_channels_have_one(self):
        series = np.zeros((4, 3, 9))
        series[:, 1] = NAN
        series[0, 2, 0] = 5.0
        np.testing.assert_allclose(alignment_bandwidths(series), [1, 1, 15])

    @pytest.mark.parametrize("bandwidth", [0, -1.0, NAN, np.inf, "median", True, [1.0, 0.0], [[1.0, 1.0]], [], None])
    def test_what_is_no_bandwidth_is_refused(self, bandwidth):
        with pytest.raises(ValueError, match="must be a positive number of moderate size"):
            align(np.ones((2, 2, 3)), bandwidths=bandwidth)

    def test_there_is_one_for_each_channel(self):
        with pytest.raises(ValueError, match="bandwidth has 3 entries, but X has 2 channels"):
            align(np.ones((2, 2, 3)), bandwidths=[1, 2, 3])
        with pytest.raises(ValueError, match="too small for the values of X"):
            align(np.full((2, 1, 3), 1e250), bandwidths=1e-90)


class TestValues:
    def test_are_the_sum_over_all_alignments(self, ragged):
        widths = [0.8, 2.0, 5.0]
        values = align(ragged, bandwidths=widths)
        for c, width in enumerate(widths):
            there = [i for i in range(7) if ended(ragged[i, c])]
            for i in there:
                for j in there:
                    x, z = ended(ragged[i, c]), ended(ragged[j, c])
                    assert values[c, i, j] == pytest.approx(normalised(every_alignment, x, z, width), rel=1e-12)

    def test_are_those_of_tslearn(self, rng):
        metrics = pytest.importorskip("tslearn.metrics")
        series = np.cumsum(rng.normal(size=(9, 2, 30)), axis=2)
        others = np.cumsum(rng.normal(size=(4, 2, 45)), axis=2)
        for c in range(2):
            for mine, theirs in (
                (align(series, bandwidths=[4.0, 9.0]), metrics.cdist_gak(series[:, c, :, None], sigma=[4.0, 9.0][c])),
                (
                    align(series, others, bandwidths=[4.0, 9.0]),
                    metrics.cdist_gak(series[:, c, :, None], others[:, c, :, None], sigma=[4.0, 9.0][c]),
                ),
            ):
                np.testing.assert_allclose(mine[c], theirs, rtol=1e-11)

    def test_are_symmetric_with_a_diagonal_of_ones_and_zeros_for_absent_series(self, ragged):
        values = align(ragged, bandwidths=1.0)
        np.testing.assert_array_equal(values, values.transpose(0, 2, 1))
        present = ~np.isnan(ragged).all(axis=2).T
        np.testing.assert_array_equal(np.diagonal(values, axis1=1, axis2=2), present.astype(float))
        assert not values[0, 4].any() and values[1:, 4].all()

    def test_between_two_sets_are_those_within_their_union(self, ragged):
        whole = align(ragged, bandwidths=[0.5, 1.0, 2.0])
        part = align(ragged[:3], ragged[3:, :, :6], bandwidths=[0.5, 1.0, 2.0])
        np.testing.assert_allclose(part, whole[:, :3, 3:], rtol=1e-12)
        np.testing.assert_allclose(align(ragged, ragged, bandwidths=[0.5, 1.0, 2.0]), whole, rtol=1e-12)

    def test_padding_changes_nothing(self, ragged):
        longer = np.concatenate([ragged, np.full((7, 3, 5), NAN)], axis=2)
        np.testing.assert_array_equal(align(longer, bandwidths=1.0), align(ragged, bandwidths=1.0))

    def test_units_of_a_channel_do_not_matter_where_bandwidths_are_learned(self, ragged):
        moved = ragged * np.array([1e-6, -30.0, 1.0])[:, None] + np.array([0.0, 5.0, -1.0])[:, None]
        before, after = (align(X, bandwidths=alignment_bandwidths(X)) for X in (ragged, moved))
        np.testing.assert_allclose(after, before, rtol=1e-9)

    def test_are_positive_semidefinite(self, rng):
        series = np.cumsum(rng.normal(size=(40, 3, 12)), axis=2)
        for row, length in zip(series, rng.integers(1, 13, 40), strict=True):
            row[:, length:] = NAN
        series[::7, 1] = NAN
        for width in (0.3, 3.0, 30.0):
            assert np.linalg.eigvalsh(align(series, bandwidths=width)).min() > -1e-12

    def test_a_constant_channel_compares_lengths(self):
        values = align([np.full((1, length), 3.0) for length in (4, 4, 9)], bandwidths=1.0)[0]
        wanted = delannoy(4, 9) / math.sqrt(delannoy(4, 4) * delannoy(9, 9))
        np.testing.assert_allclose(values, [[1, 1, wanted], [1, 1, wanted], [wanted, wanted, 1]], rtol=1e-12)

    def test_one_sample_and_absent_channels_everywhere_are_no_trouble(self):
        np.testing.assert_array_equal(align(np.array([[[1.0, 2.0], [NAN, NAN]]]), bandwidths=1.0), [[[1]], [[0]]])
        assert not align(np.full((3, 1, 2), NAN), np.ones((2, 1, 2)), bandwidths=1.0).any()

    def test_channels_must_agree(self):
        with pytest.raises(ValueError, match="others has 1 channels, but series has 2"):
            align(np.ones((1, 2, 3)), np.ones((1, 1, 3)), bandwidths=1.0)


class TestLongSeries:
    def test_a_thousand_steps_neither_overflow_nor_lose_digits(self):
        values = align([np.zeros((1, length)) for length in (1200, 1000, 950)], bandwidths=1.0)[0]
        for i, j, a, b in ((0, 1, 1200, 1000), (1, 2, 1000, 950)):
            log = math.log(delannoy(a, b)) - 0.5 * (math.log(delannoy(a, a)) + math.log(delannoy(b, b)))
            assert math.log(values[i, j]) == pytest.approx(log, abs=1e-10)

    def test_steps_that_match_in_one_way_only_give_a_known_tiny_value(self):
        x = np.arange(450.0)
        value = align(x[None, None], np.repeat(x, 2)[None, None], bandwidths=0.1)[0, 0, 0]
        assert math.log(value) == pytest.approx(-225 * math.log(3), rel=1e-12)  # each pair aligns itself in 3 ways

    @pytest.mark.parametrize("width", [0.5, 300.0])
    def test_walks_have_the_value_of_exact_numbers(self, rng, width):
        x, z = np.cumsum(rng.normal(size=420)), np.cumsum(rng.normal(size=200))
        value = align([x[None], z[None]], bandwidths=width)[0, 0, 1]
        assert value == pytest.approx(normalised(exact, x.tolist(), z.tolist(), width), rel=1e-10, abs=1e-300)

    def test_huge_differences_give_zero(self):
        far = 1e200 * np.array([0, 1, 2, -1, 5, 3])
        np.testing.assert_array_equal(align(np.stack([far, -far + 1, far[::-1]])[:, None], bandwidths=1.0), [np.eye(3)])


class TestWork:
    @pytest.fixture
    def small_tasks(self, monkeypatch):
        for name, value in (("MAX_BLOCK_STEPS", 12), ("MIN_TASK_BLOCKS", 2), ("MIN_TASK_PAIRS", 0)):
            monkeypatch.setattr(global_alignment, name, value)

    @pytest.fixture
    def processes(self, monkeypatch):
        monkeypatch.setattr(global_alignment, "MIN_PARALLEL_STEPS", 0)

    def test_blocks_change_nothing(self, ragged, monkeypatch):
        whole = align(ragged, bandwidths=1.0)
        for block, task, share in ((12, 2, 0), (1, 1, 0), (18, 1, 1)):
            monkeypatch.setattr(global_alignment, "MAX_BLOCK_STEPS", block)
            monkeypatch.setattr(global_alignment, "MIN_TASK_BLOCKS", task)
            monkeypatch.setattr(global_alignment, "MIN_TASK_PAIRS", share)
            np.testing.assert_allclose(align(ragged, bandwidths=1.0), whole, rtol=1e-14)

    def test_processes_change_nothing(self, ragged, processes, monkeypatch):
        started = []

        def parallel(n_jobs, **settings):
            started.append(n_jobs)
            return Parallel(n_jobs, **settings)

        monkeypatch.setattr(joblib, "Parallel", parallel)
        one = align(ragged, bandwidths=1.0, n_jobs=1)
        between = align(ragged, ragged[:2], bandwidths=1.0, n_jobs=1)
        assert not started
        np.testing.assert_array_equal(align(ragged, bandwidths=1.0, n_jobs=2), one)
        np.testing.assert_array_equal(align(ragged, ragged[:2], bandwidths=1.0, n_jobs=2), between)
        assert started == [2] * 5  # to prepare one side, then both, and for the values of either

    def test_processes_have_none_of_their_own(self):
        many = np.zeros((100, 2, 100))
        assert global_alignment.processes(2, many, many) == 2
        inner = Parallel(n_jobs=2)(delayed(global_alignment.processes)(2, many, many) for _ in range(2))
        assert inner == [1, 1]

    def test_quick_work_is_done_here(self, ragged):
        assert global_alignment.processes(None, ragged, ragged) == 1
        assert global_alignment.processes(3, np.empty((200, 5, 100)), np.empty((10, 5, 100))) == 3
        assert global_alignment.processes(-1, np.empty((200, 5, 100)), np.empty((10, 5, 100))) == available_cores()

    @pytest.mark.parametrize("n_jobs", [0, -2, 1.5, "all"])
    def test_a_number_of_processes_is_positive(self, n_jobs):
        with pytest.raises(ValueError, match="n_jobs="):
            align(np.ones((2, 1, 3)), bandwidths=1.0, n_jobs=n_jobs)

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_progress_is_reported_from_the_calling_thread(self, ragged, small_tasks, processes, n_jobs):
        told = []
        with listening(lambda *args: told.append((*args, threading.current_thread()))):
            align(ragged, bandwidths=1.0, n_jobs=n_jobs)
        total = told[0][2]
        assert total > 10
        assert told == [("alignment kernels", k, total, threading.current_thread()) for k in range(total + 1)]

    # Where workers are killed, loky's own thread may find the result of a task that it has just given up: a KeyError of
    # no consequence. It comes within this test, because loky waits for that thread before the interrupt goes on.
    @pytest.mark.filterwarnings(
        "ignore:(?s)Exception in thread ExecutorManagerThread.*KeyError:pytest.PytestUnhandledThreadExceptionWarning"
    )
    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_whoever_listens_can_interrupt(self, ragged, small_tasks, processes, n_jobs):
        def stop(what, done, total):
            if done == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), listening(stop):
            align(ragged, bandwidths=1.0, n_jobs=n_jobs)
        np.testing.assert_array_equal(align(ragged, bandwidths=1.0, n_jobs=n_jobs)[0, 1, 1], 1.0)


class TestAligned:
    @pytest.fixture
    def kept(self, ragged):
        return Aligned(("a", "b", "c"), np.array([0.5, 1.0, 2.0]), ragged)

    def test_values_are_those_of_the_kernels_whatever_the_length(self, kept, ragged, rng):
        for steps in (2, 6, 11):
            new = rng.normal(size=(3, 3, steps))
            np.testing.assert_array_equal(kept.values(new), align(new, ragged, bandwidths=[0.5, 1.0, 2.0]))
        both = kept.values(ragged, n_jobs=1)
        np.testing.assert_allclose(both, align(ragged, bandwidths=[0.5, 1.0, 2.0]), rtol=1e-12)
        assert both.max() <= 1.0

    def test_a_part_has_the_values_of_the_whole(self, kept, rng):
        new = rng.normal(size=(3, 3, 8))
        part = kept.take([2, 0], np.array([1, 6, 3]))
        assert part.names == ("c", "a") and part.series.shape == (3, 2, 3)
        wanted = kept.values(new)[[2, 0]][:, :, [1, 6, 3]]
        np.testing.assert_allclose(part.values(new[:, [2, 0]]), wanted, rtol=1e-12)
        assert kept.take([0], []).values(new[:, :1]).shape == (1, 3, 0)

    def test_new_series_have_the_same_channels(self, kept):
        with pytest.raises(ValueError, match="X has 2 channels, but the model was fitted with 3"):
            kept.values(np.ones((1, 2, 4)))

    def test_it_comes_back_from_a_file(self, kept, tmp_path, rng):
        kept.values(rng.normal(size=(1, 3, 4)))
        write(tmp_path / "f", "thing", kept)
        again = read(tmp_path / "f", "thing")
        assert again == kept and again == pickle.loads(pickle.dumps(kept))
        assert repr(again) == "Aligned(7 cases, 3 channels)"


class TestRecipe:
    def test_a_stack_has_names_bandwidths_and_values(self, ragged):
        names, widths, values = alignment().stack(ragged)
        assert names == ("channel 0", "channel 1", "channel 2")
        np.testing.assert_array_equal(widths, alignment_bandwidths(ragged))
        np.testing.assert_array_equal(values, align(ragged, bandwidths=widths))
        names, widths, _ = alignment(2, ["x", "y", "z"]).stack(ragged, n_jobs=1)
        assert names == ("x", "y", "z") and widths.tolist() == [2, 2, 2]
        assert alignment(np.array([1.0, 2.0, 3.0])).stack(ragged)[1].tolist() == [1, 2, 3]

    def test_wrong_settings_are_refused(self, ragged):
        with pytest.raises(ValueError, match="two channels are named 'a'"):
            alignment(names=["a", "b", "a"])
        with pytest.raises(ValueError, match="names has 1 entries, but X has 3 channels"):
            alignment(names="a").stack(ragged)
        with pytest.raises(ValueError, match="bandwidth has 2 entries, but X has 3 channels"):
            alignment([1.0, 2.0]).stack(ragged)
        with pytest.raises(ValueError, match="bandwidth=-1"):
            alignment(-1)

    def test_tables_are_refused(self, rng):
        assert isinstance(alignment(), Recipe) and alignment() == AlignmentKernels()
        with pytest.raises(ValueError, match=r"3-D array .* this X is a table of 2 columns"):
            alignment().bank(table(), 1.0)
        with pytest.raises(ValueError, match="X must be a 3-D array"):
            EasyMKLClassifier(kernels=alignment()).fit(rng.normal(size=(20, 3)), np.arange(20) % 2)

    def test_a_file_holds_all_but_the_folder(self, tmp_path):
        write(tmp_path / "f", "thing", alignment([1.0, 2.0], ["a", "b"], tmp_path))
        assert read(tmp_path / "f", "thing") == alignment([1.0, 2.0], ["a", "b"])


class TestCache:
    @pytest.fixture
    def calls(self, monkeypatch):
        made = []

        def counted(*args, **settings):
            made.append(settings)
            return align(*args, **settings)

        monkeypatch.setattr(module, "align", counted)
        return made

    def test_values_are_computed_once(self, ragged, tmp_path, calls):
        recipe = alignment(cache=tmp_path / "new" / "folder")
        first = recipe.stack(ragged)
        longer = np.concatenate([ragged, np.full((7, 3, 2), NAN)], axis=2)
        for again in (recipe.stack(ragged), alignment(cache=recipe.cache, names=["a", "b", "c"]).stack(longer)):
            np.testing.assert_array_equal(again[2], first[2])
        assert len(calls) == 1 and [p.suffix for p in (tmp_path / "new" / "folder").iterdir()] == [".npz"]

    def test_other_series_and_bandwidths_are_not_mixed_up(self, ragged, tmp_path, calls):
        shorter = ragged.copy()
        shorter[0, :, 5] = NAN
        zeros = np.nan_to_num(shorter)
        zeros[4, 0, 0] = 0.0
        for X in (ragged, shorter, zeros, ragged[::-1]):
            for width in (1.0, 2.0):
                found = alignment(width, cache=tmp_path).stack(X)[2]
                np.testing.assert_array_equal(found, align(X, bandwidths=width))
        assert len(calls) == 8

    @pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign"])
    def test_damaged_files_are_computed_again(self, ragged, tmp_path, calls, damage):
        recipe = alignment(cache=tmp_path)
        wanted = recipe.stack(ragged)[2]
        (path,) = tmp_path.iterdir()
        data = bytearray(path.read_bytes())
        if damage == "flipped":
            data[len(data) // 2] ^= 1
        path.write_bytes(data[:300] if damage == "cut" else b"" if damage == "empty" else data)
        if damage == "foreign":
            np.savez(path, values=np.zeros((1, 2, 2)))
        for _ in range(2):
            np.testing.assert_array_equal(recipe.stack(ragged)[2], wanted)
        assert len(calls) == 2 and len(list(tmp_path.iterdir())) == 1

    def test_values_that_cannot_be_written_are_returned_with_a_warning(self, ragged, tmp_path, monkeypatch):
        def full(*args, **settings):
            raise OSError("no space left")

        monkeypatch.setattr(np, "savez", full)
        with pytest.warns(UserWarning, match="could not be kept in .*no space left"):
            values = alignment(1.0, cache=tmp_path).stack(ragged)[2]
        np.testing.assert_array_equal(values, align(ragged, bandwidths=1.0))
        assert not list(tmp_path.iterdir())


def test_classifiers_learn_from_series_through_positions(rng):
    y = np.arange(40) % 2
    start = rng.uniform(0, 2, 40)[:, None]
    wave = np.sin((1.0 + y)[:, None] * (np.linspace(0, 6, 25) + start))
    X = np.stack([rng.normal(size=(40, 25)), wave + 0.1 * rng.normal(size=(40, 25))], axis=1)
    recipe = alignment_kernels(X, names=["noise", "wave"])
    assert recipe.names == ("noise", "wave")
    np.testing.assert_array_equal(recipe.stack, alignment().stack(X)[2])
    positions = np.arange(40)[:, None]
    model = EasyMKLClassifier(kernels=recipe).fit(positions[:30], y[:30])
    assert (model.predict(positions[30:]) == y[30:]).mean() >= 0.9
