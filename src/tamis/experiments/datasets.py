"""Datasets of the papers by name: from the folder in TAMIS_DATA, else from the cache, else from OpenML.

Files are checked by their SHA-256; what OpenML gives is checked by its own checksum and by the number of rows and
columns.
"""

from __future__ import annotations

import csv
import hashlib
import os
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets as bundled

from tamis.codec import replacing
from tamis.errors import BadOption

EMBEDDED = {"wine": "load_wine", "digits": "load_digits", "breast_cancer": "load_breast_cancer"}
ABSENT = {  # sets of the papers that nobody may pass on, or that are too large to keep
    "gli_85": "l0-MKL (85 x 22283 genes): not on OpenML in this form; lung_cancer is the nearest",
    "carcinom": "l0-MKL (174 x 9182 genes): not on OpenML in this form; lung_cancer is the nearest",
    "cll_sub_111": "IMKPL (111 x 11340 genes): not on OpenML in this form; tox_171 is the nearest",
    "rcv1_subset1": "IMKPL (6000 x 944 texts, 101 classes): the selection of rows and terms is not published",
    "pems": "IMKPL (traffic series): the archive that held them is gone; japanese_vowels is the nearest",
    "auslan": "IMKPL (sign language series): the archive that held them is gone; japanese_vowels is the nearest",
    "psort_pos": "Absent MKL (69 kernels): the kernel matrices are not published any more; protein_fold is the nearest",
    "psort_neg": "Absent MKL (69 kernels): the kernel matrices are not published any more; protein_fold is the nearest",
    "plant": "Absent MKL (69 kernels): the kernel matrices are not published any more; protein_fold is the nearest",
    "caltech101": "Absent MKL (kernels of images): the matrices are not published any more; mfeat is the nearest",
}
QUADRANTS = "quadrants"  # made here
DERIVED = {"sonar_30": "sonar"}  # made from the columns of another
SPLICE, HEART = "splice_binary", "heart_statlog"
CODES = ("chest", "resting_electrocardiographic_results", "slope", "thal")  # categories of the heart data


