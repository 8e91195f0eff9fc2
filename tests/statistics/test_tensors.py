"""Rows on a device: the same keys, sums, models and explanations as in numpy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tamis import EM2NOLCClassifier, EM2NOLCClassifierCV, Plan, Statistics, TamisClassifier, TamisRegressor, arrays
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Gaussian
from tamis.kernels.stacks.chebyshev import Chebyshev, Levels
from tamis.statistics.sums import PIECE_ROWS, ColumnFunctions, EncodedBlock, PairFunctions, device_sums, outer_sums
from tamis.table.encoding import Encoder, device_encode
from tamis.table.folds import group_folds, key_folds
from tamis.table.keys import device_key_folds, device_row_keys, device_sampling_keys, row_keys, sampling_keys
from tamis.table.table import Table, read_table

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")),
]
N, OPTIONS = 5000, {"max_instances": 8, "max_features": 4, "random_state": 3}
pytestmark = pytest.mark.parametrize("device", DEVICES)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def table(n=N, seed=0):
    """Numbers with gaps, few values, repeated rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[rng.random(n) < 0.1, 1] = np.nan
    X[:, 3] = rng.integers(0, 4, n)
    X[n // 2 : n // 2 + 50] = X[:50]
    y = (np.sin(2 * X[:, 0]) + X[:, 2] ** 2 + 0.3 * X[:, 3] + 0.3 * rng.normal(size=n) > 1.3).astype(int)
    return X, y, rng.integers(0, 3, n).astype(float)


X, Y, W = table()


class TestKeys:
    def test_are_those_of_numpy(self, device):
        T = torch.tensor(X, device=device)
        keys = row_keys(read_table(X, list("abcde"), None, True), 7)
        found = device_row_keys(T, 7)
        np.testing.assert_array_equal(arrays.to_numpy(found).view(np.uint64), keys)
        np.testing.assert_array_equal(arrays.to_numpy(device_key_folds(found, 5)), key_folds(keys, 5))
        codes = torch.tensor(Y, device=device)
        random = arrays.to_numpy(device_sampling_keys(found, codes)).view(np.uint64)
        np.testing.assert_array_equal(np.sort(random), np.sort(sampling_keys(keys, [Y])))

    def test_of_single_precision_and_zeros(self, device):
        values = np.array([[0.0, -0.0], [1.5, np.nan], [-0.0, 0.0]], dtype=np.float32)
        keys = row_keys(Table(values, {}, ["a", "b"]), 1)
        found = arrays.to_numpy(device_row_keys(torch.tensor(values, device=device), 1)).view(np.uint64)
        np.testing.assert_array_equal(found, keys)
        assert found[0] == found[2]


class TestSums:
    @pytest.mark.parametrize("n", [1, 7, PIECE_ROWS, PIECE_ROWS + 1, 3 * PIECE_ROWS + 5])
    @pytest.mark.parametrize("parts", [1, 3])
    def test_of_all_kinds_of_functions(self, device, n, parts):
        rng = np.random.default_rng(n)
        Z = rng.normal(size=(n, 5))
        Z[rng.random(n) < 0.3, 0] = np.nan
        Z[:, 2] = rng.integers(0, 3, n)
        bases = (Chebyshev(-2, 2, 14), Chebyshev(-2, 2, 12), Levels((0.0, 1.0, 2.0), nearest=False),
                 Chebyshev(-2, 2, 13, 3), Levels((-1.0, 0.2, 1.0), nearest=True))  # fmt: skip
        functions = ColumnFunctions(bases, (True, False, False, False, False))
        codes, weight, part = rng.integers(0, 2, n), rng.random(n), rng.integers(0, parts, n)
        sizes = {"n_classes": 2, "n_folds": parts, "dtype": "float64"}

        def read(rows):
            return EncodedBlock(Z[rows], codes[rows], weight[rows], part[rows])

        def read_there(rows):
            return EncodedBlock(*(torch.tensor(v[rows], device=device) for v in (Z, codes, weight, part)))

        expected = outer_sums(functions, read, n, **sizes)
        found = device_sums(functions, read_there, n, **sizes)
        np.testing.assert_allclose(found, expected, atol=1e-11 * max(1.0, np.abs(expected).max()))
        single = device_sums(functions, read_there, n, **(sizes | {"dtype": "float32"}))
        np.testing.assert_allclose(single, expected, atol=3e-6 * max(1.0, np.abs(expected).max()))

    def test_of_exact_kernels(self, device):
        Z, codes = X[:500, [0, 2]], Y[:500]
        bank = KernelBank((Channel("a", Gaussian(1.0), (0,)), Channel("b", Gaussian(0.5), (0, 1))))
        functions = PairFunctions(bank, Z[:6])
        sizes = {"n_classes": 2, "n_folds": 1, "dtype": "float64"}
        zeros = np.zeros(500, dtype=int)
        expected = outer_sums(functions, lambda r: EncodedBlock(Z[r], codes[r], None, zeros[r]), 500, **sizes)
        there = [torch.tensor(v, device=device) for v in (Z, codes, zeros)]
        found = device_sums(
            functions, lambda r: EncodedBlock(there[0][r], there[1][r], None, there[2][r]), 500, **sizes
        )
        np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(expected).max())

    def test_update_takes_tensors(self, device):
        plan = Plan.of(X, Y, folds=3, class_weight={1: 2.0})
        plain = Statistics(plan).update(X, Y, W)
        there = Statistics(plan).update(torch.tensor(X, device=device), torch.tensor(Y, device=device), W)
        np.testing.assert_allclose(there.parts, plain.parts, atol=1e-11 * np.abs(plain.parts).max())
        np.testing.assert_array_equal(there.count, plain.count)
        assert there.outside == plain.outside
        whole = Statistics(plan).update(X[:2000], Y[:2000]) + Statistics(plan).update(
            torch.tensor(X[2000:], device=device), Y[2000:]
        )
        assert whole.n_rows == N

    def test_tf32_is_off_within_and_as_it_was_after(self, device):
        matmul = torch.backends.cuda.matmul
        before = matmul.allow_tf32
        try:
            matmul.allow_tf32 = True
            with arrays.full_precision():
                assert not matmul.allow_tf32
            assert matmul.allow_tf32
        finally:
            matmul.allow_tf32 = before


