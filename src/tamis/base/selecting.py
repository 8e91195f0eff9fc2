"""The kept features of a classifier, for scikit-learn's `SelectorMixin`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted


def feature_shares(estimator: Any) -> np.ndarray:
    """Share of every feature of X (n_features,) in the weights, in per cent; a mean over classes."""
    check_is_fitted(estimator)
    out = np.zeros(estimator.n_features_in_)
    out[estimator.features_] = np.atleast_2d(np.abs(estimator.feature_importance_)).mean(axis=0)
    return out


def support_mask(estimator: Any) -> np.ndarray:
    """Boolean (n_features,): the kept features."""
    check_is_fitted(estimator)
    mask = np.zeros(estimator.n_features_in_, dtype=bool)
    mask[estimator.features_] = True
    return mask
