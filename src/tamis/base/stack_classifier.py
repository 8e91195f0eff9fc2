"""StackClassifier: classifiers that end in one coefficient per row and one weight per kernel.

    f(x) = sum_l weights[l] sum_i dual_coef[i] k_l(x_i, x) + intercept

A method brings ``_solve``, which sees kernels between training rows, labels in {-1, +1} and the cost of each row. More
than two classes are one against the rest.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tamis.base.classifier import ReadableClassifier
from tamis.base.kernel_model import Coefficients, KernelModel
from tamis.base.kernel_space import KernelSpace, PreparedRows
from tamis.base.memory import MemoryEstimate, Size, format_bytes
from tamis.base.model import FitContext
from tamis.errors import warn
from tamis.kernels.bank import Channel, KernelBank, check_positive
from tamis.kernels.precomputed import lacking_rows
from tamis.kernels.recipes import Recipe, bandwidths
from tamis.kernels.stacks.base import KernelStack
from tamis.kernels.stacks.factored import LandmarkError
from tamis.optim.driver import Solution
from tamis.table.rows import Rows, check_cost

NAMED_KERNELS = 3  # in a summary
LOST_VARIANCE = 0.1  # mean share of a kernel's variance that landmarks may leave out without a warning
NOTICEABLE_WEIGHT = 0.1  # from which on the lost variance of a kernel is worth a warning
TRIED_LANDMARKS = (1000, 300, 100, 30)  # numbers that an error message may propose
C = TypeVar("C", bound=Any)


@dataclass(frozen=True)
class Task:
    """One problem of two classes.

    Attributes
    ----------
    stack : kernels (L, n, n)
    y : (n,) labels in {-1, +1}
    cost : (n,) of each row
    rough : whether a low accuracy is enough
    incidence : (L, columns) which columns are behind each kernel; None where each has its own one
    present : (n, L) which rows have which kernel; None: all have all
    """

    stack: KernelStack
    y: np.ndarray
    cost: np.ndarray
    rough: bool
    incidence: np.ndarray | None = None
    present: Any = None


@dataclass(frozen=True)
class Answer:
    """The machine of a task, how the run went, and whatever else the method has to report."""

    dual_coef: np.ndarray
    weights: np.ndarray
    intercept: float
    solution: Solution
    details: Any = None


class StackClassifier(ReadableClassifier):
    """Base of the classifiers on a learned combination of kernels."""

    _has_margin = True
    _recipe: ClassVar[Recipe] = bandwidths()
    _form: ClassVar[str] = "auto"
    _complete: ClassVar[bool] = False  # whether a row with a missing cell in a kernel lacks it
    _squares: ClassVar[float] = 3.0  # matrices between all rows that the solver holds at its peak
    _copies: ClassVar[float] = 2.5  # of the factors that it holds, where there are landmarks

    tol: float  # parameters, set by the constructors of those that have them
    C: Any = None
    device: str | None = None
    landmarks: int | None = None

    landmark_error_: LandmarkError
    n_kernels_: int
    n_items_: int

    @abstractmethod
    def _solve(self, task: Task) -> Answer:
        """Solve one problem of two classes."""

    def _report(self, answers: Sequence[Answer], prepared: PreparedRows) -> dict[str, Any]:
        """The learned attributes that only this method has."""
        return {}

    def check_parameters(self) -> None:
        """Raise ValueError for parameters that no data could make right; `fit` does this too."""
        super().check_parameters()
        if self.landmarks is not None and self.device is not None:
            raise ValueError(
                f"landmarks={self.landmarks!r} and device={self.device!r} do not go together: through landmarks "
                "there are no matrices between all rows for a device to hold; leave one of them out"
            )

    # ------------------------------------------------------------------ fitting

    def _space(self) -> KernelSpace:
        return KernelSpace(
            self._recipe,
            self._form,
            self.scaling,
            self.missing,
            device=self.device,
            landmarks=self.landmarks,
            complete=self._complete,
        )

    def _learn(self, rows: Rows, context: FitContext) -> tuple[KernelModel, Mapping[str, Any]]:
        prepared = self._space().prepare(rows, context.kernel, context.seed)
        if not context.rough:
            self._check_kernels(prepared, context.seed)
        answers = [self._solve(task) for task in self._tasks(prepared, context.rough)]
        model = self._assemble(prepared, answers)
        return (model, {}) if context.rough else self._describe(model, prepared, answers)

    def _describe(
        self, model: KernelModel, prepared: PreparedRows, answers: Sequence[Answer]
    ) -> tuple[KernelModel, dict[str, Any]]:
        """The model with the factors of its coefficients, and the learned attributes of the method."""
        attributes = {**self._report(answers, prepared), **sizes_of(prepared.bank)}
        dual, weights = factors_of(model.expansion.coef)
        if prepared.stack.error is not None:
            weights = normalised(self._shares(prepared, answers)[:, model.kernels])
            error = prepared.stack.error.take(model.kernels)
            warn_lost_variance(type(self).__name__, error, weights, model.expansion.bank.names)
            attributes["landmark_error_"] = error
        return replace(model, dual_coef=dual, kernel_weights=weights), attributes

    def _check_kernels(self, prepared: PreparedRows, seed: int) -> None:
        """Refuse kernels that the method cannot work with."""
        check_positive(prepared.bank, prepared.pool.Z, seed)

    def _costs(self, rows: Rows) -> np.ndarray:
        """What each row (n,) counts in the loss."""
        return check_cost(self.C, rows.absolute_weight)

    def _tasks(self, prepared: PreparedRows, rough: bool) -> list[Task]:
        """The problems to solve, one for each output."""
        rows = prepared.encoded.rows
        cost = self._costs(rows)
        incidence = None if prepared.bank.positions else prepared.incidence
        return [Task(prepared.stack, y[:, 0], cost, rough, incidence) for y in rows.problems(shared=False)]

    def _assemble(self, prepared: PreparedRows, answers: Sequence[Answer]) -> KernelModel:
        """The model of the answers."""
        return model_of(prepared, answers)

    def _shares(self, prepared: PreparedRows, answers: Sequence[Answer]) -> np.ndarray:
        """What the kernels count in each output: (outputs, L)."""
        return np.array([answer.weights for answer in answers])

    # ------------------------------------------------------------------ memory, summary

    def _memory(self, size: Size) -> MemoryEstimate:
        kept = self._kept_bytes(size)
        return {**super()._memory(size), **self._space().memory(size, self._squares, self._copies, kept)}

    def _kept_bytes(self, size: Size) -> float | None:
        """Bytes of kernel values that are held in numpy; None: what the form of the stack keeps."""
        return None

    def _less_memory(self, size: Size, room: float) -> str:
        if "landmarks" not in self.get_params(deep=False):
            return super()._less_memory(size, room)
        if self.landmarks is not None and self.landmarks < size.rows:
            return f"use fewer than landmarks={self.landmarks}"
        needs = {m: sum(clone(self).set_params(landmarks=m)._all_memory(size).values()) for m in TRIED_LANDMARKS}
        m = next((m for m in TRIED_LANDMARKS if needs[m] <= room), None)
        if m is None:
            return "use EM2NOLCClassifier, whose memory does not grow with the rows"
        where = "" if self.device is None else " and device=None"
        return f"use landmarks={m} or so{where}, which takes about {format_bytes(needs[m])}"

    def summary(self) -> dict[str, Any]:
        """Return the choices of the fit in words, {what: value}; empty where there is nothing to report."""
        own = {} if self.C is None else {"cost C": self.C}
        return {**own, **weights_in_words(self), **landmarks_in_words(self), **super().summary()}

    def extended(self, values: Any) -> Self:
        """Return the same classifier for items that its precomputed kernels did not know.

        Parameters
        ----------
        values : (L, n_new, N) kernel values between new items and the N items of the stack
            For all L kernels in the order of the stack; the new items have the positions N, N + 1, ... A row of NaN
            alone is an item that lacks the kernel, and values with items that lack it are ignored.
        """
        return extended(self, values)


def model_of(prepared: PreparedRows, answers: Sequence[Answer]) -> KernelModel:
    """The model of the answers, one for each output."""
    stack = prepared.stack
    if stack.error is not None:
        m = len(prepared.pool)
        tables = [stack.folded(a.weights, a.dual_coef, m) for a in answers]
        blocks = [
            Coefficients(np.arange(m), np.arange(table.shape[1]), table[None], np.array([a.intercept]))
            for table, a in zip(tables, answers, strict=True)
        ]
    else:
        blocks = [Coefficients.rank_one(a.dual_coef, a.weights, a.intercept) for a in answers]
    return prepared.model(blocks, [a.solution for a in answers])


def factors_of(coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """dual_coef (q, k) and weights (q, L), adding up to one, of coefficients that are their products.

    Of other coefficients they are sums over kernels, and shares of the kernels in the moduli.
    """
    return coef.sum(axis=2), normalised(np.abs(coef).sum(axis=1))


def normalised(shares: np.ndarray) -> np.ndarray:
    """Rows divided by their sums; rows of zeros stay."""
    total = shares.sum(axis=1, keepdims=True)
    return shares / np.where(total > 0, total, 1.0)


def weights_in_words(estimator: Any) -> dict[str, str]:
    """The kernels of largest weight of a fitted estimator, the mean over outputs; nothing if there are none."""
    if not hasattr(estimator, "kernel_weights_") or not len(estimator.kernel_names_):
        return {}
    share = np.atleast_2d(estimator.kernel_weights_).mean(axis=0)
    return {"weights of kernels": largest_weights(estimator.kernel_names_, share)}


def largest_weights(names: np.ndarray, share: np.ndarray) -> str:
    """The kernels of largest weight, in words."""
    top = np.argsort(-share, kind="stable")[:NAMED_KERNELS]
    text = ", ".join(f"{names[k]} ({100 * share[k]:.0f}%)" for k in top)
    return text + (f" and {len(share) - len(top)} more" if len(share) > len(top) else "")


def landmarks_in_words(estimator: Any) -> dict[str, str]:
    """How much of the kernels the landmarks of a fitted estimator lost; nothing if there are none."""
    error = getattr(estimator, "landmark_error_", None)
    if error is None:
        return {}
    worst = float(error.mean.max(initial=0.0))
    return {
        "landmarks": f"{estimator.landmarks} training rows; through them no kernel loses more than {worst:.2g} of its "
        "variance on average"
    }


def warn_lost_variance(name: str, error: LandmarkError, weights: np.ndarray, names: Sequence[str]) -> None:
    """Warn where landmarks do not carry a kernel that matters."""
    lost = np.where(weights.max(axis=0, initial=0.0) >= NOTICEABLE_WEIGHT, error.mean, 0.0)
    worst = int(np.argmax(lost)) if len(lost) else 0
    if len(lost) and lost[worst] > LOST_VARIANCE:
        warn(
            f"{name}: through the landmarks the kernel {names[worst]!r} loses {100 * lost[worst]:.0f}% of its variance "
            "on average over training rows; give more landmarks, or wider kernels"
        )


def sizes_of(bank: KernelBank) -> dict[str, int]:
    """The learned attributes of a classifier on a precomputed stack, of which `extended` needs the size."""
    return {"n_kernels_": len(bank), "n_items_": cast(Any, bank.channels[0].kernel).n_items} if bank.positions else {}


def extended(classifier: C, values: Any) -> C:
    """The same classifier for items that its precomputed kernels did not know; see `StackClassifier.extended`."""
    check_is_fitted(classifier)
    bank = classifier.model_.expansion.bank
    if not bank.positions or not hasattr(classifier, "n_items_"):
        raise ValueError("only a classifier with kernels=precomputed(...) that kept some case can be extended")
    new, n_kernels, n_items = np.asarray(values, dtype=float), classifier.n_kernels_, classifier.n_items_
    if new.ndim != 3 or new.shape[0] != n_kernels or new.shape[2] != n_items:
        raise ValueError(
            f"values has the shape {new.shape}: give ({n_kernels}, n_new, {n_items}), one matrix for "
            "each kernel of the stack, with a row for each new item and a column for each item of the stack"
        )
    kept = [_extended(channel, new[k]) for k, channel in zip(classifier.kernels_, bank.channels, strict=True)]
    other = copy(classifier)
    other.model_ = with_bank(classifier.model_, KernelBank(tuple(kept)))
    return other


def _extended(channel: Channel, values: np.ndarray) -> Channel:
    """A channel with further items, from their values (n_new, N) with all items of the stack."""
    kernel = cast(Any, channel.kernel)
    present = kernel.presence(np.arange(values.shape[1], dtype=float)[:, None])
    lacking, known = lacking_rows(values, present)  # by the values with all items, of which few are held
    held = known[:, kernel.items]
    wrong = np.flatnonzero(~np.isfinite(held).all(axis=1))
    if len(wrong):
        raise ValueError(
            f"values holds NaN or infinite entries, first for kernel {channel.name!r} in row {wrong[0]}: new items "
            "need all their kernel values, or a row of NaN alone if they lack the kernel"
        )
    held[lacking] = np.nan
    return replace(channel, kernel=kernel.extended(held))


def with_bank(model: KernelModel, bank: KernelBank) -> KernelModel:
    """The same model with other kernels."""
    return replace(model, expansion=replace(model.expansion, bank=bank))
