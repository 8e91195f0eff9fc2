"""The data of a bilinear least-squares problem, as its two half steps and its final refit see it.

    F_i = sum_j sum_m lam_j mu_m k_m(x_j, x_i)

For fixed mu the problem is quadratic in lam, for fixed lam in mu. `RowDesign` makes these quadratic
problems from kernel values of rows, `MomentDesign` from sums over rows (`tamis.statistics`) in which
the number of rows no longer appears. Whoever can make them can drive the method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tamis.base.kernel_model import Coefficients
from tamis.kernels.stacks.base import Index, KernelStack
from tamis.optim.subset import Quadratic

MEMORY = 1 << 30  # bytes of kernel values that the instance problem may hold; beyond, only their Gram matrix


@dataclass(frozen=True)
class Design(ABC):
    """The operations that a solver needs; problems are kept until what they fix changes."""

    _problems: dict[str, tuple[np.ndarray, float, Quadratic]] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )

    @property
    @abstractmethod
    def n_kernels(self) -> int: ...

    @property
    @abstractmethod
    def n_candidates(self) -> int: ...

    @property
    @abstractmethod
    def n_outputs(self) -> int: ...

    @property
    @abstractmethod
    def total_weight(self) -> float: ...

    @property
    @abstractmethod
    def target_mean(self) -> np.ndarray:
        """Weighted mean (q,) of the targets."""

    @property
    @abstractmethod
    def energy(self) -> float:
        """Weighted sum of squares of the centred targets."""

    @property
    @abstractmethod
    def candidate_targets(self) -> np.ndarray:
        """Targets (p, q) of the candidates."""

    @property
    def candidate_weight(self) -> np.ndarray:
        """Weights (p,) of the candidates, those of all equal rows together where these are known."""
        return np.ones(self.n_candidates)

    @property
    @abstractmethod
    def corners(self) -> KernelStack:
        """Kernel values (L, p, p) among the candidates."""

    @property
    @abstractmethod
    def look(self) -> RowDesign | None:
        """Rows for what sums cannot give (a logistic loss), or None."""

    @abstractmethod
    def pair_means(self, instances: np.ndarray, kernels: np.ndarray) -> np.ndarray:
        """Weighted means (f, k) over the rows of the columns k_m(x_j, .)."""

    @abstractmethod
    def pair_products(self, instances: np.ndarray, kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Centred products of these columns with one another, (f, k, f, k), and with the targets, (f, k, q)."""

    @abstractmethod
    def _instance_problem(self, weights: np.ndarray, ridge: float) -> Quadratic: ...

    @abstractmethod
    def _kernel_problem(self, instances: Index, unit: np.ndarray, ridge: float) -> Quadratic: ...

    def instance_problem(self, weights: np.ndarray, ridge: float) -> Quadratic:
        """The lam-step: columns of A(mu), with mu = `weights` (L,)."""
        return self._kept("instances", weights, ridge, lambda: self._instance_problem(weights, ridge))

    def kernel_problem(self, instances: Index, unit: np.ndarray, ridge: float) -> Quadratic:
        """The mu-step: columns of B(lam), with lam = `unit` (k, q) on `instances`, all outputs stacked."""
        lam = spread(instances, unit, self.n_candidates)
        return self._kept("kernels", lam, ridge, lambda: self._kernel_problem(instances, unit, ridge))

    def _kept(self, block: str, fixed: np.ndarray, ridge: float, make: Callable[[], Quadratic]) -> Quadratic:
        kept = self._problems.get(block)
        if kept is None or kept[1] != ridge or not np.array_equal(kept[0], fixed):
            kept = self._problems[block] = fixed, ridge, make()
        return kept[2]


