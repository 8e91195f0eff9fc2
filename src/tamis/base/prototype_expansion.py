"""Expansions whose coefficients depend on the row: by its sparse code, or by the nearest prototypes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from tamis.arrays import Array
from tamis.base.kernel_model import BLOCK_VALUES, Expansion
from tamis.codec import stored
from tamis.optim.nqp import solve_nqp

TIED = 1e-12  # scores so close are equal but for rounding
Part = tuple[np.ndarray, np.ndarray]  # instances (m,), and numbers (m, L) of these and the kernels


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

    def codes(self, similarity: np.ndarray) -> np.ndarray | None:
        """Codes (rows, c) of rows with combined kernel values (rows, k), where decisions are made from codes."""
        return None

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
