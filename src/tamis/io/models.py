"""One file for a fitted classifier: versioned, checksummed, small, no pickle."""

from __future__ import annotations

import os

from tamis import codec
from tamis.estimators.base import KernelClassifier
from tamis.estimators.registry import all_estimators
from tamis.results.data import Results


def save(model: KernelClassifier | Results, path: str | os.PathLike) -> None:
    """Write a fitted classifier, or results with the classifier in them, to one file.

    The file holds what predictions and explanations need, whatever the number of training rows: kept cases
    and kernels, parameters, learned attributes. What `warm_start` needs is left out.
    """
    if not isinstance(model, tuple(all_estimators().values()) + (Results,)):
        raise ValueError(f"model={type(model).__name__} is not a classifier of tamis: use joblib or skops for others")
    codec.write(path, "model", model)


def load(path: str | os.PathLike) -> KernelClassifier:
    """Read the classifier from a file that `save` or `Results.save` has written."""
    loaded = codec.read(path, "model")
    model = loaded.model if isinstance(loaded, Results) else loaded
    if not isinstance(model, KernelClassifier):
        raise ValueError(f"{str(path)!r} holds a {type(model).__name__}, not a classifier")
    return model