class TestEncoding:
    @pytest.mark.parametrize("scaling", ["standard", "rank", None])
    @pytest.mark.parametrize("missing", ["absent", "median"])
    def test_is_that_of_numpy(self, device, scaling, missing):
        rows = read_table(X, list("abcde"), [3], True)
        encoder = Encoder.fit(rows, np.ones(N), scaling=scaling, missing=missing)
        new = np.vstack([3 * table(200, seed=4)[0], [[np.nan, 1, 2, 9, -50]]])
        expected = encoder.encode(read_table(new, list("abcde"), [3], True))
        found = device_encode(encoder, torch.tensor(new, device=device))
        np.testing.assert_allclose(arrays.to_numpy(found), expected, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [{}, {"bandwidth": 0.1}, {"missing": "median"}, {"class_weight": "balanced"}, {"candidates": "grid"}],
    ids=str,
)
class TestModels:
    def test_are_those_of_numpy(self, device, options):
        plain = EM2NOLCClassifier(engine="statistics", **OPTIONS, **options).fit(X, Y, sample_weight=W)
        T = torch.tensor(X, device=device)
        tensor = EM2NOLCClassifier(**OPTIONS, **options).fit(T, torch.tensor(Y, device=device), sample_weight=W)
        moved = EM2NOLCClassifier(device=device, **OPTIONS, **options).fit(X, Y, sample_weight=W)
        for clf in (tensor, moved):
            np.testing.assert_array_equal(clf.instances_, plain.instances_)
            np.testing.assert_allclose(clf.decision_function(X), plain.decision_function(X), atol=1e-8)
            np.testing.assert_allclose(clf.predict_proba(X), plain.predict_proba(X), atol=1e-8)


