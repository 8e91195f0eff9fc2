"""tamis: kernel classifiers that keep few cases and few features and explain every prediction exactly.

Names are loaded when they are first used, so that the command line answers at once.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pkgutil import get_data
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tamis.data.channels import channels as channels
    from tamis.estimators.imputing import GaussianImputer as GaussianImputer
    from tamis.estimators.registry import *  # noqa: F403
    from tamis.estimators.registry import all_estimators as all_estimators
    from tamis.explain import Explanation as Explanation
    from tamis.kernels.alignment import alignment as alignment
    from tamis.kernels.alignment import alignment_kernels as alignment_kernels
    from tamis.kernels.bank import Channel as Channel
    from tamis.kernels.bank import KernelBank as KernelBank
    from tamis.kernels.base import Categorical as Categorical
    from tamis.kernels.base import Epanechnikov as Epanechnikov
    from tamis.kernels.base import Gaussian as Gaussian
    from tamis.kernels.base import Laplacian as Laplacian
    from tamis.kernels.base import Polynomial as Polynomial
    from tamis.kernels.base import Sigmoid as Sigmoid
    from tamis.kernels.precomputed import precomputed as precomputed
    from tamis.kernels.recipes import bandwidths as bandwidths
    from tamis.kernels.recipes import per_feature as per_feature
    from tamis.kernels.recipes import per_group as per_group
    from tamis.kernels.recipes import product as product
    from tamis.kernels.spectrum import repaired as repaired
    from tamis.results import Results as Results
    from tamis.sums.plan import Plan as Plan
    from tamis.sums.statistics import Statistics as Statistics
    from tamis.workflow import Job as Job
    from tamis.workflow import run as run

__version__ = "0.1.0"

_HOMES = {  # all but the estimators, which are in the registry
    "tamis.data.channels": ("channels",),
    "tamis.estimators.imputing": ("GaussianImputer",),
    "tamis.sums.plan": ("Plan",),
    "tamis.estimators.registry": ("all_estimators",),
    "tamis.sums.statistics": ("Statistics",),
    "tamis.explain": ("Explanation",),
    "tamis.kernels.alignment": ("alignment", "alignment_kernels"),
    "tamis.kernels.bank": ("Channel", "KernelBank"),
    "tamis.kernels.base": ("Categorical", "Epanechnikov", "Gaussian", "Laplacian", "Polynomial", "Sigmoid"),
    "tamis.kernels.precomputed": ("precomputed",),
    "tamis.kernels.recipes": ("bandwidths", "per_feature", "per_group", "product"),
    "tamis.kernels.spectrum": ("repaired",),
    "tamis.results": ("Results",),
    "tamis.workflow": ("Job", "run"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_ROOMS = ("explain", "io", "plots", "report", "results", "workflow")


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted([*_HOME, *_estimators()])
    if name in _ROOMS:
        return import_module(f"tamis.{name}")
    home = _HOME.get(name)
    if home is None and not name.startswith("_"):
        home = _estimators().get(name)
    if home is None:
        raise AttributeError(f"module 'tamis' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*_HOME, *_estimators(), *_ROOMS, "__version__"])


@cache
def _estimators() -> dict[str, str]:
    """{name: module} of the estimators, from the lines of the registry: nothing is loaded."""
    lines = (get_data("tamis", "estimators/registry.py") or b"").decode()
    return {name: home for home, name in re.findall(r"^from (tamis\.estimators\.\w+) import (\w+) as \2$", lines, re.M)}
