"""Every registered estimator, fitted in a blink to a table of numbers, categories and missing cells."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from tamis import all_estimators
from tamis.kernels import portable
from tamis.kernels.base import Gaussian, Kernel, Laplacian

SMALL = {"max_instances": 4, "max_features": 3}


class Peak(Kernel):
    """``tanh(exp(-|s - t|))``, a kernel that the package does not know, with its values and its portable form."""

    def __call__(self, S, T):
        return np.tanh(Laplacian(1.0)(S, T))

    def portable(self, columns):
        return portable.function("tanh", Laplacian(1.0).portable(columns))


@dataclass(frozen=True)
class Widths(Kernel):
    """The mean of Gaussians of several widths, a sum of functions of one distance in its portable form."""

    bandwidths: tuple
    mismatch: tuple = ()

    fills_missing = True

    def __call__(self, S, T):
        return sum(Gaussian(width, self.mismatch)(S, T) for width in self.bandwidths) / len(self.bandwidths)

    def portable(self, columns):
        widest = max(self.bandwidths)
        squares = portable.distance(columns, (0.5 / widest**2,) * len(columns), self.mismatch)
        parts = tuple(portable.decay((widest / width) ** 2, squares) for width in self.bandwidths)
        return portable.times(portable.Expression("sum", (), parts), portable.constant(1.0 / len(parts)))


@dataclass(frozen=True)
class Product(Kernel):
    """The product of kernels of one column each, zero for a row that lacks one of the columns."""

    kernels: tuple

    def __call__(self, S, T):
        return np.prod([kernel(S[:, [c]], T[:, [c]]) for c, kernel in enumerate(self.kernels)], axis=0)

    def presence(self, S):
        return np.all([kernel.presence(S[:, [c]]) for c, kernel in enumerate(self.kernels)], axis=0)

    def portable(self, columns):
        return portable.times(*(one.portable((c,)) for one, c in zip(self.kernels, columns, strict=True)))


def quick(name, **more):
    cls = all_estimators()[name]
    grids = {"bandwidths": (1.0,), "alphas": (0.01,), "lambda2s": (0.1, 0.4), "thetas": (10.0,)}
    grids |= {"prototype_sizes": (2, 3), "kappas": (0.1,), "code_sizes": (None,)}
    grids |= {"pattern_weight": "share", "pattern_weights": ("share",), "programs": ("amkl",), "Cs": (1.0,)}
    params = {**SMALL, **grids, "cv": 2, "calibration": 2, "max_iter": 5, "rounds": 1, **more}
    return cls(**{k: v for k, v in params.items() if k in cls().get_params()})


def mixed(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"u": rng.normal(size=n), "v": rng.normal(size=n), "c": pd.Categorical(rng.choice(list("abc"), n))}
    )
    X.loc[::7, "u"] = np.nan
    return X, np.where(X["v"] + (X["c"] == "a") + 0.1 * rng.normal(size=n) > 0.3, "yes", "no")


@cache
def fitted(name):
    """The fit that several tests look at and none changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return quick(name).fit(*rows_for(name))


def rows_for(name, n=60):
    """Rows with what an estimator predicts: classes or numbers."""
    X, y = mixed(n)
    return X, y if name in all_estimators("classifier") else X["v"].to_numpy()


def rows_of(estimator, X, y, weight=None, groups=None):
    """The rows that an estimator would be fitted to."""
    return estimator._rows(estimator._read_training(X)[0], y, weight, groups)


def same(one, two, X):
    for method in ("decision_function", "predict", "predict_proba"):
        if hasattr(one, method):
            np.testing.assert_array_equal(getattr(one, method)(X), getattr(two, method)(X))
    a, b = one.explain(X), two.explain(X)
    for part in ("by_part", "by_instance", "decision"):
        np.testing.assert_array_equal(getattr(a, part), getattr(b, part))
    assert a.parts == b.parts and a.part_names == b.part_names and a.instances == b.instances