@dataclass(frozen=True)
class RowDesign(Design):
    """Problems from kernel values."""

    stack: KernelStack  # (L, n, p)
    targets: np.ndarray  # (n, q) in {-1, +1}
    sample_weight: np.ndarray  # (n,) at least 0
    candidates: np.ndarray  # (p,) the row behind each column of the stack

    @property
    def n_kernels(self) -> int:
        return self.stack.shape[0]

    @property
    def n_candidates(self) -> int:
        return self.stack.shape[2]

    @property
    def n_outputs(self) -> int:
        return self.targets.shape[1]

    @cached_property
    def total_weight(self) -> float:
        return float(self.sample_weight.sum())

    @cached_property
    def target_mean(self) -> np.ndarray:
        return self.sample_weight @ self.targets / self.total_weight

    @cached_property
    def centred_targets(self) -> np.ndarray:
        return centre(self.targets, self.sample_weight)

    @cached_property
    def energy(self) -> float:
        return float(np.sum(self.centred_targets**2))

    @property
    def candidate_targets(self) -> np.ndarray:
        return self.targets[self.candidates]

    @property
    def candidate_weight(self) -> np.ndarray:
        return self.sample_weight[self.candidates]

    @property
    def corners(self) -> KernelStack:
        return self.stack.take(rows=self.candidates)

    @property
    def look(self) -> RowDesign:
        return self

    def pair_means(self, instances: np.ndarray, kernels: np.ndarray) -> np.ndarray:
        some = self.stack.take(cols=instances, kernels=kernels)
        return np.stack([self.sample_weight @ some.one(m) for m in range(len(kernels))]) / self.total_weight

    def pair_products(self, instances: np.ndarray, kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        f, k = len(kernels), len(instances)
        some = self.stack.take(cols=instances, kernels=kernels)
        columns = np.concatenate([centre(some.one(m), self.sample_weight) for m in range(f)], axis=1)
        cross = columns.T @ self.centred_targets
        return (columns.T @ columns).reshape(f, k, f, k), cross.reshape(f, k, -1)

    def _instance_problem(self, weights: np.ndarray, ridge: float) -> Quadratic:
        operator = self.stack.combine(weights)
        n, p = self.stack.shape[1:]
        if 8 * n * p <= MEMORY:
            columns = centre(operator.dense(), self.sample_weight).T
            return Quadratic.from_design(columns, self.centred_targets, ridge)
        root, share = np.sqrt(self.sample_weight)[:, None], self.sample_weight / self.total_weight
        mean, gram, cross = np.zeros(p), np.zeros((p, p)), np.zeros((p, self.n_outputs))
        for rows in self.stack.blocks():
            values = self.stack.weighted(weights, rows)
            mean += share[rows] @ values
            values = values * root[rows]
            gram += values.T @ values
            cross += values.T @ self.centred_targets[rows]
        gram -= self.total_weight * np.outer(mean, mean)
        return Quadratic.from_gram(gram, cross, self.energy, ridge)

    def _kernel_problem(self, instances: Index, unit: np.ndarray, ridge: float) -> Quadratic:
        images = centre(self.stack.take(cols=instances).apply(unit), self.sample_weight)
        rows = images.transpose(1, 0, 2).reshape(self.n_kernels, -1)
        return Quadratic.from_design(rows, self.centred_targets.reshape(-1, 1), ridge)


@dataclass(frozen=True)
class Sums:
    """Centred sums of outer products of the rows' vectors ``[1, phi(x), e_class]``."""

    weight: float  # total weight
    mean: np.ndarray  # (A,)
    centred: np.ndarray  # (A, A)

    @classmethod
    def of(cls, sums: np.ndarray) -> Sums:
        """Centre plain sums (A, A), in which the first function is constant."""
        weight = float(sums[0, 0])
        mean = sums[0] / weight
        return cls(weight, mean, sums - weight * np.outer(mean, mean))


@dataclass(frozen=True)
class MomentDesign(Design):
    """Problems from sums over rows; nothing depends on their number."""

    sums: Sums  # over the training rows
    coding: np.ndarray  # (classes, q) the target of each class
    positions: Sequence[np.ndarray]  # for each kernel, where its functions stand in the vector of a row
    short: Sequence[np.ndarray]  # for each kernel, coefficients (p, size) of the candidates' kernel functions
    codes: np.ndarray  # (p,) classes of the candidates
    corner_stack: KernelStack  # what `corners` is
    look_up: Callable[[], RowDesign | None] = lambda: None  # computes `look` at its first use

    @property
    def n_kernels(self) -> int:
        return len(self.short)

    @property
    def n_candidates(self) -> int:
        return len(self.codes)

    @property
    def n_outputs(self) -> int:
        return self.coding.shape[1]

    @property
    def total_weight(self) -> float:
        return self.sums.weight

    @property
    def _classes(self) -> slice:
        return slice(len(self.sums.mean) - len(self.coding), None)

    @property
    def target_mean(self) -> np.ndarray:
        return self.sums.mean[self._classes] @ self.coding

    @cached_property
    def cross(self) -> np.ndarray:
        """Centred products (A, q) of the rows' vectors with the targets."""
        return self.sums.centred[:, self._classes] @ self.coding

    @property
    def energy(self) -> float:
        return float(np.sum(self.coding * self.cross[self._classes]))

    @property
    def candidate_targets(self) -> np.ndarray:
        return self.coding[self.codes]

    @property
    def corners(self) -> KernelStack:
        return self.corner_stack

    @cached_property
    def look(self) -> RowDesign | None:
        return self.look_up()

    def pair_means(self, instances: np.ndarray, kernels: np.ndarray) -> np.ndarray:
        return np.stack([self.short[m][instances] @ self.sums.mean[self.positions[m]] for m in kernels.tolist()])

    def pair_products(self, instances: np.ndarray, kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = [(self.short[m][instances], self.positions[m]) for m in kernels.tolist()]
        cross = np.stack([a @ self.cross[at] for a, at in own])
        gram = np.stack([np.stack([a @ self.sums.centred[np.ix_(at, to)] @ b.T for b, to in own]) for a, at in own])
        return gram.transpose(0, 2, 1, 3), cross

    def residual(self, coefficients: Coefficients) -> np.ndarray:
        """Vectors r (A, q) such that ``v' r`` is decision minus target of a row with the vector v."""
        out = np.zeros((len(self.sums.mean), self.n_outputs))
        out[0] = coefficients.intercept
        for m, coef in zip(coefficients.kernels.tolist(), coefficients.coef.transpose(2, 1, 0), strict=True):
            np.add.at(out, self.positions[m], self.short[m][coefficients.instances].T @ coef)
        out[self._classes] = -self.coding
        return out

    @cached_property
    def _laid_out(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All kernels' functions in one line: positions, where each kernel begins, coefficients (p, sizes)."""
        begins = np.cumsum([0, *(len(places) for places in self.positions[:-1])])
        return np.concatenate(self.positions), begins, np.concatenate(self.short, axis=1)

    @cached_property
    def _own_blocks(self) -> list[np.ndarray]:
        """The centred sums of each kernel's functions with one another."""
        return [self.sums.centred[np.ix_(places, places)] for places in self.positions]

    def _instance_problem(self, weights: np.ndarray, ridge: float) -> Quadratic:
        active = np.flatnonzero(weights).tolist()
        at = np.concatenate([self.positions[m] for m in active])
        U = np.concatenate([weights[m] * self.short[m] for m in active], axis=1)
        image = U @ self.sums.centred[np.ix_(at, at)]
        return Quadratic(
            diagonal=np.maximum(np.einsum("ij,ij->i", image, U), 0.0),
            cross=U @ self.cross[at],
            energy=self.energy,
            ridge=ridge,
            gram_columns=lambda idx: image @ U[idx].T,
        )

    def _kernel_problem(self, instances: Index, unit: np.ndarray, ridge: float) -> Quadratic:
        at, begins, short = self._laid_out
        images = short[instances].T @ unit  # (sizes, q)
        parts = np.split(images, begins[1:])

        def columns(idx: np.ndarray) -> np.ndarray:
            out = np.zeros((self.n_kernels, len(idx)))
            for k, m in enumerate(idx.tolist()):
                half = self.sums.centred[:, self.positions[m]] @ parts[m]
                out[:, k] = np.add.reduceat(np.sum(images * half[at], axis=1), begins)
            return out

        diagonal = [float(np.vdot(g, C @ g)) for g, C in zip(parts, self._own_blocks, strict=True)]
        cross = np.add.reduceat(np.sum(images * self.cross[at], axis=1), begins)[:, None]
        return Quadratic(np.maximum(diagonal, 0.0), cross, self.energy, ridge, columns)


def centre(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Subtract weighted means over the rows and multiply by root weights: sums become weighted."""
    if np.all(weight == 1.0):
        return values - values.mean(axis=0)
    centred = values - np.tensordot(weight / weight.sum(), values, axes=(0, 0))
    return centred * np.sqrt(weight).reshape(-1, *[1] * (values.ndim - 1))


def spread(index: Index, values: np.ndarray, size: int) -> np.ndarray:
    """Values at some positions of an otherwise zero array."""
    out = np.zeros((size, *values.shape[1:]))
    out[index] = values
    return out
