"""Datasets by name: from the folder in TAMIS_DATA, else from the cache, else from OpenML.

Files are checked by their SHA-256. Downloads are checked by OpenML's checksum and by the number of rows and columns.
"""

from __future__ import annotations

import csv
import hashlib
import os
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets as bundled

from tamis.codec import replacing
from tamis.errors import BadOption

BUNDLED = {"wine": "load_wine", "digits": "load_digits", "breast_cancer": "load_breast_cancer"}
UNAVAILABLE = {  # datasets of the papers that are not published, not redistributable or too large
    "gli_85": "l0-MKL (85 x 22283 genes): not on OpenML in this form; lung_cancer is the nearest",
    "carcinom": "l0-MKL (174 x 9182 genes): not on OpenML in this form; lung_cancer is the nearest",
    "cll_sub_111": "IMKPL (111 x 11340 genes): not on OpenML in this form; tox_171 is the nearest",
    "rcv1_subset1": "IMKPL (6000 x 944 texts, 101 classes): the selection of rows and terms is not published",
    "pems": "IMKPL (traffic series): the archive that had them is gone; japanese_vowels is the nearest",
    "auslan": "IMKPL (sign language series): the archive that had them is gone; japanese_vowels is the nearest",
    "psort_pos": "Absent MKL (69 kernels): the kernel matrices are not published any more; protein_fold is the nearest",
    "psort_neg": "Absent MKL (69 kernels): the kernel matrices are not published any more; protein_fold is the nearest",
    "plant": "Absent MKL (69 kernels): the kernel matrices are not published any more; protein_fold is the nearest",
    "caltech101": "Absent MKL (kernels of images): the matrices are not published any more; mfeat is the nearest",
}
QUADRANTS = "quadrants"  # generated
SOURCES = {"sonar_30": "sonar", "covtype_7": "covtype"}  # derived datasets and their sources
SPLICE, HEART = "splice_binary", "heart_statlog"
CODES = ("chest", "resting_electrocardiographic_results", "slope", "thal")  # categories of the heart data
PARTS = {"sonar": 10, "ionosphere": 11}  # channels of neighbouring columns, where the source has no channels
RANDOM_CHANNELS, CHANNEL_WIDTH = 30, 6  # of sonar_30
TEN = ["pima", "heart_statlog", "german_numeric", "ckd", "wdbc", "spectf", "praf", "splice_binary", "musk2", "madelon"]
THIRTEEN = [*TEN[:8], "ionosphere", "sonar", "haberman", "ilpd_579", "wpbc"]
PUBLISHED = Path(__file__).with_name("published")


CODED = ("adult", "bank_marketing")  # whose files list the levels of their categories


