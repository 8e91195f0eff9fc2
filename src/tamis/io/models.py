"""One file for a fitted estimator: versioned, checksummed, small, no pickle."""

from __future__ import annotations

import os

from tamis import codec
from tamis.estimators.registry import all_estimators
from tamis.results.data import Results
from tamis.shells.base import KernelEstimator


def save(model: KernelEstimator | Results, path: str | os.PathLike) -> None:
    """Write a fitted estimator, or results with the classifier in them, to one file.

    The file holds what predictions and explanations need, whatever the number of training rows: kept cases
    and kernels, parameters, learned attributes. What `warm_start` needs is left out.
    """
    if not isinstance(model, tuple(all_estimators().values()) + (Results,)):
        raise ValueError(f"model={type(model).__name__} is not an estimator of tamis: use joblib or skops for others")
    codec.write(path, "model", model)


def load(path: str | os.PathLike) -> KernelEstimator:
    """Read the estimator from a file that `save` or `Results.save` has written."""
    loaded = codec.read(path, "model")
    model = loaded.model if isinstance(loaded, Results) else loaded
    if not isinstance(model, KernelEstimator):
        raise ValueError(f"{str(path)!r} holds a {type(model).__name__}, not an estimator")
    return model
