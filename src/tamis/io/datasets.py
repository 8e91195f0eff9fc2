"""Datasets by name: those that come with scikit-learn, and those in the folder that TAMIS_DATA names."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn import datasets

from tamis.codec import array_header
from tamis.errors import BadOption
from tamis.io.tables import Columns, read

EMBEDDED = {"breast_cancer": "diagnosis", "iris": "species", "wine": "cultivar", "digits": "digit"}


@dataclass(frozen=True)
class Dataset:
    """What a dataset is, without its rows."""

    name: str
    target: str
    n_rows: int
    n_features: int
    n_classes: int
    where: str


def available() -> list[Dataset]:
    """All datasets that are at hand."""
    found = []
    for name, target in EMBEDDED.items():
        columns, _ = load_dataset(name)
        n, classes = len(columns[target]), len(set(columns[target].tolist()))
        found.append(Dataset(name, target, n, len(columns) - 1, classes, "scikit-learn"))
    return found + [_look(path) for path in _files()]


def load_dataset(name: str) -> tuple[Columns, str]:
    """Columns of a dataset, and the name of its target."""
    if name in EMBEDDED:
        bunch = getattr(datasets, f"load_{name}")()
        columns = {str(feature): bunch.data[:, j] for j, feature in enumerate(bunch.feature_names)}
        labels = np.array([str(label) for label in bunch.target_names], dtype=object)
        return Columns({**columns, EMBEDDED[name]: labels[bunch.target]}), EMBEDDED[name]
    for path in _files():
        if path.stem == name:
            return read(path), "y"
    known = ", ".join([*EMBEDDED, *(path.stem for path in _files())])
    raise BadOption(f"there is no dataset {name!r}: there are {known}")


def _files() -> list[Path]:
    folder = os.environ.get("TAMIS_DATA")
    return sorted(path for path in Path(folder).glob("*/*.npz") if _shape(path)[1:]) if folder else []


def _look(path: Path) -> Dataset:
    n, d = _shape(path)
    with np.load(path, allow_pickle=False) as file:
        classes = len(np.unique(file["y"]))
    return Dataset(path.stem, "y", n, d, classes, str(path.parent.name))


def _shape(path: Path) -> tuple[int, ...]:
    """Shape of the table X, read from its header alone; empty where X is not a table."""
    with zipfile.ZipFile(path) as archive, archive.open("X.npy") as file:
        shape = array_header(file)[0]
    return shape if len(shape) == 2 else ()