@dataclass(frozen=True)
class Dataset:
    """Rows with classes.

    Attributes
    ----------
    X : (n, d) numbers, NaN where missing, or series (n, channels, steps)
    y : (n,) classes 0, 1, ...
    nominal : (d,) which columns are codes of categories
    groups : (n,) rows that belong together, or None
    views : channels by name, with their columns
    split : (n,) 0 for rows to learn from and 1 for rows to test on, where the source says so
    names : of the columns, where they are known
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    nominal: np.ndarray
    groups: np.ndarray | None = None
    views: dict[str, list[int]] = field(default_factory=dict)
    split: np.ndarray | None = None
    names: tuple[str, ...] = ()

    @property
    def categorical(self) -> list[int]:
        """Positions of the categories."""
        return np.flatnonzero(self.nominal).tolist()


@cache
def catalogue() -> dict[str, dict[str, str]]:
    """Known files by name: where they stand in a folder, their size and checksum, and their number on OpenML."""
    with (files("tamis.experiments") / "published" / "datasets.csv").open() as file:
        return {entry["name"]: entry for entry in csv.DictReader(file)}


def why_missing(name: str) -> str:
    """Why a dataset cannot be had; empty if it can (from OpenML: if that can be reached)."""
    name = DERIVED.get(name, name)
    if name in ABSENT:
        return ABSENT[name]
    if name in EMBEDDED or name == QUADRANTS or _file(name) is not None:
        return ""
    if name not in catalogue():
        return f"unknown: there are {', '.join([*catalogue(), *EMBEDDED])}"
    if catalogue()[name]["openml"]:
        return ""
    return f"not in the folder that TAMIS_DATA names ({_root() or 'not set'}), not in the cache, and not on OpenML"


@lru_cache(maxsize=4)
def load(name: str) -> Dataset:
    """A dataset by name."""
    if name == QUADRANTS:
        return _quadrants()
    if name in EMBEDDED:
        X, y = getattr(bundled, EMBEDDED[name])(return_X_y=True)
        return Dataset(name, X, y, np.zeros(X.shape[1], dtype=bool))
    reason = why_missing(name)
    if reason:
        raise BadOption(f"dataset {name!r}: {reason}")
    found = _file(name)
    if found is not None and found.parent != cache_folder():
        _check(found, catalogue()[name]["sha256"])
    with np.load(found or _fetched(name), allow_pickle=False) as file:
        return _dataset(name, dict(file))


def unreadable(name: str) -> str:
    """Why a dataset that seems to be there cannot be read; empty if it can."""
    try:
        load(DERIVED.get(name, name))
    except (ValueError, OSError) as error:
        return str(error)
    return ""


def _dataset(name: str, raw: dict[str, np.ndarray]) -> Dataset:
    X, y = raw["X"].astype(float), raw["y"].astype(int)
    nominal = np.zeros(X.shape[1], dtype=bool)
    names = tuple(str(n) for n in raw.get("feature_names", ()))
    if name == SPLICE:
        nominal[:] = True  # nucleotides
    if name == HEART and "feature_names" in raw:
        nominal = np.isin(raw["feature_names"].astype(str), CODES)
    if name == "wpbc":
        X, nominal, names = X[:, 1:], nominal[1:], names[1:]  # the first column is the time of the outcome
    groups = raw.get("subject", raw.get("bag"))  # rows of one person, or of one molecule
    views: dict[str, list[int]] = {}
    if "view" in raw:
        views = {str(v): np.flatnonzero(raw["view"] == k).tolist() for k, v in enumerate(raw["view_names"])}
    split = raw.get("split") if name == "protein_fold" else None
    return Dataset(name, X, y, nominal, groups, views, split, names)


def _quadrants() -> Dataset:
    """Two classes in opposite quadrants of the unit disk, 100 points each."""
    rng = np.random.default_rng(0)
    radius, angle = np.sqrt(rng.random(200)), rng.random(200) * np.pi / 2
    y = np.repeat([0, 1], 100)
    quadrant = np.where(y == 0, 0.0, np.pi / 2) + np.pi * rng.integers(0, 2, size=200)
    X = np.column_stack([radius * np.cos(angle + quadrant), radius * np.sin(angle + quadrant)])
    return Dataset(QUADRANTS, X, y, np.zeros(2, dtype=bool))


def _root() -> Path | None:
    found = os.environ.get("TAMIS_DATA")
    return Path(found) if found else None


def cache_folder() -> Path:
    """Where downloads are kept: TAMIS_CACHE, else a folder in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TAMIS_CACHE") or Path(home) / "tamis")


def _file(name: str) -> Path | None:
    """The file of a dataset in the folder of TAMIS_DATA or in the cache."""
    entry = catalogue().get(name)
    if entry is None:
        return None
    root = _root()
    if root is not None and (path := root / entry["file"]).is_file():
        return path
    kept = cache_folder() / f"{name}.npz"
    return kept if kept.is_file() else None


def _check(path: Path, expected: str) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected:
        raise ValueError(
            f"{path.name} in the folder of TAMIS_DATA has the SHA-256 {found[:12]}..., expected {expected[:12]}...: "
            "it is another version of the dataset; remove it, or get the file anew"
        )


def _fetched(name: str) -> Path:
    """The dataset from OpenML, kept in the cache."""
    entry = catalogue()[name]
    try:
        bunch: Any = bundled.fetch_openml(
            data_id=int(entry["openml"]), as_frame=False, parser="liac-arff", data_home=str(cache_folder()), n_retries=1
        )
    except Exception as error:
        raise BadOption(
            f"dataset {name!r} is not in the folder that TAMIS_DATA names, and OpenML (data set {entry['openml']}) "
            f"cannot be read: {error}"
        ) from error
    X, labels = np.asarray(bunch.data, dtype=float), np.asarray(bunch.target)
    shape = "x".join(map(str, X.shape))
    if shape != f"{entry['rows']}x{entry['columns']}":
        raise ValueError(
            f"OpenML's data set {entry['openml']} is {shape}, and {name!r} has {entry['rows']} rows and "
            f"{entry['columns']} columns: it is another version"
        )
    classes, y = np.unique(labels.astype(str), return_inverse=True)
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.npz"
    names = np.array([str(n) for n in bunch.feature_names])
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, X=X, y=y, class_names=classes, feature_names=names)
    return path
