"""What a score means: log-odds of two classes, logarithms of shares of several, or a number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

LEAST_SHARE = 1e-3  # of a class in the scores at which fits start


class Likelihood(ABC):
    """Negative log-likelihood of targets Y (n, c) at scores F (n, c), or (n, B, c) with Y[:, None]."""

    @abstractmethod
    def mean(self, F: np.ndarray) -> np.ndarray:
        """Expected targets."""

    @abstractmethod
    def curvature(self, P: np.ndarray) -> np.ndarray:
        """Second derivatives of the loss in each score, at expected targets P."""

    def bend(self, P: np.ndarray, U: np.ndarray) -> np.ndarray:
        """The second derivative of the loss times a change U (n, c) of the scores."""
        return self.curvature(P) * U

    @abstractmethod
    def losses(self, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Loss of each row, without the last axis."""

    @abstractmethod
    def start(self, Y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Constant scores (B, c) for weights (n, B)."""

    def gradient(self, P: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Minus the derivative of the loss in each score."""
        return Y - P


class Binary(Likelihood):
    """Two classes, one score: the log-odds of the second."""

    def mean(self, F: np.ndarray) -> np.ndarray:
        return expit(F)

    def curvature(self, P: np.ndarray) -> np.ndarray:
        return P * (1.0 - P)

    def losses(self, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return (np.logaddexp(0.0, F) - Y * F)[..., 0]

    def start(self, Y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        share = np.clip(_means(Y, weight), LEAST_SHARE, 1 - LEAST_SHARE)
        return np.log(share / (1 - share))


class Multinomial(Likelihood):
    """Several classes, a score for each, probabilities their softmax."""

    def bend(self, P: np.ndarray, U: np.ndarray) -> np.ndarray:
        return P * (U - np.einsum("nc,nc->n", P, U)[:, None])

    def mean(self, F: np.ndarray) -> np.ndarray:
        odds = np.exp(F - _largest(F)[..., None])
        odds /= np.einsum("...c->...", odds)[..., None]
        return odds

    def curvature(self, P: np.ndarray) -> np.ndarray:
        return P * (1.0 - P)

    def losses(self, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        largest = _largest(F)
        odds = np.exp(F - largest[..., None])
        return (
            largest + np.log(np.einsum("...c->...", odds)) - np.einsum("...c,...c->...", F, np.broadcast_to(Y, F.shape))
        )

    def start(self, Y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.log(np.clip(_means(Y, weight), LEAST_SHARE, 1 - LEAST_SHARE))


@dataclass(frozen=True)
class Normal(Likelihood):
    """A number with normal errors of a known variance."""

    variance: float

    def mean(self, F: np.ndarray) -> np.ndarray:
        return F

    def curvature(self, P: np.ndarray) -> np.ndarray:
        return np.full_like(P, 1.0 / self.variance)

    def losses(self, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return (0.5 / self.variance) * ((Y - F) ** 2)[..., 0]

    def start(self, Y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return _means(Y, weight)

    def gradient(self, P: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return (Y - P) / self.variance


def _largest(F: np.ndarray) -> np.ndarray:
    """The largest score; a loop over classes is quicker than a reduction over a short last axis."""
    out = F[..., 0].copy()
    for k in range(1, F.shape[-1]):
        np.maximum(out, F[..., k], out=out)
    return out


def _means(Y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return (weight.T @ Y) / weight.sum(axis=0)[:, None]
