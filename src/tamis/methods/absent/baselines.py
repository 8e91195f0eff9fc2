"""What absent multiple kernel learning is compared with: mean filling, fusion of classifiers, MMAF.

Mean filling replaces an absent phi_p by the mean of the observed ones. With ``s`` the presence (n,) of a channel and
``mean = w*s / sum(w*s)`` the weights of its rows in that mean,

    K_filled = M K M',   M = diag(s) + (1 - s) mean'

Fusion trains a machine for each channel on the rows that have it; a row is scored by the mean over the channels that
it has.

MMAF [Chechik2008] divides the margin of a row by the norm of what it sees of the normal vector: in turns

    min over w, b of 1/2 |w|^2 + sum_i cost_i max(0, 1 - y_i f(x_i) / c_i),   c_i = |w restricted to i| / |w|

on the unweighted sum of the kernels, from c = 1. With ``beta = alpha / c`` the dual has the matrix K and asks for
margins c at cost ``cost / c``.

Departures: a row without any channel has no c, and keeps one. Fusion leaves a channel whose rows are all of one class
out of the mean, and gives a row that has no other the class of larger cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from tamis.arrays import Array
from tamis.base.expansion import KernelExpansion
from tamis.codec import stored
from tamis.kernels.stacks.base import DenseStack, KernelStack
from tamis.optim.driver import Callback, Iterate, Solution, Status, run
from tamis.optim.svm import Machine, solve_svm

ROUNDS = 5  # of MMAF
FLOOR = 1e-3  # least c


# ---------------------------------------------------------------------- mean filling


def mean_weights(present: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The weights (L, n) of the rows in the mean of each channel; zero for a channel that nobody has."""
    share = present.T * weight
    total = share.sum(axis=1, keepdims=True)
    return np.divide(share, total, out=np.zeros_like(share), where=total > 0)


def filled_stack(stack: KernelStack, present: np.ndarray, means: np.ndarray) -> DenseStack:
    """The kernels ``M K M'`` between rows whose absent channels are filled with the mean."""
    values = np.empty(stack.shape)
    for k, (here, mean) in enumerate(zip(present.T, means, strict=True)):
        K = stack.one(k)
        half = K * here[:, None] + np.outer(~here, mean @ K)
        values[k] = half * here + np.outer(half @ mean, ~here)
    return DenseStack(values)


@stored
@dataclass(frozen=True)
class FilledExpansion(KernelExpansion):
    """A `KernelExpansion` in which an absent channel has the kernel values `fills` (L, k) of its mean."""

    fills: np.ndarray

    def _decision(self, Z: np.ndarray) -> np.ndarray:
        return self.intercept + np.einsum("lrk,qkl->rq", self.kernel_values(Z), self.coef)

    def kernel_values(self, Z: Array) -> Array:
        values = np.array(super().kernel_values(Z))
        for k, here in enumerate(self.bank.presence(Z).T):
            values[k, ~here] = self.fills[k]
        return values


# ---------------------------------------------------------------------- fusion


@dataclass(frozen=True)
class Fused:
    """A machine for each channel: coefficients (n, L), intercepts (L,), and whether all converged."""

    dual_coef: np.ndarray
    intercepts: np.ndarray
    value: float
    converged: bool


def fuse(stack: KernelStack, y: np.ndarray, cost: np.ndarray, present: np.ndarray, *, tol: float = 1e-3) -> Fused:
    """Train a machine for each channel on the rows that have it."""
    n, L = present.shape
    dual_coef, intercepts, machines = np.zeros((n, L)), np.zeros(L), []
    for k in range(L):
        rows = np.flatnonzero(present[:, k])
        if len(np.unique(y[rows])) == 2:
            K = stack.take(rows=rows, cols=rows, kernels=np.array([k])).one(0)
            machine = solve_svm(K, y[rows], cost[rows], tol=tol)
            dual_coef[rows, k], intercepts[k] = machine.dual_coef, machine.intercept
            machines.append(machine)
    value = sum(machine.value for machine in machines)
    return Fused(dual_coef, intercepts, value, all(machine.converged for machine in machines))


@stored
@dataclass(frozen=True)
class FusedExpansion(KernelExpansion):
    """The mean, over the channels that a row has, of the decisions of one machine for each.

    f_q = intercept_q + mean over the channels l with instances for q of (K_l coef_ql + offsets_ql)

    where `offsets` (q, L) are the intercepts of the machines less that of the whole, which a row without channels
    gets. They are shared by the instances of each machine, in equal parts.
    """

    offsets: np.ndarray

    row_dependent: ClassVar[bool] = True

    def _decision(self, Z: np.ndarray) -> np.ndarray:
        total = self.bank.presence(Z) @ self.offsets.T
        for k, channel in enumerate(self.bank.channels):
            total += channel(Z, self.instances) @ self.coef[:, :, k].T
        return self.intercept + total / self._counts(Z)

    def _counts(self, Z: Array) -> np.ndarray:
        """How many machines speak for each output about each row (rows, q), at least one."""
        return np.maximum(1, self.bank.presence(Z).astype(int) @ self.coef.any(axis=1).T)

    def _contributions(self, Z: np.ndarray) -> np.ndarray:
        present = self.bank.presence(Z)
        own = self.coef != 0
        shares = own * np.divide(self.offsets, np.maximum(1, own.sum(axis=1)))[:, None]
        parts = super()._contributions(Z) + present[:, None, None] * shares
        return parts / self._counts(Z)[:, :, None, None]

    def negated(self) -> Self:
        return replace(super().negated(), offsets=-self.offsets)


# ---------------------------------------------------------------------- MMAF


def max_margin_iterates(
    stack: KernelStack, y: np.ndarray, cost: np.ndarray, present: np.ndarray, tol: float
) -> Iterator[Iterate[Machine]]:
    """The rounds of MMAF; the violation is the largest change of c that would follow."""
    K = stack.combine(np.ones(stack.shape[0])).dense()
    seen = np.ones(len(y))
    known: np.ndarray | None = None
    for turn in range(ROUNDS):
        machine = solve_svm(K, y, cost / seen, tol=tol, start=known, margins=seen if turn else None)
        known = machine.dual_coef
        energies = np.maximum(stack.quad(known), 0.0)
        new = seen_norms(energies, present)
        change = float(np.max(np.abs(new - seen)))
        done = Status.ROUNDS if turn == ROUNDS - 1 else None
        yield Iterate(machine, machine.value, change, done if machine.converged else Status.STALLED)
        seen = new


def seen_norms(energies: np.ndarray, present: np.ndarray) -> np.ndarray:
    """c (n,): the norm of what each row sees of the normal vector, over its norm; energies (L,) are squared norms."""
    total = float(energies.sum())
    if total <= 0:
        return np.ones(len(present))
    c = np.maximum(np.sqrt(present @ energies / total), FLOOR)
    return np.where(present.any(axis=1), c, 1.0)


def solve_max_margin(
    stack: KernelStack,
    y: np.ndarray,
    cost: np.ndarray,
    present: np.ndarray,
    *,
    tol: float = 1e-3,
    callback: Callback | None = None,
) -> Solution[Machine]:
    """MMAF on the unweighted sum of the kernels."""
    return run(max_margin_iterates(stack, y, cost, present, tol), tol=tol, max_iter=ROUNDS, callback=callback)
