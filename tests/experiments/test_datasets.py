"""Datasets by name."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import datasets
from tamis.errors import BadOption


def test_bundled_and_generated_datasets_are_always_available():
    assert datasets.load("wine").X.shape == (178, 13) and not datasets.why_missing("quadrants")
    made = datasets.load("quadrants")
    assert np.all((made.X[:, 0] * made.X[:, 1] > 0) == (made.y == 0)) and np.all((made.X**2).sum(axis=1) <= 1)


def test_missing_datasets_have_a_reason(monkeypatch, tmp_path):
    monkeypatch.delenv("TAMIS_DATA", raising=False)
    monkeypatch.setenv("TAMIS_CACHE", str(tmp_path))
    assert "not published any more" in datasets.why_missing("psort_pos")
    assert "folder of TAMIS_DATA (not set)" in datasets.why_missing("ckd") and not datasets.why_missing("pima")
    with pytest.raises(BadOption, match="dataset 'ckd': not in the folder"):
        datasets.load("ckd")
    with pytest.raises(BadOption, match="dataset 'nothing': unknown"):
        datasets.load("nothing")


def test_files_are_checked(monkeypatch, tmp_path):
    (tmp_path / "p1").mkdir()
    (tmp_path / "p1" / "ckd.npz").write_bytes(b"other")
    monkeypatch.setenv("TAMIS_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"ckd.npz in the folder of TAMIS_DATA has the SHA-256"):
        datasets.load("ckd")
    assert "SHA-256" in datasets.unreadable("ckd") and datasets.unreadable("wine") == ""


def test_downloads_are_kept_and_checked(monkeypatch, tmp_path):
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


def test_rows_of_one_person_or_molecule_are_a_group():
    raw = {"X": np.zeros((4, 2)), "y": np.arange(4) % 2}
    for key in ("subject", "bag"):
        found = datasets._dataset("any", {**raw, key: np.array([0, 0, 1, 1])})
        assert found.groups.tolist() == [0, 0, 1, 1]
    assert datasets._dataset("any", raw).groups is None