class TestUse:
    def test_predictions_stay_on_the_device(self, device):
        T = torch.tensor(X, device=device)
        clf = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(X, Y)
        for name in ("predict", "decision_function", "predict_proba"):
            found = getattr(clf, name)(T)
            assert isinstance(found, torch.Tensor) and found.device.type == device
            np.testing.assert_allclose(arrays.to_numpy(found), getattr(clf, name)(X), atol=1e-9)
        told, plain = clf.explain(T), clf.explain(X)
        for name in ("contributions", "by_instance", "by_kernel", "by_feature", "by_part", "decision"):
            found = getattr(told, name)
            assert isinstance(found, torch.Tensor)
            np.testing.assert_allclose(arrays.to_numpy(found), getattr(plain, name), atol=1e-12)

    def test_labels_of_text_come_back_in_numpy(self, device):
        clf = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(X, np.where(Y, "yes", "no"))
        assert clf.predict(torch.tensor(X, device=device)).tolist() == clf.predict(X).tolist()

    def test_of_the_flagship_and_the_regressor(self, device):
        some = slice(0, 300)
        clf = TamisClassifier(max_instances=5, max_features=4).fit(X[some], Y[some])
        T = torch.tensor(X, device=device)
        np.testing.assert_allclose(arrays.to_numpy(clf.predict_proba(T)), clf.predict_proba(X), atol=1e-6)
        told, plain = clf.explain(T), clf.explain(X)
        for name in ("by_part", "by_feature", "by_pair", "by_case", "similarity", "decision"):
            assert isinstance(getattr(told, name), torch.Tensor)
            np.testing.assert_allclose(arrays.to_numpy(getattr(told, name)), getattr(plain, name), atol=1e-6)
        reg = TamisRegressor(max_instances=5, max_features=4).fit(X[some], X[some, 0] ** 2)
        np.testing.assert_allclose(arrays.to_numpy(reg.predict(T)), reg.predict(X), atol=1e-6)

    def test_a_search(self, device):
        options = {"max_instances": 4, "max_features": 3, "bandwidths": (1.0,), "cv": 3}
        one = EM2NOLCClassifierCV(**options).fit(torch.tensor(X, device=device), Y)
        other = EM2NOLCClassifierCV(engine="statistics", **options).fit(X, Y)
        assert one.summary() == other.summary()
        np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-8)

    def test_an_exact_refit(self, device, monkeypatch):
        from tamis.methods.em2nolc import sums as em2nolc_sums

        monkeypatch.setattr(em2nolc_sums, "doubts", lambda *a: True)
        one = EM2NOLCClassifier(**OPTIONS).fit(torch.tensor(X, device=device), Y, sample_weight=W)
        other = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(X, Y, sample_weight=W)
        np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-8)

    def test_blocks_of_text_are_summed_by_numpy(self, device):
        frame = pd.DataFrame(X, columns=list("abcde")).assign(site=np.where(X[:, 0] > 0, "north", "south"))
        one = EM2NOLCClassifier(device=device, **OPTIONS).fit([(frame, Y)])
        other = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(frame, Y)
        np.testing.assert_allclose(one.decision_function(frame), other.decision_function(frame), atol=1e-9)


class TestFolds:
    def test_follow_groups_and_leave_rows_of_weight_zero_out(self, device, monkeypatch):
        from tamis.statistics import passes
        from tamis.table.keys import group_keys

        monkeypatch.setattr(passes, "SAMPLE_ROWS", 300)
        monkeypatch.setattr(passes, "MIN_CLASS_ROWS", 40)
        groups = np.random.default_rng(5).integers(0, 300, N)
        found = []
        original = passes.FoldSums
        monkeypatch.setattr(passes, "FoldSums", lambda *a: found.append(original(*a)) or found[-1])
        clf = EM2NOLCClassifier(calibration=4, candidates=200, **OPTIONS)
        clf.fit(torch.tensor(X, device=device), Y, sample_weight=W, groups=groups)
        (one,) = found
        fold, plan = group_folds(group_keys(groups), 4, 3), one.statistics.plan
        np.testing.assert_array_equal(one.statistics.count, np.bincount(fold[W > 0], minlength=4))
        alone = plan.pool_fold < 4  # the others have copies in several folds, which hold none of them out
        assert alone.mean() > 0.8
        np.testing.assert_array_equal(plan.pool_fold[alone], fold[plan.pool.position][alone])
        np.testing.assert_array_equal(one.sample_fold, fold[one.sample.position])
        assert 180 <= len(plan.pool) <= 220 and (W[plan.pool.position] > 0).all()
        np.testing.assert_allclose(one.sample.weight.sum(), np.sum(W > 0))

    @pytest.mark.filterwarnings("ignore:cells beyond")
    def test_samples_are_those_of_blocks_where_rows_abound(self, device, monkeypatch):
        from tamis.statistics import passes, profile, survey

        for module in (passes, survey, profile):
            monkeypatch.setattr(module, "SAMPLE_ROWS", 200)
            monkeypatch.setattr(module, "MIN_CLASS_ROWS", 30)
        monkeypatch.setattr("tamis.statistics.profile.SCALE_ROWS", 150)
        distinct = np.random.default_rng(1).normal(size=(N, 2))
        one = EM2NOLCClassifier(candidates=50, **OPTIONS).fit(torch.tensor(distinct, device=device), Y)
        other = EM2NOLCClassifier(candidates=50, **OPTIONS).fit([(distinct, Y)])
        np.testing.assert_array_equal(one.instances_, other.instances_)
        np.testing.assert_allclose(one.predict_proba(distinct), other.predict_proba(distinct), atol=1e-8)

    def test_few_distinct_rows_are_all_found(self, device):
        few = np.random.default_rng(0).integers(0, 3, size=(N, 3)).astype(float)
        y = (few.sum(axis=1) + np.random.default_rng(1).normal(size=N) > 3).astype(int)
        one = EM2NOLCClassifier(**OPTIONS).fit(torch.tensor(few, device=device), y)
        other = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(few, y)
        np.testing.assert_allclose(one.decision_function(few), other.decision_function(few), atol=1e-8)


