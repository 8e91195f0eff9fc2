"""Decisions and contributions of rows on a device, in double precision, where the rows are."""

from __future__ import annotations

import numpy as np

from tamis.arrays import Array, beside, device_of, namespace, to_device, to_numpy
from tamis.base.expansion import CentredExpansion, KernelExpansion
from tamis.base.model import Model
from tamis.table.device import device_encode
from tamis.table.table import Table

VALUES = 1 << 27  # kernel values at a time


def device_decision(model: Model, X: Array) -> Array:
    """Decision values (n, q) of a tensor X (n, d) with the columns of the training table."""
    expansion = model.expansion
    if not _is_plain(model):
        return beside(model.decision(_table(X)), X)
    xp, k = namespace(X), expansion.coef.shape[1]
    coef, instances = (to_device(values, device_of(X), "float64") for values in (expansion.coef, expansion.instances))
    base = expansion.intercept
    if isinstance(expansion, CentredExpansion):
        base = base - np.sum(expansion.coef * expansion.centre, axis=(1, 2))
    first = to_device(base, device_of(X), "float64")[None, :]
    parts = []
    for rows in _blocks(X.shape[0], k):
        Z = device_encode(model.encoder, X[rows, :], model.columns)
        total = xp.broadcast_to(first, (Z.shape[0], first.shape[1]))
        for place, channel in enumerate(expansion.bank.channels):
            total = total + channel(Z, instances) @ coef[:, :, place].T
        parts.append(total)
    decision = xp.concat(parts)
    if not bool(xp.all(xp.isfinite(decision))):
        raise ValueError("the decision is NaN or infinite for some rows of X: look at their values")
    return decision


def device_contributions(model: Model, X: Array) -> Array:
    """Contributions (n, q, k, L) of a tensor X (n, d) with the columns of the training table."""
    expansion = model.expansion
    if not _is_plain(model):
        return beside(expansion.contributions(model.encode(_table(X))), X)
    xp, (q, k, L) = namespace(X), expansion.coef.shape
    coef, instances = (to_device(values, device_of(X), "float64") for values in (expansion.coef, expansion.instances))
    out = xp.empty((X.shape[0], q, k, L), dtype=xp.float64, device=device_of(X))
    for rows in _blocks(X.shape[0], q * k):
        Z = device_encode(model.encoder, X[rows, :], model.columns)
        for place, channel in enumerate(expansion.bank.channels):
            values = channel(Z, instances)
            if isinstance(expansion, CentredExpansion):
                values = values - to_device(expansion.centre[:, place], device_of(X), "float64")
            out[rows, :, :, place] = values[:, None, :] * coef[None, :, :, place]
    return out


def _is_plain(model: Model) -> bool:
    return isinstance(model.expansion, KernelExpansion) and not model.expansion.bank.positions


def _table(X: Array) -> Table:
    """The rows in numpy, for models without a form on devices."""
    return Table(np.asarray(to_numpy(X), dtype=float), {}, [f"x{j}" for j in range(X.shape[1])])


def _blocks(n: int, values: int) -> list[slice]:
    step = max(1, VALUES // max(1, values))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
