"""GaussianImputer: missing cells filled with what one Gaussian expects there."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from tamis.methods.baselines.filling import conditional_means, fit_gaussian
from tamis.parallel import blas_threads
from tamis.table.checks import LARGEST, check_integer, check_number
from tamis.table.rows import check_weights
from tamis.table.table import check_dense


class GaussianImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill missing cells with their conditional mean under one Gaussian, fitted by EM [Dempster1977].

    Columns are scaled to mean zero and variance one over their observed cells. A Gaussian of all columns is fitted to
    the observed cells by expectation maximisation, with a penalty that adds `ridge` to every variance. A missing
    cell becomes its expectation given the observed cells of its row; new rows are filled with what was learned from
    the training rows. In front of a kernel method this is the baseline "EM filling" for kernels with missing
    channels.

    Parameters
    ----------
    ridge : float, default=1e-2
        What the penalty adds to the variance of each scaled column; above 0. Larger values pull filled cells towards
        the mean of the column.
    max_iter : int, default=30
        Most steps of EM.
    tol : float, default=1e-4
        The fit stops before `max_iter` where a step changes no mean and no covariance by more than this, in units
        of standard deviations.

    Attributes
    ----------
    centre_, scale_ : (n_features,) mean and standard deviation of the observed training cells of each column;
        scale one for a constant column, zero and one for a column without an observed cell
    law_ : mean and covariance of the scaled columns
    n_iter_ : steps of EM that were made
    status_ : how the fit ended; ``status_.converged`` says whether within `tol`
    objective_, history_ : penalised negative log-likelihood of the observed scaled cells per row, and its course
    n_features_in_
    feature_names_in_ : where X has column names

    Notes
    -----
    EM moves fast at first and slowly later, and filled cells settle long before the covariance does: to end at
    `max_iter` is usual and gives no warning. Look at `status_` and `history_`, and raise `max_iter` where the
    likelihood itself matters.

    Observed cells come back exactly as they were, as floating-point numbers. A row without an observed cell becomes
    the mean, and a cell of a column that no training row had becomes zero. X has to be numeric; encode categories
    first. Filled cells carry no noise, so that variances of filled columns are too small.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from tamis import GaussianImputer, SimpleMKLClassifier, bandwidths
    >>> X, y = load_iris(return_X_y=True)
    >>> X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    >>> mkl = SimpleMKLClassifier(kernels=bandwidths([0.5, 2.0]), calibration=None)
    >>> clf = make_pipeline(GaussianImputer(), mkl).fit(X, y)
    >>> bool(np.isnan(clf[0].transform(X)).any()), bool(clf.score(X, y) > 0.85)
    (False, True)
    """

    def __init__(self, ridge: float = 1e-2, *, max_iter: int = 30, tol: float = 1e-4):
        self.ridge = ridge
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> GaussianImputer:
        """Fit the Gaussian.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features); NaN or None are missing cells
        y : ignored
        sample_weight : weights of shape (n_samples,), at least 0; only their ratios matter

        Returns
        -------
        self
        """
        check_number("ridge", self.ridge, 0.0, strict=True)
        check_integer("max_iter", self.max_iter, 1)
        check_number("tol", self.tol, 0.0, strict=True)
        X = self._read(X, reset=True).astype(float)
        weight = check_weights(sample_weight, np.zeros(len(X), dtype=int), np.zeros(1))
        if np.isnan(X[weight > 0]).all():
            raise ValueError("X has no observed cell in a row of positive weight: the Gaussian needs at least one")
        self.centre_, self.scale_ = _moments(X, weight)
        with blas_threads(1):
            solution = fit_gaussian(self._scaled(X), weight, ridge=self.ridge, max_iter=self.max_iter, tol=self.tol)
        self.law_, self.history_ = solution.state, solution.history
        self.n_iter_, self.status_, self.objective_ = solution.n_iter, solution.status, solution.objective
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Fill the missing cells.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        X with its missing cells filled, of shape (n_samples, n_features), float32 if X was, else float64
        """
        check_is_fitted(self)
        X = self._read(X, reset=False)
        gaps = np.isnan(X)
        with blas_threads(1):
            filled = self.centre_ + self.scale_ * conditional_means(self._scaled(X.astype(float)), self.law_)
        out = X.copy()
        out[gaps] = filled[gaps]
        return out

    def _read(self, X: Any, *, reset: bool) -> np.ndarray:
        check_dense(X)
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        """Columns in units of their spread; refuse numbers whose squares would leave the range of floats."""
        with np.errstate(over="ignore", invalid="ignore"):
            Z = (X - self.centre_) / self.scale_
        bad = ~np.isnan(X) & ~(np.abs(Z) <= LARGEST)
        if bad.any():
            row, column = np.argwhere(bad)[0].tolist()
            name = getattr(self, "feature_names_in_", range(X.shape[1]))[column]
            raise ValueError(
                f"X holds {X[row, column]:.3g} in column {name!r}, too far from the other cells of that column to be "
                "squared: use other units, or take the cell out"
            )
        return Z

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _moments(X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (d,) of the observed cells; scale one if they are equal, also mean zero if none."""
    centre, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
    for j, column in enumerate(X.T):
        seen = ~np.isnan(column) & (weight > 0)
        if not seen.any():
            continue
        x, w = column[seen], weight[seen] / weight[seen].sum()
        centre[j] = x[0]
        if np.all(x == x[0]):
            continue
        with np.errstate(over="ignore", invalid="ignore"):  # numbers that large are refused when they are scaled
            centre[j] = w @ x
            gaps = x - centre[j]
            unit = np.abs(gaps).max()
            scale[j] = unit * np.sqrt(w @ (gaps / unit) ** 2)
    return centre, scale
