"""Probabilities from decision values, monotone, learned on rows the model had not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.losses import Logistic
from tamis.optim.logistic import fit_logistic


@dataclass(frozen=True)
class Calibrator:
    """A sigmoid per output: ``p_q = 1 / (1 + exp(-(slope_q f_q + offset_q)))``, slope >= 0."""

    slope: np.ndarray
    offset: np.ndarray

    @classmethod
    def fit(cls, decision: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> Calibrator:
        """Fit to out-of-fold decisions (n, q) and targets (n, q) in {-1, +1}.

        Labels are smoothed towards one half by one pseudo-count per class, which keeps the slope
        finite on separable decisions.
        """
        pairs = [_fit_sigmoid(f, t, weight) for f, t in zip(decision.T, targets.T, strict=True)]
        slope, offset = np.array(pairs).T
        return cls(slope, offset)

    def logits(self, decision: np.ndarray) -> np.ndarray:
        return decision * self.slope + self.offset

    def probabilities(self, decision: np.ndarray) -> np.ndarray:
        """Class probabilities (n, classes), rows adding up to one."""
        up = 0.5 * (1.0 + np.tanh(0.5 * self.logits(decision)))
        if up.shape[1] == 1:
            return np.column_stack([1.0 - up[:, 0], up[:, 0]])
        total = up.sum(axis=1, keepdims=True)
        return np.where(total > 0, up / np.where(total > 0, total, 1.0), 1.0 / up.shape[1])


def _fit_sigmoid(f: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    up, down = weight[y > 0].sum(), weight[y < 0].sum()
    sure = np.where(y > 0, (up + 1.0) / (up + 2.0), (down + 1.0) / (down + 2.0))
    spread = float(np.sqrt(np.average((f - np.average(f, weights=weight)) ** 2, weights=weight))) or 1.0
    design = np.column_stack([np.r_[f, f] / spread, np.ones(2 * len(f))])
    labels, weights = np.r_[y, -y], np.r_[weight * sure, weight * (1.0 - sure)]
    slope, offset = fit_logistic(design, labels, weights, np.array([1e-6, 0.0]))
    if slope >= 0:
        return float(slope / spread), float(offset)
    rate = (up + 1.0) / (up + down + 2.0)
    return 0.0, float(np.log(rate / (1.0 - rate)))


def log_loss_rows(decision: np.ndarray, targets: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Log-loss of each row after calibration on these same decisions: two numbers for n rows."""
    calibrator = Calibrator.fit(decision, targets, weight)
    if targets.shape[1] == 1:
        return Logistic().value(calibrator.logits(decision)[:, 0], targets[:, 0])
    chosen = calibrator.probabilities(decision)[np.arange(len(codes)), codes]
    return -np.log(np.maximum(chosen, 1e-12))
