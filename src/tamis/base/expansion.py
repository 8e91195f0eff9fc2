"""Expansion: what every method ends in, and the additive splits of its decision.

f_q(x) = sum_j sum_l coef[q, j, l] k_l(x_j, x) + intercept[q]

In a `KernelExpansion` the coefficients are numbers; where they depend on the row, another class computes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from tamis.arrays import Array, beside, device_of, is_tensor, namespace, to_device
from tamis.codec import stored
from tamis.kernels.bank import KernelBank
from tamis.kernels.stacks.base import DenseStack
from tamis.optim.nqp import solve_nqp
from tamis.parallel import blas_threads

BLOCK_ROWS = 1024  # rows of a block, halved while it takes more than
BLOCK_VALUES = 1 << 20  # numbers
TIED = 1e-12  # scores so close are equal but for rounding
Part = tuple[np.ndarray, np.ndarray]  # instances (m,), and numbers (m, L) of these and the kernels


@dataclass(frozen=True)
class Coefficients:
    """What a method returns: coefficients of pairs (instance, kernel) of a stack."""

    instances: np.ndarray  # (k,) columns of the stack
    kernels: np.ndarray  # (f,) kernels of the stack
    coef: np.ndarray  # (q, k, f)
    intercept: np.ndarray  # (q,)

    @classmethod
    def rank_one(cls, dual_coef: np.ndarray, weights: np.ndarray, intercept: float) -> Coefficients:
        """The pairs of one output, ``dual_coef[i] * weights[l]``, where neither factor is zero."""
        instances, kernels = np.flatnonzero(dual_coef), np.flatnonzero(weights)
        coef = np.outer(dual_coef[instances], weights[kernels])[None]
        return cls(instances, kernels, coef, np.array([intercept]))


@dataclass(frozen=True)
class Expansion(ABC):
    """Decisions as sums over kept instances and kernels, whatever their coefficients depend on."""

    bank: KernelBank  # the kept kernels, on the columns of `instances`
    instances: np.ndarray  # (k, c) encoded kept rows
    intercept: np.ndarray  # (q,)

    row_dependent: ClassVar[bool] = False  # whether the coefficients of a row depend on its kernel values

    @property
    @abstractmethod
    def owned(self) -> np.ndarray:
        """Boolean (q, k): which instances contribute to which output."""

    @property
    def on_devices(self) -> bool:
        """Whether it also decides about tensors, on the device where they are."""
        return False

    def moved(self, device: Any) -> Self:
        """The same with its numbers on a device, in double precision."""
        names = [field.name for field in fields(self) if field.name != "bank"]
        return replace(self, **{name: to_device(getattr(self, name), device, "float64") for name in names})

    def decision(self, Z: Array) -> Array:
        """Decision values (rows, q), the same bits for a row of an array whatever the other rows are."""
        if is_tensor(Z):
            return self.moved(device_of(Z))._decision(Z)
        (decision,) = _in_blocks(lambda block: (self._decision(block),), Z, len(self.instances))
        return decision

    def contributions(self, Z: Array) -> Array:
        """The summands (rows, q, k, L); with the intercept they add up to the decision."""
        if is_tensor(Z):
            return self.moved(device_of(Z))._contributions(Z)
        (parts,) = _in_blocks(lambda block: (self._contributions(block),), Z, self._n_summands)
        return parts

    def split(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Contributions by instance (rows, q, k) and by kernel (rows, q, L)."""
        by_instance, by_kernel = _in_blocks(self._split, Z, self._n_summands)
        return by_instance, by_kernel

    @property
    def _n_summands(self) -> int:
        return len(self.intercept) * len(self.instances) * len(self.bank)

    @abstractmethod
    def _decision(self, Z: np.ndarray) -> np.ndarray:
        """`decision` for one block."""

    @abstractmethod
    def _contributions(self, Z: np.ndarray) -> np.ndarray:
        """`contributions` for one block."""

    def _split(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`split` for one block."""
        parts = self._contributions(Z)
        return parts.sum(axis=3), parts.sum(axis=2)

    @abstractmethod
    def negated(self) -> Self:
        """The expansion of the opposite decision."""

    def kernel_values(self, Z: Array) -> Array:
        """Kernel values (L, rows, k) of encoded rows."""
        if not len(self.bank) or not len(self.instances):
            return beside(np.empty((len(self.bank), len(Z), len(self.instances))), Z)
        if is_tensor(Z):
            return namespace(Z).stack([channel(Z, self.instances) for channel in self.bank.channels])
        stack = DenseStack.evaluate(self.bank.channels, Z, self.instances)
        return stack.values.transpose(0, 2, 1)


def _in_blocks(
    function: Callable[[np.ndarray], tuple[np.ndarray, ...]], Z: np.ndarray, n_values: int
) -> list[np.ndarray]:
    """``function`` of encoded rows, evaluated in blocks that all have the same number of rows.

    Products of matrices sum in an order that depends on their shapes. The last block is therefore filled up with copies
    of its first row, and BLAS uses one thread. `n_values` is how many numbers a row takes; the size of the blocks
    follows from it alone.
    """
    if not len(Z):
        return list(function(Z))
    size = BLOCK_ROWS
    while size > 1 and size * n_values > BLOCK_VALUES:
        size //= 2

    def evaluate(start: int) -> tuple[np.ndarray, ...]:
        block = Z[start : start + size]
        n = len(block)
        if n < size:
            block = block[np.r_[:n, np.zeros(size - n, dtype=int)]]
        return tuple(part[:n] for part in function(block))

    with blas_threads(1):
        parts = [evaluate(start) for start in range(0, len(Z), size)]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


@stored
@dataclass(frozen=True)
class KernelExpansion(Expansion):
    """The same coefficients `coef` (q, k, L) for every row."""

    coef: np.ndarray

    @property
    def owned(self) -> np.ndarray:
        return np.any(self.coef != 0, axis=2)

    @property
    def on_devices(self) -> bool:
        return not self.bank.positions

    def _decision(self, Z: Array) -> Array:
        out = namespace(Z).broadcast_to(self.intercept[None, :], (len(Z), len(self.intercept)))
        for k, channel in enumerate(self.bank.channels):
            out = out + channel(Z, self.instances) @ self.coef[:, :, k].T
        return out

    def _contributions(self, Z: Array) -> Array:
        return self.coef * namespace(Z).permute_dims(self.kernel_values(Z), (1, 2, 0))[:, None]

    def negated(self) -> Self:
        return replace(self, coef=-self.coef, intercept=-self.intercept)

    def restricted(self) -> tuple[Self, np.ndarray, np.ndarray, np.ndarray]:
        """Drop instances, kernels and columns that no coefficient needs.

        Returns the smaller expansion and the kept positions of instances, kernels and columns.
        """
        used = np.any(self.coef != 0, axis=0)
        rows, kernels = np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
        bank, instances, columns = kept_parts(self.bank.take(kernels), self.instances[rows])
        small = replace(
            self, bank=bank, instances=instances, coef=np.ascontiguousarray(self.coef[:, rows][:, :, kernels])
        )
        return small, rows, kernels, columns


def kept_parts(bank: KernelBank, instances: np.ndarray) -> tuple[KernelBank, np.ndarray, np.ndarray]:
    """The bank and the instances without the columns that no kernel stands on, and the columns that remain."""
    bank = bank.narrowed(instances)
    columns = bank.columns
    if len(columns) < instances.shape[1]:
        bank = bank.relabel(columns)
    return bank, np.ascontiguousarray(instances[:, columns]), columns


@dataclass(frozen=True)
class PrototypeExpansion(Expansion):
    """Decisions by prototypes."""

    weights: np.ndarray  # (L,) of the kernels, which have unit diagonal
    prototypes: np.ndarray  # U (k, c)
    votes: np.ndarray  # (q, c) the vote of each prototype for each output

    row_dependent: ClassVar[bool] = True

    @property
    def owned(self) -> np.ndarray:
        return (self.votes != 0).astype(float) @ (self.prototypes != 0).T > 0

    def negated(self) -> Self:
        return replace(self, votes=-self.votes, intercept=-self.intercept)

    @abstractmethod
    def by_prototype(self, similarity: np.ndarray) -> np.ndarray:
        """What each prototype adds to the scores (rows, q, c)."""

    def similarity(self, Z: Array) -> np.ndarray:
        """Combined kernel values (rows, k) of encoded rows with the kept ones."""
        return self.bank.stack(Z, self.instances, form="streaming").combine(self.weights).dense()

    def _decision(self, Z: np.ndarray) -> np.ndarray:
        return self.by_prototype(self.similarity(Z)).sum(axis=2) + self.intercept


@stored
@dataclass(frozen=True)
class CodedExpansion(PrototypeExpansion):
    """Scores from the sparse code g of a row.

    A sample s contributes its vote for an output times its share ``sum_j U_sj g_j`` in the row. As the code of the
    prototypes in use is linear in the kernel values, ``g = gram^-1 U'K(., x)`` there, each share is a sum over kernels.
    """

    gram: np.ndarray  # (c, c) ``U'K U``
    voices: np.ndarray  # (q, k) the vote of a unit of each instance for each output; votes are ``voices U``
    code_size: int  # most prototypes in a code

    @property
    def norms(self) -> np.ndarray:
        """The squared norms (c,) of the prototypes."""
        return np.diag(self.gram)

    @property
    def owned(self) -> np.ndarray:
        return self.voices != 0

    def negated(self) -> Self:
        return replace(super().negated(), voices=-self.voices)

    def codes(self, similarity: np.ndarray) -> np.ndarray:
        """Sparse codes (rows, c) of rows with combined kernel values (rows, k)."""
        return solve_nqp(self.gram, -similarity @ self.prototypes, self.code_size)

    def by_prototype(self, similarity: np.ndarray) -> np.ndarray:
        return self.codes(similarity)[:, None, :] * self.votes

    def _decision(self, Z: np.ndarray) -> np.ndarray:
        return self.codes(self.similarity(Z)) @ self.votes.T + self.intercept

    def _contributions(self, Z: np.ndarray) -> np.ndarray:
        out = np.empty((len(Z), *self.voices.shape, len(self.bank)))
        for row, (used, parts) in enumerate(self._codes_by_kernel(Z)):
            out[row] = self.voices[:, :, None] * (self.prototypes[:, used] @ parts)
        return out

    def _split(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_instance = (self.codes(self.similarity(Z)) @ self.prototypes.T)[:, None] * self.voices
        by_kernel = np.array([self.votes[:, used] @ parts for used, parts in self._codes_by_kernel(Z)])
        return by_instance, by_kernel.reshape(len(Z), len(self.voices), len(self.bank))

    def _codes_by_kernel(self, Z: Array) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each row the prototypes (m,) in its code, and what each kernel adds to the code (m, L)."""
        codes, values = self.codes(self.similarity(Z)), self.kernel_values(Z)
        for code, own in zip(codes, values.transpose(1, 2, 0), strict=True):
            used = np.flatnonzero(code)
            images = self.prototypes[:, used].T @ (own * self.weights)
            yield used, np.linalg.solve(self.gram[np.ix_(used, used)], images)


@stored
@dataclass(frozen=True)
class NearestExpansion(PrototypeExpansion):
    """Scores from the nearest prototype of each class; votes are one for the class (minus one against it) or zero.

    The norm u'K u in a score is shared out over the rows and kernels of the prototype, so that all adds up with
    constant intercepts.
    """

    norms: np.ndarray  # (c,) u'K u of each prototype

    @property
    def gram(self) -> np.ndarray:
        """``U'K U`` (c, c)."""
        images = [image @ self.weights for image in self._images(self.prototypes)]
        return np.array(images).reshape(self.prototypes.T.shape) @ self.prototypes

    def by_prototype(self, similarity: np.ndarray) -> np.ndarray:
        scores = self._scores(similarity)
        out = np.zeros((len(scores), *self.votes.shape))
        each = np.arange(len(scores))
        for q, used in self._chosen(scores):
            out[each, q, used] = self.votes[q, used] * scores[each, used]
        return out

    def coefficients(self, similarity: np.ndarray) -> np.ndarray:
        """Coefficients (rows, q, k) of rows with the combined kernel values `similarity` (rows, k)."""
        out = np.zeros((len(similarity), len(self.votes), len(self.instances)))
        for q, used in self._chosen(self._scores(similarity)):
            out[:, q] += 2.0 * self.votes[q, used, None] * self.prototypes[:, used].T
        return out

    def _contributions(self, Z: np.ndarray) -> np.ndarray:
        values = self.kernel_values(Z) * self.weights[:, None, None]
        similarity = values.sum(axis=0)
        parts = self.coefficients(similarity)[..., None] * values.transpose(1, 2, 0)[:, None]
        for rows, q, (members, table) in self.constants(similarity, self.own_parts()):
            parts[rows[:, None], q, members] += table
        return parts

    def _split(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        similarity = self.similarity(Z)
        coef = self.coefficients(similarity)
        by_instance, by_kernel = coef * similarity[:, None], np.zeros((*coef.shape[:2], len(self.bank)))
        row, output, instance = used = np.nonzero(coef)
        first = np.flatnonzero(np.diff(row * coef.shape[1] + output, prepend=-1))  # entries of one row and output
        for l, (weight, channel) in enumerate(zip(self.weights, self.bank.channels, strict=True)):
            summands = coef[used] * channel(Z, self.instances)[row, instance]
            by_kernel[row[first], output[first], l] = weight * np.add.reduceat(summands, first)
        for some, of, (members, table) in self.constants(similarity, self.own_parts()):
            by_instance[some[:, None], of, members] += table.sum(axis=1)
            by_kernel[some, of] += table.sum(axis=0)
        return by_instance, by_kernel

    def own_parts(self) -> list[Part]:
        """The norms, with a minus: ``-weights[l] u_s (K_l u)_s`` for each instance of a prototype and kernel."""
        mixed = np.count_nonzero(self.prototypes, axis=0) > 1
        images = iter(self._images(self.prototypes[:, mixed]))
        out = []
        for u, is_mixed in zip(self.prototypes.T, mixed, strict=True):
            members = np.flatnonzero(u)
            image = next(images)[members] if is_mixed else np.outer(u[members], np.ones(len(self.bank)))
            out.append((members, -self.weights * u[members, None] * image))
        return out

    def _images(self, U: np.ndarray) -> Iterator[np.ndarray]:
        """``K_l u`` (k, L) for each column u and kernels of unit diagonal."""
        stack = self.bank.stack(self.instances, form="streaming")
        lacking = (1.0 - stack.diagonal()).T if U.size else np.empty(0)
        for batch in np.array_split(U, max(1, -(-stack.shape[0] * U.size // BLOCK_VALUES)), axis=1):
            if batch.size:
                images = stack.apply(batch) + lacking[:, :, None] * batch[:, None, :]
                yield from images.transpose(2, 0, 1)

    def constants(self, similarity: np.ndarray, own: list[Part]) -> Iterator[tuple[np.ndarray, int, Part]]:
        """Rows, an output, and what is added to it besides, from `own_parts`."""
        for q, used in self._chosen(self._scores(similarity)):
            for j in np.unique(used):
                members, table = own[j]
                yield np.flatnonzero(used == j), q, (members, self.votes[q, j] * table)

    def _scores(self, similarity: np.ndarray) -> np.ndarray:
        """One less the squared distances (rows, c) to the prototypes."""
        return 2.0 * similarity @ self.prototypes - self.norms

    def _chosen(self, scores: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """For each output and side the nearest prototypes (rows,) that vote for it, in an order without signs."""
        for q, votes in enumerate(self.votes):
            sides = [np.flatnonzero(votes > 0), np.flatnonzero(votes < 0)]
            for members in sorted(sides, key=lambda side: side[:1].tolist()):
                if len(members):
                    part = scores[:, members]
                    first = np.argmax(part >= part.max(axis=1, keepdims=True) - TIED, axis=1)  # of equally near ones
                    yield q, members[first]