class TestOddRows:
    def test_flags_as_labels_and_labels_of_the_index(self, device):
        T = torch.tensor(X, device=device)
        clf = EM2NOLCClassifier(**OPTIONS).fit(T, torch.tensor(Y > 0, device=device))
        assert clf.classes_.tolist() == [False, True]

        frame = pd.DataFrame(X, columns=list("abcde"), index=[f"r{k}" for k in range(N)])
        clf = EM2NOLCClassifier(device=device, **OPTIONS).fit(frame, Y)
        assert clf.instance_labels_.tolist() == [f"r{k}" for k in clf.instances_]

    def test_cells_beyond_levels_count_once(self, device):
        plan = Plan.of(X, Y)
        odd = X[:60].copy()
        odd[:10, 3], odd[10:30, 3] = 9.0, 1.5
        plain = Statistics(plan).update(odd, Y[:60])
        assert Statistics(plan).update(torch.tensor(odd, device=device), Y[:60]).outside == plain.outside

    def test_weights_of_zero_in_a_whole_block(self, device):
        plan = Plan.of(X, Y)
        sums = Statistics(plan).update(torch.tensor(X, device=device), Y, np.zeros(N))
        assert sums.n_rows == 0


class TestRefusals:
    def test_say_what_is_wrong(self, device):
        T = torch.tensor(X, device=device)
        for given, y, options, words in (
            (T, Y[:-1], {}, "y has length"),
            (T, torch.tensor(Y)[:-1], {}, "y has shape"),
            (T[:, 0], Y, {}, "rows and columns"),
            (T, np.zeros(N), {}, "one class only"),
            (torch.full_like(T, torch.inf), Y, {}, "infinity"),
            (T, Y, {"missing": None}, "contains NaN"),
            (T + 1j, Y, {}, "complex"),
            (T, Y, {"random_state": 0, "candidates": 0}, "candidates=0"),
            (T, Y, {"categorical_features": [3]}, "categories"),
            (T, Y, {"candidates": "all"}, "candidates='all'"),
            (T, Y, {"engine": "dense"}, "engine='dense'"),
        ):
            with pytest.raises(ValueError, match=words):
                EM2NOLCClassifier(**options).fit(given, y)
        clf = EM2NOLCClassifier(engine="statistics", **OPTIONS).fit(X, Y)
        with pytest.raises(ValueError, match=r"expected \(rows, 5\)"):
            clf.predict(T[:, :3])
        with pytest.raises(ValueError, match="infinity"):
            clf.predict(torch.full((2, 5), torch.inf))
        flags = Plan.of(pd.DataFrame({"a": X[:, 0], "f": X[:, 2] > 0}), Y)
        with pytest.raises(ValueError, match="some columns are categories"):
            Statistics(flags).update(torch.zeros((3, 2)), [0, 1, 1])
        with pytest.raises(ValueError, match="missing cells"):
            Statistics(Plan.of(X[:, [0, 2]], Y)).update(torch.full((3, 2), torch.nan), [0, 1, 1])
