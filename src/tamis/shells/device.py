"""Classifiers whose kernels and matrices may be held on a device."""

from __future__ import annotations

from dataclasses import KW_ONLY

from tamis.shells.parameters import parameters


@parameters
class OnDevice:
    """Base of the classifiers that do their dense linear algebra wherever the kernels are.

    Parameters
    ----------
    device : str or None
        "cuda" or "cuda:1" holds all kernel values on that device and combines, multiplies and factors their matrices
        there, in float64; "cpu" does so by torch; both need ``pip install 'tamis[gpu]'``. None is numpy. The model is
        the same up to rounding, and needs neither torch nor the device.
    """

    _: KW_ONLY
    device: str | None = None

    @property
    def _device(self) -> str | None:
        return self.device