@dataclass(frozen=True)
class Dataset:
    """A classification dataset.

    Attributes
    ----------
    X : (n, d) numbers, NaN where missing, or time series (n, channels, steps)
    y : (n,) classes 0, 1, ...
    nominal : (d,) booleans, True where a column holds codes of categories
    groups : (n,) group of each row, or None
    views : {channel: its columns}
    split : (n,) 0 for training rows and 1 for test rows where the source has a split, else None
    names : names of the columns; empty if unknown
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
        """Positions of the categorical columns."""
        return np.flatnonzero(self.nominal).tolist()


@cache
def catalogue() -> dict[str, dict[str, str]]:
    """Return {name: file, rows, columns, SHA-256 and OpenML number} of the known datasets."""
    with (PUBLISHED / "datasets.csv").open() as file:
        return {entry["name"]: entry for entry in csv.DictReader(file)}


def why_missing(name: str) -> str:
    """Return why a dataset is not available; empty if it is, or if it can be downloaded from OpenML."""
    name = SOURCES.get(name, name)
    if name in UNAVAILABLE:
        return UNAVAILABLE[name]
    if name in BUNDLED or name == QUADRANTS or _file(name) is not None:
        return ""
    if name not in catalogue():
        return f"unknown: there are {', '.join([*catalogue(), *BUNDLED])}"
    if catalogue()[name]["openml"]:
        return ""
    return f"not in the folder of TAMIS_DATA ({data_folder() or 'not set'}), not in the cache, and not on OpenML"


@lru_cache(maxsize=4)
def load(name: str) -> Dataset:
    """Return a dataset by name."""
    if name == QUADRANTS:
        return _quadrants()
    if name == "sonar_30":
        return _random_channels(load("sonar"))
    if name in BUNDLED:
        X, y = getattr(bundled, BUNDLED[name])(return_X_y=True)
        return Dataset(name, X, y, np.zeros(X.shape[1], dtype=bool))
    reason = why_missing(name)
    if reason:
        raise BadOption(f"dataset {name!r}: {reason}")
    found = _file(name)
    if found is not None and found.parent != cache_folder():
        _check(found, catalogue()[SOURCES.get(name, name)]["sha256"])
    with np.load(found or _download(name), allow_pickle=False) as file:
        return _dataset(name, dict(file))


def unreadable(name: str) -> str:
    """Return why the file of a dataset cannot be read; empty if it can."""
    try:
        load(name)
    except (ValueError, OSError) as error:
        return str(error)
    return ""


def _dataset(name: str, raw: dict[str, np.ndarray]) -> Dataset:
    X, y = raw["X"].astype(float), raw["y7" if name == "covtype_7" else "y"].astype(int)
    nominal = np.zeros(X.shape[1], dtype=bool)
    names = tuple(str(n) for n in raw.get("feature_names", ()))
    if name == SPLICE:
        nominal[:] = True  # nucleotides
    if name == HEART and "feature_names" in raw:
        nominal = np.isin(raw["feature_names"].astype(str), CODES)
    if name in CODED:
        nominal = np.isin(raw["feature_names"], [text.split(":")[0] for text in raw["coding"].tolist()])
    nominal |= raw.get("categorical", np.zeros(X.shape[1])).astype(bool)
    if name == "wpbc":
        X, nominal, names = X[:, 1:], nominal[1:], names[1:]  # the first column is the time of the outcome
    if name == "tox_171":
        X = np.log2(X + 1)  # raw intensities
    groups = raw.get("subject", raw.get("bag"))  # the person, or the molecule, of each row
    views: dict[str, list[int]] = {}
    if "view" in raw:
        views = {str(v): np.flatnonzero(raw["view"] == k).tolist() for k, v in enumerate(raw["view_names"])}
    if name in PARTS:
        parts = np.array_split(np.arange(X.shape[1]), PARTS[name])
        views = {f"columns {part[0]} to {part[-1]}": part.tolist() for part in parts}
    split = raw.get("split") if name == "protein_fold" else None
    return Dataset(name, X, y, nominal, groups, views, split, names)


def _random_channels(data: Dataset) -> Dataset:
    """Return channels of random columns; channels share features, so each has its own copies of its columns."""
    rng, d = np.random.default_rng(0), data.X.shape[1]
    X = np.hstack([data.X[:, np.sort(rng.permutation(d)[:CHANNEL_WIDTH])] for _ in range(RANDOM_CHANNELS)])
    starts = range(0, X.shape[1], CHANNEL_WIDTH)
    views = {f"channel {k}": list(range(start, start + CHANNEL_WIDTH)) for k, start in enumerate(starts)}
    return replace(data, name="sonar_30", X=X, nominal=np.zeros(X.shape[1], dtype=bool), views=views, names=())


def _quadrants() -> Dataset:
    """Return two classes in opposite quadrants of the unit disk, 100 points each."""
    rng = np.random.default_rng(0)
    radius, angle = np.sqrt(rng.random(200)), rng.random(200) * np.pi / 2
    y = np.repeat([0, 1], 100)
    quadrant = np.where(y == 0, 0.0, np.pi / 2) + np.pi * rng.integers(0, 2, size=200)
    X = np.column_stack([radius * np.cos(angle + quadrant), radius * np.sin(angle + quadrant)])
    return Dataset(QUADRANTS, X, y, np.zeros(2, dtype=bool))


def data_folder() -> Path | None:
    """Return the folder in TAMIS_DATA; None if it is not set."""
    found = os.environ.get("TAMIS_DATA")
    return Path(found) if found else None


def cache_folder() -> Path:
    """Return the folder of downloads: TAMIS_CACHE, else a folder in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TAMIS_CACHE") or Path(home) / "tamis")


def _file(name: str) -> Path | None:
    """Return the file of a dataset in the folder of TAMIS_DATA or in the cache; None if there is none."""
    entry = catalogue().get(SOURCES.get(name, name))
    if entry is None:
        return None
    root = data_folder()
    if root is not None and (path := root / entry["file"]).is_file():
        return path
    kept = cache_folder() / f"{name}.npz"
    return kept if kept.is_file() else None


def _check(path: Path, expected: str) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected:
        raise ValueError(
            f"{path.name} in the folder of TAMIS_DATA has the SHA-256 {found[:12]}..., expected {expected[:12]}...: "
            "it is another version of the dataset; remove it, or download the file again"
        )


def _download(name: str) -> Path:
    """Download a dataset from OpenML to the cache."""
    entry = catalogue()[name]
    try:
        bunch: Any = bundled.fetch_openml(
            data_id=int(entry["openml"]), as_frame=False, parser="liac-arff", data_home=str(cache_folder()), n_retries=1
        )
    except Exception as error:
        raise BadOption(
            f"dataset {name!r} is not in the folder of TAMIS_DATA, and OpenML (data set {entry['openml']}) "
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
