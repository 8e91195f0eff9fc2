"""Further items for classifiers on precomputed kernels."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.base.model import Model
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.precomputed import lacking_rows

C = TypeVar("C", bound=Any)


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


def with_bank(model: Model, bank: KernelBank) -> Model:
    """The same model with other kernels."""
    return replace(model, expansion=replace(model.expansion, bank=bank))
