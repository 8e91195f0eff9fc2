"""Tables of the open benchmark, and their splits.

A folder of tables has one file `<name>.npz` for each, with `X` (NaN for missing cells, codes for categories), `y`,
and where known `categorical` (a mask of the columns), `feature_names` and `fold_caiml` (the test fold of each row).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from experiments.datasets import THIRTEEN, Dataset, data_folder, load
from experiments.problem import Problem
from tamis.errors import BadOption

FIRST_SEED = 3003
MIN_CLASS = 4  # rows of a class; smaller ones are dropped
MAX_TRAIN, MAX_TEST, TEST_SHARE = 4000, 5000, 0.3
CAIML_FOLDS = 4
PARTS = ("develop", "papers")


def folder_of(part: str) -> Path | None:
    """Return the folder of a part: "develop", or a path; None for "papers", the tables of the five papers."""
    if part == "papers":
        return None
    root = data_folder()
    if part == "develop" and root is None:
        raise BadOption("--part 'develop' needs the folder of the data: set TAMIS_DATA")
    folder = Path(part) if root is None or part != "develop" else root / "open"
    if not any(folder.glob("*.npz")):
        raise BadOption(f"--part {part!r} has no file *.npz: use {', '.join(PARTS)}, or a folder of tables")
    return folder


def names_of(folder: Path | None) -> list[str]:
    """Return the names of the tables of a part."""
    return list(THIRTEEN) if folder is None else sorted(path.stem for path in folder.glob("*.npz"))


def read(folder: Path | None, name: str) -> tuple[Dataset, np.ndarray | None]:
    """Return a table, and the published fold of each row if there is one."""
    if folder is None:
        return load(name), None
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        raw = dict(file)
    X = raw["X"].astype(float)
    nominal = raw.get("categorical", np.zeros(X.shape[1])).astype(bool)
    names = tuple(str(n) for n in raw.get("feature_names", ()))
    return Dataset(name, X, raw["y"].astype(int), nominal, names=names), raw.get("fold_caiml")


def problem_of(folder: Path | None, name: str, folds: str, split: int) -> Problem:
    """Return one split of a table: "splits" are random and stratified, "caiml" are published folds."""
    data, published = read(folder, name)
    if folds == "caiml":
        if published is None:
            raise ValueError(f"table {name!r} has no published folds")
        train, test = np.flatnonzero(published != split), np.flatnonzero(published == split)
        return Problem.of(data, train, test, 5, split)
    seed = FIRST_SEED + split
    y = data.y
    rows = np.flatnonzero(np.bincount(y)[y] >= MIN_CLASS)
    classes = np.unique(y[rows], return_inverse=True)[1]
    train, test = train_test_split(np.arange(len(rows)), test_size=TEST_SHARE, random_state=seed, stratify=classes)
    if len(train) > MAX_TRAIN:
        train, _ = train_test_split(train, train_size=MAX_TRAIN, random_state=seed, stratify=classes[train])
    kept = Dataset(name, data.X[rows], classes, data.nominal, names=data.names)
    return Problem.of(kept, train, test[:MAX_TEST], 5, seed)
