"""The bill of a fit: right to a factor of two, and a refusal that says what to do."""

from __future__ import annotations

import re
import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import tamis
from tamis import (
    AverageMKLClassifier,
    ChannelBaselineClassifier,
    EM2NOLCClassifier,
    EM2NOLCClassifierCV,
    IMKPLClassifier,
    L0MKLClassifierCV,
    SimpleMKLClassifier,
    all_estimators,
    bandwidths,
    precomputed,
)
from tamis.base import memory as module
from tamis.base.memory import Size, available_memory, format_bytes, jobs_of, kept_values, square_memory, to_bytes
from tamis.kernels.base import Gaussian, Laplacian

KILO = "1kB"
GIB = 2**30


def some(n, rng, d=6):
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=n) > 0.6).astype(int)


class TestLimits:
    @pytest.mark.parametrize(
        ("text", "size"),
        [("1kB", 1e3), ("2GB", 2e9), ("2 gib", 2 * GIB), ("512MiB", 2**29), ("1.5T", 1.5e12), ("700", 700), (3e9, 3e9)],
    )
    def test_text_and_numbers(self, text, size):
        assert to_bytes(text) == size

    @pytest.mark.parametrize("value", [-1, 0, "lots", "-2GB", "", "2 GB of it", True, float("nan"), [1]])
    @pytest.mark.parametrize("cls", [AverageMKLClassifier, tamis.TamisRegressor])
    def test_what_is_no_amount_is_refused(self, cls, value):
        with pytest.raises(ValueError, match=re.escape(f"memory_limit={value!r} must be a positive number of bytes")):
            cls(memory_limit=value).check_parameters()

    def test_available_memory_is_a_sensible_number(self):
        assert 2**20 < available_memory() < 2**50

    def test_a_container_may_have_less_than_the_machine(self, monkeypatch, tmp_path):
        own = tmp_path / "pod" / "task"
        own.mkdir(parents=True)
        (tmp_path / "group").write_text("4:memory:/pod/task\n0::/elsewhere\n")
        monkeypatch.setattr(module, "GROUP", str(tmp_path / "group"))
        monkeypatch.setattr(module, "CGROUPS", ((str(tmp_path), "max", "current", "inactive_file"),))
        for folder in (own, own.parent):  # its own limit, or one of what it is within
            for text, room in (("1000", 450.0), ("500", 0.0)):
                (folder / "max").write_text(text + "\n")
                (folder / "current").write_text("600\n")
                (folder / "memory.stat").write_text("anon 550\ninactive_file 50\n")
                assert available_memory() == room
            (folder / "max").write_text("max\n")
            assert available_memory() > 2**20

    def test_systems_without_files_that_tell(self, monkeypatch):
        monkeypatch.setattr(module, "_read", lambda path: "")
        assert available_memory() > 2**20
        monkeypatch.setattr(module.os, "sysconf_names", {}, raising=False)
        assert available_memory() == float("inf") and format_bytes(available_memory()) == "unlimited"

    def test_jobs(self):
        assert (jobs_of(None), jobs_of(3)) == (1, 3) and jobs_of(-1) >= 1 and jobs_of(-1000) == 1


