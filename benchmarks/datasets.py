"""The named datasets of `tamis.experiments`, and those of them that benchmarks go over."""

from __future__ import annotations

import os
from pathlib import Path

from tamis.experiments.datasets import Dataset as Data
from tamis.experiments.datasets import catalogue, load

GROUP = {name: entry["file"].split("/")[0] for name, entry in catalogue().items()}
TEN = ["pima", "heart_statlog", "german_numeric", "ckd", "wdbc", "spectf", "praf", "splice_binary", "musk2", "madelon"]
THIRTEEN = [*TEN[:8], "ionosphere", "sonar", "haberman", "ilpd_579", "wpbc"]

__all__ = ["GROUP", "TEN", "THIRTEEN", "Data", "folder", "load"]


def folder() -> Path | None:
    path = os.environ.get("TAMIS_DATA")
    return Path(path) if path and Path(path).is_dir() else None
