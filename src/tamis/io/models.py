"""One file for a fitted estimator: versioned, checksummed, small, no pickle."""

from __future__ import annotations

import os
from typing import Any

from scipy.sparse import csr_array
from sklearn import model_selection

from tamis import codec
from tamis.base.estimator import ReadableEstimator
from tamis.methods.baselines.filling import GaussianImputer
from tamis.methods.em2nolc.solver import State
from tamis.registry import all_estimators
from tamis.results.data import Results


def save(model: ReadableEstimator | Results, path: str | os.PathLike) -> None:
    """Write a fitted estimator, or results with the classifier in them, to one file.

    The file holds what predictions and explanations need, whatever the number of training rows: kept cases
    and kernels, parameters, learned attributes. What `warm_start` needs is left out.
    """
    if not isinstance(model, tuple(all_estimators().values()) + (Results,)):
        raise ValueError(f"model={type(model).__name__} is not an estimator of tamis: use joblib or skops for others")
    codec.write(path, "model", model)


def trusted_types() -> list[str]:
    """Names of the types in any fitted estimator, for ``skops.io.load(path, trusted=tamis.io.trusted_types())``.

    They are those that model files hold, the state of a warm start, splitters of scikit-learn (the parameter `cv`),
    and scipy's sparse array, in which classifiers by prototypes keep the codes of training rows. None of them runs code
    that is in a file.
    """
    own = [cls for cls in codec.STORED.values() if cls.__module__.partition(".")[0] == "tamis"]
    splitters = [cls for cls in vars(model_selection).values() if hasattr(cls, "get_n_splits")]
    needed = (*own, GaussianImputer, State, *splitters, csr_array)
    return sorted({f"{cls.__module__}.{cls.__qualname__}" for cls in needed})


def load(path: str | os.PathLike) -> ReadableEstimator:
    """Read the estimator from a file that `save` or `Results.save` has written.

    Nothing in a file is executed. One that is damaged, or was made to do harm, is a `tamis.io.Unreadable`, which is a
    ValueError; one that is not there a FileNotFoundError.
    """
    all_estimators()  # a class is known to the reader once its module is imported
    loaded = codec.read(path, "model")
    model = estimator_in(loaded)
    if model is None:
        raise codec.Unreadable(f"{str(path)!r} holds a {type(loaded).__name__}, not an estimator")
    return model


def estimator_in(model: Any) -> ReadableEstimator | None:
    """The estimator itself, or that of results; None if it is neither."""
    estimator = model.model if isinstance(model, Results) else model
    return estimator if isinstance(estimator, ReadableEstimator) else None
