"""Classifiers on precomputed kernels that learn of further items."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import presence_of
from tamis.kernels.precomputed import lacking_rows
from tamis.models.model import Model


class Extending:
    """What a classifier needs to decide about items that its precomputed kernels did not know."""

    model_: Model
    kernels_: np.ndarray
    n_kernels_: int
    n_items_: int

    def extended(self, values: Any) -> Self:
        """The same classifier for items that its precomputed kernels did not know.

        Parameters
        ----------
        values : (L, n_new, N) kernel values between new items and the N items of the stack, for all L kernels
            in the order of the stack; the new items have the positions N, N + 1, ... A row of NaN alone is an item
            that lacks the kernel, and values with items that lack it are not looked at.
        """
        check_is_fitted(self)
        bank = self.model_.expansion.bank
        if not bank.positions or not hasattr(self, "n_items_"):
            raise ValueError("only a classifier with kernels=precomputed(...) that kept some case can be extended")
        new = np.asarray(values, dtype=float)
        if new.ndim != 3 or new.shape[0] != self.n_kernels_ or new.shape[2] != self.n_items_:
            raise ValueError(
                f"values has the shape {new.shape}: give ({self.n_kernels_}, n_new, {self.n_items_}), one matrix for "
                "each kernel of the stack, with a row for each new item and a column for each item of the stack"
            )
        kept = [_extended(channel, new[k]) for k, channel in zip(self.kernels_, bank.channels, strict=True)]
        other = copy(self)
        other.model_ = with_bank(self.model_, KernelBank(tuple(kept)))
        return other

    def _measure(self, bank: KernelBank) -> None:
        """Remember the size of a precomputed stack."""
        if bank.positions:
            self.n_kernels_, self.n_items_ = len(bank), cast(Any, bank.channels[0].kernel).n_items


def _extended(channel: Channel, values: np.ndarray) -> Channel:
    """A channel with further items, from their values (n_new, N) with all items of the stack."""
    kernel = cast(Any, channel.kernel)
    present = presence_of(kernel, np.arange(values.shape[1], dtype=float)[:, None])
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