class TestRefusal:
    @pytest.mark.parametrize("name", list(all_estimators()))
    def test_every_estimator_refuses_what_does_not_fit(self, name, rng):
        X, y = some(40, rng)
        clf = all_estimators()[name](memory_limit=KILO)
        with pytest.raises(
            ValueError, match=rf"X has 40 distinct rows, for which {name} takes about .* GiB.*"
        ) as found:
            clf.fit(X, y)
        assert "memory_limit='1kB' (9.31e-07 GiB)" in str(found.value) and "use " in str(found.value)
        assert not hasattr(clf, "model_")

    def test_numbers_largest_first_and_the_options(self, rng):
        X, y = some(1500, rng)
        with pytest.raises(ValueError, match="AverageMKLClassifier takes about") as found:
            AverageMKLClassifier(memory_limit="60MiB").fit(X, y)
        text = str(found.value)
        sizes = [float(size) for size in re.findall(r"([\d.e-]+) GiB for", text)]
        assert len(sizes) == 3 and sizes == sorted(sizes, reverse=True)
        few = int(re.search(r"use landmarks=(\d+) or so, which takes about", text)[1])
        assert sum(AverageMKLClassifier(landmarks=few).memory_estimate(X, y).values()) <= 60 * 2**20
        assert "or raise memory_limit" in text

    def test_rows_that_would_fit_are_named(self, rng):
        X, y = some(1500, rng)
        with pytest.raises(ValueError, match=r"give at most (\d+) rows") as found:
            IMKPLClassifier(memory_limit="200MB").fit(X, y)
        fewer = int(re.search(r"at most (\d+) rows", str(found.value))[1])
        room = 200e6
        bills = [sum(IMKPLClassifier().memory_estimate(X[:n], y[:n]).values()) for n in (fewer, int(1.2 * fewer))]
        assert bills[0] <= room < bills[1]

    @pytest.mark.parametrize(
        ("clf", "told"),
        [
            (AverageMKLClassifier(landmarks=20), "use fewer than landmarks=20"),
            (EM2NOLCClassifier(), "use engine='statistics'"),
            (IMKPLClassifier(), "use TamisClassifier or EM2NOLCClassifier, which take any number of rows"),
            (ChannelBaselineClassifier("mean_filling"), "use method='fusion' or AbsentMKLClassifier with landmarks"),
            (L0MKLClassifierCV(), "use TamisClassifier"),
            (tamis.TamisClassifier(), "use a sample of the rows, or fewer columns"),
        ],
    )
    def test_what_to_use_instead(self, clf, told, rng):
        X, y = some(60, rng)
        with pytest.raises(ValueError, match=re.escape(told)):
            clone(clf).set_params(memory_limit=KILO).fit(X, y)

    def test_landmarks_fit_where_the_matrix_does_not(self, rng):
        X, y = some(1500, rng)
        params = {"kernels": bandwidths([2.0]), "calibration": None, "memory_limit": "60MB"}
        with pytest.raises(ValueError, match="landmarks=300"):
            AverageMKLClassifier(**params).fit(X, y)
        assert AverageMKLClassifier(**params, landmarks=150).fit(X, y).score(X, y) > 0.8

    def test_equal_rows_count_once(self, rng):
        X, y = some(50, rng)
        many = np.tile(X, (40, 1)), np.tile(y, 40)
        clf = AverageMKLClassifier(kernels=bandwidths([2.0]), calibration=None, memory_limit="40MB")
        assert sum(clf.memory_estimate(*many).values()) == sum(clf.memory_estimate(X, y).values()) < 40e6
        assert clf.fit(*many).score(X, y) > 0.7

    def test_without_a_limit_the_machine_decides(self, rng, monkeypatch):
        X, y = some(600, rng)
        monkeypatch.setattr(module, "available_memory", lambda: 1e6)
        with pytest.raises(ValueError, match="more than the memory that is available"):
            SimpleMKLClassifier().fit(X, y)
        clf = SimpleMKLClassifier(kernels=bandwidths([2.0]), calibration=None, memory_limit=float("inf"))
        assert clf.fit(X, y).score(X, y) > 0.8

    def test_an_earlier_fit_stays(self, rng):
        X, y = some(60, rng)
        clf = AverageMKLClassifier(kernels=bandwidths([2.0]), calibration=None).fit(X, y)
        before = clf.decision_function(X)
        with pytest.raises(ValueError, match="memory_limit"):
            clf.set_params(memory_limit=KILO).fit(X, y)
        assert np.array_equal(clf.decision_function(X), before)


