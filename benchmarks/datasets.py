"""Named datasets from the folder in TAMIS_DATA, with what has to be known of each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

GROUP = {
    **dict.fromkeys(
        [
            "ckd",
            "german_numeric",
            "heart_statlog",
            "madelon",
            "musk2",
            "pima",
            "praf",
            "spectf",
            "splice_binary",
            "wdbc",
        ],
        "p1",
    ),
    "covtype": "p6",
    "protein_fold": "p5",
    **dict.fromkeys(["japanese_vowels", "mfeat"], "extra"),
    **dict.fromkeys(["tox_171", "utkinect"], "p4"),
    **dict.fromkeys(["haberman", "ilpd_579", "ionosphere", "sonar", "wpbc"], "p2"),
    **dict.fromkeys(
        ["allaml", "cns", "colon", "dbworld", "glioma", "isolet", "leukemia", "lung_cancer", "prostate_ge"], "p3"
    ),
}
TEN = ["pima", "heart_statlog", "german_numeric", "ckd", "wdbc", "spectf", "praf", "splice_binary", "musk2", "madelon"]
THIRTEEN = [
    *TEN[:8],
    "ionosphere",
    "sonar",
    "haberman",
    "ilpd_579",
    "wpbc",
]


@dataclass(frozen=True)
class Data:
    name: str
    X: np.ndarray
    y: np.ndarray
    nominal: np.ndarray
    groups: np.ndarray | None


def folder() -> Path | None:
    path = os.environ.get("TAMIS_DATA")
    return Path(path) if path and Path(path).is_dir() else None


def load(name: str) -> Data:
    root = folder()
    if root is None:
        raise SystemExit("set TAMIS_DATA to the folder that holds the datasets")
    raw = np.load(root / GROUP[name] / f"{name}.npz", allow_pickle=False)
    X, y = raw["X"].astype(float), raw["y"]
    nominal = np.zeros(X.shape[1], dtype=bool)
    if name == "splice_binary":
        nominal[:] = True  # nucleotide codes
    if name == "heart_statlog":
        codes = ("chest", "resting_electrocardiographic_results", "slope", "thal")
        nominal = np.isin([str(f) for f in raw["feature_names"]], codes)
    if name == "wpbc":
        X, nominal = X[:, 1:], nominal[1:]  # the first column is the time of the outcome
    groups = raw["subject"] if name == "praf" else raw["bag"] if name == "musk2" else None
    return Data(name, X, y, nominal, groups)
