"""The order of the gallery: from a first model to special needs."""

from __future__ import annotations

from pathlib import Path

ORDER = (
    "first_model",
    "one_decision",
    "pairs",
    "budgets",
    "stability",
    "credit",
    "regression",
    "few_genes",
    "missing_channels",
    "prototypes",
    "kernel_weights",
    "indefinite_kernels",
    "outliers",
    "pipeline",
    "rows_in_blocks",
    "deployment",
)


class ReadingOrder:
    """Sort key of an example: its position in `ORDER`, which must contain every example."""

    def __init__(self, src_dir: str):
        self.src_dir = src_dir

    def __call__(self, filename: str) -> int:
        return ORDER.index(Path(filename).stem.removeprefix("plot_"))

    def __repr__(self) -> str:
        return "ReadingOrder"
