"""EM filling: one Gaussian for rows with missing cells, and their conditional means [Dempster1977].

    min over mu, Sigma > 0 of F(mu, Sigma)
    F = sum_i p_i 1/2 (|o_i| log(2 pi) + log det Sigma_oo + (z_o - mu_o)' inv(Sigma_oo) (z_o - mu_o))
        + ridge / 2 tr inv(Sigma)

o is what row i has, m what it lacks, p_i its share in the weight. F is the negative log-likelihood of the observed
cells per unit of weight plus a penalty, minus the logarithm of the prior density exp(-W ridge / 2 tr inv(Sigma)) per
unit of weight W: an inverse Wishart density with scale matrix W ridge I and without its power of det Sigma, flat in
mu. A step of EM is, with ^ for the expectation given the observed cells at the present law,

    z_m^ = mu_m + Sigma_mo inv(Sigma_oo) (z_o - mu_o),      C_i = Sigma_mm - Sigma_mo inv(Sigma_oo) Sigma_om
    mu <- sum_i p_i z_i^
    Sigma <- sum_i p_i ((z_i^ - mu)(z_i^ - mu)' + C_i) + ridge I

The last line minimises the expected complete-data form of F, penalty included, so F never rises, but for rounding of
the order of the condition of Sigma. Without missing cells one step ends at the weighted mean and the weighted
covariance plus ridge I. A step is the gradient of F in the metric of the present law: the mean moves by
-Sigma dF/dmu, so that F is stationary where a step changes nothing.

| paper | here |
| --- | --- |
| mu, Sigma | `mean` (d,), `covariance` (d, d) of a `NormalLaw` |
| observed, missing part of a row | `seen`, `gaps` of its `Pattern` |
| weight of the penalty | `ridge` |

Departures, with reasons:

1. The paper maximises the likelihood; the penalty keeps Sigma definite where there are more columns than rows, and
   it decides covariances of columns that no row has together. As it stands per unit of weight, only ratios of
   weights matter.
2. Rows without an observed cell, or without weight, are left out, also of W. Columns that no row has are left
   out of F, which has no minimum in them: their law is mean zero, variance one, independent of the others.
3. Rows of one pattern share a Cholesky factor: of Sigma_oo where they have less than they lack, else of
   inv(Sigma)_mm, whose inverse is C_i; log det Sigma_oo = log det Sigma + log det inv(Sigma)_mm.
4. The violation is the largest change that one more step makes in a mean, relative to the standard deviation, or in
   a covariance, relative to the two. EM gets there slowly, and for filling cells a few dozen steps do: ending at
   `max_iter` is the usual case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtri
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from tamis.codec import stored
from tamis.errors import check_integer, check_number
from tamis.optim.driver import Iterate, Solution, run
from tamis.parallel import blas_threads
from tamis.table.rows import MAX_ENCODED, check_weights
from tamis.table.table import check_dense

EPS = float(np.finfo(float).eps)


@stored
@dataclass(frozen=True)
class NormalLaw:
    """A Gaussian: mean (d,), covariance (d, d) symmetric and positive definite."""

    mean: np.ndarray
    covariance: np.ndarray

    def take(self, columns: np.ndarray) -> NormalLaw:
        """The law of some columns."""
        return NormalLaw(self.mean[columns], self.covariance[np.ix_(columns, columns)])

    def among(self, columns: np.ndarray, d: int) -> NormalLaw:
        """The law of d columns of which these are some; the others are standard and independent."""
        mean, covariance = np.zeros(d), np.eye(d)
        mean[columns] = self.mean
        covariance[np.ix_(columns, columns)] = self.covariance
        return NormalLaw(mean, covariance)


@dataclass(frozen=True)
class Pattern:
    """Rows that have the columns `seen` and lack the columns `gaps`."""

    rows: np.ndarray
    seen: np.ndarray
    gaps: np.ndarray


def find_patterns(missing: np.ndarray) -> tuple[Pattern, ...]:
    """The distinct rows of a boolean matrix (n, d), each with the rows that are equal to it."""
    if not missing.size:
        return ()
    packed = np.packbits(missing, axis=1)
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(inverse.ravel()))[:-1])
    return tuple(
        Pattern(rows, np.flatnonzero(~missing[k]), np.flatnonzero(missing[k]))
        for rows, k in zip(groups, first, strict=True)
    )


@dataclass(frozen=True)
class Problem:
    """Rows with something observed, on the columns that some of them have."""

    Z: np.ndarray  # (n, c) rows, NaN for missing cells
    share: np.ndarray  # (n,) positive, adding up to one
    ridge: float  # positive
    patterns: tuple[Pattern, ...]  # of Z
    columns: np.ndarray  # (c,) positions of the columns of Z

    @classmethod
    def of_rows(cls, Z: np.ndarray, weight: np.ndarray, ridge: float) -> Problem:
        """The problem of rows (n, d) with weights (n,) of at least 0."""
        if not ridge > 0:
            raise ValueError(f"ridge={ridge!r} must be above 0: it keeps the covariance definite; try 1e-2")
        seen = ~np.isnan(Z)
        rows = np.flatnonzero(seen.any(axis=1) & (weight > 0))
        if not len(rows):
            raise ValueError("Z has no observed cell in a row of positive weight: at least one is needed")
        columns = np.flatnonzero(seen[rows].any(axis=0))
        kept, share = Z[np.ix_(rows, columns)], weight[rows] / weight[rows].max()
        return cls(kept, share / share.sum(), float(ridge), find_patterns(np.isnan(kept)), columns)

    def start(self) -> NormalLaw:
        """Means and variances of the observed cells of each column, and no covariance."""
        seen = ~np.isnan(self.Z)
        share = self.share[:, None] * seen
        share /= share.sum(axis=0)
        mean = np.sum(share * np.where(seen, self.Z, 0.0), axis=0)
        spread = np.sum(share * np.where(seen, self.Z - mean, 0.0) ** 2, axis=0)
        return NormalLaw(mean, np.diag(spread + self.ridge))


# ---------------------------------------------------------------------- one law, many patterns


@dataclass(frozen=True)
class _Factored:
    """A law with the lower Cholesky factor, the log determinant and the inverse of its covariance."""

    law: NormalLaw
    factor: np.ndarray
    log_det: float
    precision: np.ndarray

    @classmethod
    def of(cls, law: NormalLaw) -> _Factored:
        factor, log_det = _factor(law.covariance)
        if factor.diagonal().min() ** 2 <= len(factor) * EPS * law.covariance.diagonal().max():
            raise LinAlgError("the covariance is not definite to working accuracy")
        root = _inverse(factor)
        return cls(law, factor, log_det, root.T @ root)

    def condition(self, D: np.ndarray, pattern: Pattern) -> tuple[np.ndarray, np.ndarray, float]:
        """Expectation of what rows of a pattern lack, given what they have.

        Parameters
        ----------
        D : (rows, seen) observed cells minus their means

        Returns
        -------
        missing cells minus their means (rows, gaps), their covariance (gaps, gaps), log det Sigma_oo
        """
        seen, gaps = pattern.seen, pattern.gaps
        if len(gaps) <= len(seen):
            factor, log_det = _factor(self.precision[gaps[:, None], gaps])
            root = _inverse(factor)
            spread = root.T @ root
            return -(D @ self.precision[seen[:, None], gaps]) @ spread, spread, self.log_det + log_det
        covariance = self.law.covariance
        factor, log_det = _factor(covariance[seen[:, None], seen])
        root = _inverse(factor)
        across = root @ covariance[seen[:, None], gaps]
        return (D @ root.T) @ across, covariance[gaps[:, None], gaps] - across.T @ across, log_det


def _factor(A: np.ndarray) -> tuple[np.ndarray, float]:
    """Lower Cholesky factor and log determinant; LAPACK as it is, since a pass makes thousands of small ones."""
    factor, info = dpotrf(A.T, lower=1, clean=1)
    if info:
        raise LinAlgError("the matrix is not positive definite")
    return factor, 2.0 * float(np.log(factor.diagonal()).sum())


def _inverse(factor: np.ndarray) -> np.ndarray:
    """Inverse of a lower Cholesky factor, whose diagonal is positive."""
    return dtrtri(factor, lower=1)[0]


def _expect(problem: Problem, law: NormalLaw) -> tuple[float, NormalLaw]:
    """F at a law, and the law that a step of EM makes of it."""
    known = _Factored.of(law)
    D = problem.Z - law.mean
    spread = problem.ridge * np.eye(len(law.mean))
    value = problem.ridge * np.trace(known.precision)
    for pattern in problem.patterns:
        share, log_det = float(problem.share[pattern.rows].sum()), known.log_det
        if len(pattern.gaps):
            rows, gaps = pattern.rows[:, None], pattern.gaps
            D[rows, gaps], C, log_det = known.condition(D[rows, pattern.seen], pattern)
            spread[gaps[:, None], gaps] += share * C
        value += share * (log_det + len(pattern.seen) * np.log(2.0 * np.pi))
    # the form in the observed cells is that in the filled row, which the filling minimises
    white = solve_triangular(known.factor, D.T, lower=True, check_finite=False)
    value += problem.share @ np.einsum("ji,ji->i", white, white)
    shift = problem.share @ D
    D -= shift
    covariance = (problem.share[:, None] * D).T @ D + spread
    return 0.5 * float(value), NormalLaw(law.mean + shift, 0.5 * (covariance + covariance.T))


def objective(problem: Problem, law: NormalLaw) -> float:
    """F at a law of the columns of the problem."""
    return _expect(problem, law)[0]


def violation(law: NormalLaw, following: NormalLaw) -> float:
    """Largest change from a law to the one that EM makes of it, in units of standard deviations; 0 where stationary."""
    sd = np.sqrt(np.diag(law.covariance))
    moved = np.abs(following.mean - law.mean) / sd
    turned = np.abs(following.covariance - law.covariance) / np.outer(sd, sd)
    return float(max(moved.max(), turned.max()))


def iterates(problem: Problem, start: NormalLaw | None = None) -> Iterator[Iterate[NormalLaw]]:
    """Steps of EM on the columns of the problem; F never rises."""
    law = problem.start() if start is None else start
    while True:
        try:
            value, following = _expect(problem, law)
        except LinAlgError as error:
            raise ValueError(
                f"ridge={problem.ridge!r} leaves a covariance that is singular in floating point: raise ridge"
            ) from error
        yield Iterate(law, value, violation(law, following))
        law = following


def fit_gaussian(
    Z: np.ndarray,  # (n, d) rows, NaN for missing cells; of similar scale, as one ridge serves all columns
    weight: np.ndarray,  # (n,) at least 0; only ratios matter
    *,
    ridge: float = 1e-2,  # weight of the penalty, positive
    max_iter: int = 30,
    tol: float = 1e-4,  # largest change, in standard deviations, at which the fit counts as converged
    start: NormalLaw | None = None,  # law of the d columns; None: means and variances of the observed cells
) -> Solution[NormalLaw]:
    """Fit mean and covariance to rows with missing cells, minimising F by EM.

    Notes
    -----
    The law has d columns; those that no row of positive weight has are standard and independent, and the objective
    leaves them out.
    """
    problem = Problem.of_rows(Z, weight, ridge)
    first = None if start is None else start.take(problem.columns)
    solution = run(iterates(problem, first), tol=tol, max_iter=max_iter)
    return replace(solution, state=solution.state.among(problem.columns, Z.shape[1]))


def conditional_means(Z: np.ndarray, law: NormalLaw) -> np.ndarray:
    """Fill the missing cells (NaN) of rows (n, d) with their expectation given the observed cells of the row.

    Observed cells are returned as they are; rows with nothing observed become the mean.
    """
    filled = np.array(Z, dtype=float)
    known = _Factored.of(law)
    for pattern in find_patterns(np.isnan(filled)):
        if not len(pattern.seen):
            filled[pattern.rows] = law.mean
        elif len(pattern.gaps):
            rows = pattern.rows[:, None]
            expected, _, _ = known.condition(filled[rows, pattern.seen] - law.mean[pattern.seen], pattern)
            filled[rows, pattern.gaps] = law.mean[pattern.gaps] + expected
    return filled


# ---------------------------------------------------------------------- the estimator


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
    EM moves fast at first and slowly later, and filled cells converge long before the covariance does: to end at
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
        bad = ~np.isnan(X) & ~(np.abs(Z) <= MAX_ENCODED)
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
