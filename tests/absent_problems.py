"""Samples of three channels, some of which they lack."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np

from tamis import (
    AbsentMKLClassifier,
    per_group,
)
from tamis.kernels.base import Gaussian

GROUPS = {"a": [0, 1], "b": [2, 3, 4], "c": [5]}
KERNELS = per_group(GROUPS)
LISTED = list(GROUPS.values())


def mask(n, absent=1, seed=0):
    """Every sample lacks the same number of the three channels."""
    rng = np.random.default_rng(seed)
    return np.argsort(np.argsort(rng.random((n, 3)), axis=1), axis=1) >= absent


def blanked(X, present):
    X = X.copy()
    for p, columns in enumerate(LISTED):
        X[np.ix_(~present[:, p], columns)] = np.nan
    return X


@cache
def data(n=90, classes=2, absent=1):
    rng = np.random.default_rng(7)
    codes = np.arange(n) % classes
    X = rng.normal(size=(n, 6)) + 1.2 * rng.normal(size=(classes, 6))[codes]
    present = mask(n, absent)
    return blanked(X, present), np.array(["x", "y", "z"])[codes], present


def grams(X, present, Y=None, other=None):
    """The kernels of the classifier's default scaling, by hand: values between complete rows, else zero."""
    Y, other = (X, present) if Y is None else (Y, other)
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    mean, std = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    A, B = ((np.clip(Z, low, high) - mean) / std for Z in (Y, X))
    out = []
    for p, columns in enumerate(LISTED):
        with np.errstate(invalid="ignore"):
            values = np.array(
                Gaussian(np.sqrt(len(columns)))(np.nan_to_num(A[:, columns]), np.nan_to_num(B[:, columns]))
            )
        out.append(values * other[:, p][:, None] * present[:, p][None])
    return np.array(out)


def fit(X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return AbsentMKLClassifier(**{"kernels": KERNELS, "calibration": None, **options}).fit(X, y)