class TestBill:
    def test_entries(self, rng):
        X, y = some(300, rng)
        clf = AverageMKLClassifier()
        bill = clf.memory_estimate(X, y)
        assert all(isinstance(size, int) and size > 0 for size in bill.values())
        assert list(bill.values()) == sorted(bill.values(), reverse=True)
        assert bill["matrices between all rows"] == round(2.1 * 8 * 300**2)
        assert not hasattr(clf, "n_features_in_")

    def test_processes_count(self, rng):
        X, y = some(100, rng)
        one, three = (sum(AverageMKLClassifier(n_jobs=jobs).memory_estimate(X, y).values()) for jobs in (None, 3))
        assert three == pytest.approx(3 * one, abs=8)

    def test_kernels_are_counted_whatever_they_come_from(self, rng):
        X, y = some(80, rng)
        stack = np.array([X @ X.T] * 5)
        clf = tamis.KernelGLVQClassifier()
        for kernels, where, count in ((None, X, 6), (bandwidths([1.0, 2.0], on="each"), X, 12)):
            bill = clf.set_params(kernels=kernels).memory_estimate(where, y)
            assert bill["kernel values"] == count * 8 * 80**2
        bill = clf.set_params(kernels=precomputed(stack)).memory_estimate(np.arange(80)[:, None], y)
        assert bill["kernel values"] == 5 * 8 * 80**2

    def test_sums_take_no_kernel_values(self, rng):
        X, y = some(60_000, rng)
        clf = EM2NOLCClassifier(2, 2, engine="statistics", calibration=None)
        bill = clf.memory_estimate(X, y)
        assert list(bill) == ["working blocks", "rows, read and summed"]
        assert clf.set_params(engine="auto", candidates="grid").memory_estimate(X, y) == bill
        assert "values between rows and candidates" in clf.set_params(engine="auto", candidates=200).memory_estimate(
            X, y
        )
        with pytest.raises(ValueError, match="use rows in blocks as X"):
            clf.set_params(engine="statistics", memory_limit=KILO).fit(X, y)

    @pytest.mark.parametrize("cls", [EM2NOLCClassifier, EM2NOLCClassifierCV])
    def test_rows_in_blocks_have_no_bill(self, cls, rng, tmp_path):
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        X, y = some(600, rng)
        path = tmp_path / "rows.parquet"
        columns = {f"x{j}": column for j, column in enumerate(X.T)}
        parquet.write_table(pa.table({**columns, "label": y}), path)
        clf = cls(3, 2, memory_limit=KILO)
        assert clf.fit(path, "label").score(columns, y) > 0.6
        with pytest.raises(ValueError, match=rf"{cls.__name__}.memory_estimate needs all rows in memory"):
            clf.memory_estimate(path, "label")

    def test_kernels_that_are_not_short_have_long_factors(self, rng):
        X, y = some(400, rng)
        factors = {}
        for kernel in (Gaussian(3.0), Gaussian(0.02), Laplacian()):
            bank = [(f"k{j}", kernel, [j]) for j in range(X.shape[1])]
            bill = AverageMKLClassifier(kernels=bank, landmarks=200).memory_estimate(X, y)
            factors[kernel] = bill["factors of the kernels"] / (2.5 * 8 * len(X) * X.shape[1])
        assert factors[Gaussian(3.0)] < 20 and factors[Gaussian(0.02)] == factors[Laplacian()] == 200

    def test_a_graphics_card_has_its_own_memory(self):
        size = Size(rows=1000, columns=5, kernels=4, single=4, outputs=1)
        assert square_memory(size, 7.0, 3.0, None) == {"kernel values": 7.0, "matrices between all rows": 24e6}
        assert square_memory(size, 7.0, 3.0, "cpu") == {"kernel values": 32e6, "matrices between all rows": 24e6}
        assert square_memory(size, 7.0, 3.0, "cuda:1") == {"kernel values": 0.0, "matrices between all rows": 16e6}

    def test_forms_of_stacks(self):
        size = Size(rows=1000, columns=5, kernels=5, single=5, outputs=1)
        assert kept_values(size, "dense") == kept_values(size, "auto") == kept_values(size, "compact") == 5 * 8e6
        assert kept_values(size, "streaming") == 0.0
        assert kept_values(Size(10_000, 5, 5, 5, 1), "auto") == 0.0

    @pytest.mark.parametrize(
        ("name", "n", "params"),
        [
            ("EasyMKLClassifier", 1500, {"kernels": bandwidths([2.0, 4.0])}),
            ("AverageMKLClassifier", 2500, {"kernels": bandwidths([2.0, 4.0]), "landmarks": 200}),
            ("EM2NOLCClassifier", 2500, {"max_features": 2, "max_instances": 2}),
            ("EM2NOLCClassifier", 100_000, {"max_features": 2, "max_instances": 2, "engine": "statistics"}),
            ("KernelGLVQClassifier", 1200, {"max_iter": 2, "tol": 1.0}),
            ("FeatureScalingSVC", 2500, {"max_features": 2, "max_iter": 2}),
            ("ChannelBaselineClassifier", 1000, {"method": "max_margin"}),
            ("TamisClassifier", 12_000, {"cv": 2}),
        ],
    )
    def test_a_fit_takes_about_what_the_bill_says(self, name, n, params, rng):
        X, y = some(n, rng)
        clf = all_estimators()[name](**params)
        if "calibration" in clf.get_params():
            clf.set_params(calibration=None)
        expected = sum(clf.memory_estimate(X, y).values())
        tracemalloc.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0.5 < expected / peak < 2.0
