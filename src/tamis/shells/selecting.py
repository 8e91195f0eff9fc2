"""The kept features of a classifier as a scikit-learn selector."""

from __future__ import annotations

import numpy as np
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted


class Selecting(SelectorMixin):
    """`get_support`, `transform`, `inverse_transform` and `get_feature_names_out` for the kept features."""

    features_: np.ndarray
    feature_importance_: np.ndarray
    n_features_in_: int

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of every feature of X (n_features,) in the weights, in per cent; a mean over classes."""
        check_is_fitted(self)
        out = np.zeros(self.n_features_in_)
        out[self.features_] = np.atleast_2d(np.abs(self.feature_importance_)).mean(axis=0)
        return out

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self.features_] = True
        return mask
