"""Probabilities from decision values, monotone, learned on rows the model had not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.utils.parallel import Parallel, delayed

from tamis.codec import stored
from tamis.errors import warn
from tamis.optim.losses import Logistic, fit_logistic
from tamis.parallel import blas_threads
from tamis.progress import tracked
from tamis.table.rows import Rows

if TYPE_CHECKING:
    from tamis.base.model import Model

FLAT = 1e-6  # slope per standard deviation of the decisions, up to which they do not separate the classes
ROUNDING = 1e-9  # offset in log-odds that is none
STEEPEST = 7.0  # modulus of the logarithm of the slope of a softmax, per standard deviation of the decisions
Split = tuple[Rows, Rows]


@stored
@dataclass(frozen=True)
class Calibrator:
    """Probabilities ``1 / (1 + exp(-(slope f + offset)))`` for one output, ``softmax(slope f)`` for several.

    The slope is never negative, so that a larger decision value never means a smaller probability; for
    several classes the most probable class is the one with the largest decision value. With a slope of zero the
    calibration has failed: decisions on held-out rows do not rise with the frequency of the class. Probabilities are
    then the frequencies of the classes (equal ones for more than two), and decisions stay as they are.
    """

    slope: float
    offset: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether probabilities do not depend on the decision."""
        return self.slope == 0.0

    @property
    def shift(self) -> float:
        """What to add to decisions so that zero stands at probability one half."""
        return self.offset / self.slope if self.slope > 0 else 0.0

    def shifted(self, shift: float) -> Calibrator:
        """The same probabilities for decisions to which `shift` has been added."""
        return replace(self, offset=self.offset - self.slope * shift)

    def negated(self) -> Calibrator:
        """Probabilities of the other class, for decisions of the opposite sign."""
        return replace(self, offset=-self.offset)

    @classmethod
    def fit(
        cls,
        decision: np.ndarray,
        targets: np.ndarray,
        weight: np.ndarray,  # (n,) weights, of which only the ratios matter
        n_rows: float | None = None,  # how many rows of the input there are, if some were merged; default n
        *,
        # whether zero is where the method itself would decide for these weights; see `_fit_sigmoid`
        placed: bool = False,
        # whether the intercept of the model will follow the offset; then no offset makes labels worse
        moves_labels: bool = True,
    ) -> Calibrator:
        """Fit to held-out decisions (n, q) and targets (n, q) in {-1, +1}."""
        n_rows = len(decision) if n_rows is None else n_rows
        if decision.shape[1] == 1:
            return cls(
                *_fit_sigmoid(decision[:, 0], targets[:, 0], weight * (n_rows / weight.sum()), placed, moves_labels)
            )
        return cls(_fit_softmax(decision, np.argmax(targets, axis=1), weight))

    def probabilities(self, decision: np.ndarray) -> np.ndarray:
        """Class probabilities (n, classes), rows adding up to one."""
        if decision.shape[1] == 1:
            up = expit(self.slope * decision[:, 0] + self.offset)
            return np.column_stack([1.0 - up, up])
        return softmax(self.slope * decision, axis=1)

    def losses(self, decision: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Log-loss of each row, whose class is ``codes[i]``."""
        if decision.shape[1] == 1:
            return Logistic().value(self.slope * decision[:, 0] + self.offset, np.where(codes == 1, 1.0, -1.0))
        return -log_softmax(self.slope * decision, axis=1)[np.arange(len(codes)), codes]


def _fit_softmax(decision: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> float:
    """The slope of largest likelihood, at most `exp(STEEPEST)` over the spread of decisions; zero if it is flat."""
    spread = float(np.std(decision)) or 1.0

    def loss(log_slope: float) -> float:
        return float(weight @ Calibrator(np.exp(log_slope) / spread).losses(decision, codes))

    found = minimize_scalar(loss, bounds=(-STEEPEST, STEEPEST), method="bounded")
    flat = float(weight @ Calibrator(0.0).losses(decision, codes))
    return float(np.exp(found.x) / spread) if found.fun < flat else 0.0


def _fit_sigmoid(
    f: np.ndarray, y: np.ndarray, weight: np.ndarray, placed: bool, moves_labels: bool
) -> tuple[float, float]:
    """Slope and offset of largest likelihood, labels smoothed by one pseudo-count per class.

    `weight` (n,) adds up to the number of rows. Smoothing keeps the slope finite on separable decisions.

    The offset is zero, and the method's own intercept stands, where the offset is no larger than rounding, where it
    `moves_labels` and gives more of these rows the wrong one, and, if zero is `placed`, unless the offset raises the
    log-likelihood by more than half the logarithm of the number of rows, the price of a parameter in [Schwarz1978]: on
    few rows it is mostly noise, which costs more right answers than it brings.

    A slope that is flat or negative is given as zero, and the offset is then the log-odds of the classes.
    """
    up, down = weight[y > 0].sum(), weight[y < 0].sum()
    sure = np.where(y > 0, (up + 1.0) / (up + 2.0), (down + 1.0) / (down + 2.0))
    spread = float(np.sqrt(np.average((f - np.average(f, weights=weight)) ** 2, weights=weight))) or 1.0
    design = np.column_stack([np.r_[f, f] / spread, np.ones(2 * len(f))])
    labels, weights = np.r_[y, -y], np.r_[weight * sure, weight * (1.0 - sure)]
    slope, offset = fit_logistic(design, labels, weights, np.array([1e-6, 0.0]))
    (alone,) = fit_logistic(design[:, :1], labels, weights, np.array([1e-6]))
    if slope > FLAT and alone > FLAT:
        losses = [weights @ np.logaddexp(0.0, -labels * (design @ pair)) for pair in ((slope, offset), (alone, 0.0))]
        dear = placed and losses[1] - losses[0] <= 0.5 * np.log(up + down)
        if dear or abs(offset) <= ROUNDING or (moves_labels and _worse(f, y, weight, offset * spread / slope)):
            slope, offset = alone, 0.0
    if slope <= FLAT or (moves_labels and offset and _worse(f, y, weight, offset * spread / slope)):
        return 0.0, float(np.log((up + 1.0) / (down + 1.0)))
    return float(slope / spread), float(offset)


def _worse(f: np.ndarray, y: np.ndarray, weight: np.ndarray, shift: float) -> bool:
    """Whether decisions that are moved by `shift` give labels that are wrong more often, in weight."""
    before, after = (weight @ ((f + by >= 0) != (y > 0)) for by in (0.0, shift))
    return bool(after > before + ROUNDING * weight.sum())


@dataclass(frozen=True)
class Tests:
    """The test rows of all folds, one after another; merged, they stand for `n_rows` rows of the input.

    With `placed` zero is where the method itself decides, as machines with a margin do: then held-out rows
    move it only on clear evidence (see `calibration`).
    """

    codes: np.ndarray
    targets: np.ndarray
    weight: np.ndarray
    mass: np.ndarray
    fold: np.ndarray
    n_rows: int
    placed: bool = False

    @classmethod
    def of(cls, splits: Sequence[Split], *, placed: bool = False) -> Tests:
        tests = [test for _, test in splits]
        return cls(
            np.concatenate([test.codes for test in tests]),
            np.concatenate([test.targets for test in tests]),
            np.concatenate([test.weight for test in tests]),
            np.concatenate([test.mass for test in tests]),
            np.repeat(np.arange(len(tests)), [len(test) for test in tests]),
            sum(int(test.counts.sum()) for test in tests),
            placed,
        )

    @property
    def even(self) -> bool:
        """Whether there are no class weights."""
        return np.array_equal(self.weight, self.mass)

    def calibrator(self, decision: np.ndarray) -> Calibrator:
        """Probabilities in the population, fitted to held-out decisions."""
        placed = self.placed and self.even
        return Calibrator.fit(decision, self.targets, self.mass, self.n_rows, placed=placed, moves_labels=self.even)

    def shift(self, decision: np.ndarray) -> float:
        """What moves the boundary of held-out decisions to probability one half, class weights included."""
        return Calibrator.fit(decision, self.targets, self.weight, self.n_rows, placed=self.placed).shift

    def fitted(self, decision: np.ndarray) -> tuple[Calibrator, float]:
        """`calibrator` and `shift`, from one fit where class weights do not set them apart.

        Nothing is moved where the calibration has failed.
        """
        calibrator = self.calibrator(decision)
        return calibrator, calibrator.shift if self.even or calibrator.failed else self.shift(decision)


def each_fold(
    function: Callable, splits: Sequence[tuple[Any, Any]], n_jobs: int | None, what: str = "calibrating"
) -> list:
    """``function(train, test)`` for every fold, in `n_jobs` processes, one BLAS thread each."""
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    parts = parallel(delayed(_one_thread)(function, *split) for split in splits)
    return list(tracked(parts, what, len(splits)))


def _one_thread(function: Callable, train: Any, test: Any) -> Any:
    with blas_threads(1):
        return function(train, test)


def calibrated(model: Model, decision: np.ndarray, tests: Tests) -> tuple[Model, Calibrator]:
    """Move the intercept so that zero is at probability one half of held-out decisions; calibrate."""
    calibrator, shift = tests.fitted(decision)
    warn_flat(calibrator)
    return model.shifted(shift), calibrator.shifted(shift)


def warn_flat(calibrator: Calibrator) -> None:
    """Warn that probabilities do not depend on the rows."""
    if calibrator.failed:
        warn(
            "calibration failed: on held-out rows, higher decision values do not go with the class more often. The "
            "model may be no better than guessing. Probabilities are the same for every row, and labels are those of "
            "the decision values as fitted; give more rows or features, or other parameters"
        )


def warn_in_sample() -> None:
    """Warn that probabilities rest on training rows."""
    warn(
        "nothing can be held out, because the smallest class has one row (or group) or the statistics have "
        "one fold: probabilities are calibrated on training rows and too sure of themselves"
    )
