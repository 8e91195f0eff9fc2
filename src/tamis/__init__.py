"""tamis: kernel classifiers that keep few cases and few features and explain every prediction exactly.

Names are loaded when they are first used, so that the command line answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tamis.estimators.em2nolc import EM2NOLCClassifier
    from tamis.estimators.em2nolc_cv import EM2NOLCClassifierCV
    from tamis.estimators.plan import Plan
    from tamis.estimators.registry import all_estimators
    from tamis.estimators.statistics import Statistics
    from tamis.explain import Explanation
    from tamis.kernels.bank import Channel, KernelBank
    from tamis.kernels.base import Categorical, Gaussian, Laplacian, Polynomial, Sigmoid
    from tamis.kernels.recipes import per_feature, product
    from tamis.results import Results
    from tamis.workflow import Job, run

__version__ = "0.1.0"

_HOMES = {
    "tamis.estimators.em2nolc": ("EM2NOLCClassifier",),
    "tamis.estimators.em2nolc_cv": ("EM2NOLCClassifierCV",),
    "tamis.estimators.plan": ("Plan",),
    "tamis.estimators.registry": ("all_estimators",),
    "tamis.estimators.statistics": ("Statistics",),
    "tamis.explain": ("Explanation",),
    "tamis.kernels.bank": ("Channel", "KernelBank"),
    "tamis.kernels.base": ("Categorical", "Gaussian", "Laplacian", "Polynomial", "Sigmoid"),
    "tamis.kernels.recipes": ("per_feature", "product"),
    "tamis.results": ("Results",),
    "tamis.workflow": ("Job", "run"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_ROOMS = ("explain", "io", "plots", "report", "results", "workflow")

__all__ = [
    "Categorical",
    "Channel",
    "EM2NOLCClassifier",
    "EM2NOLCClassifierCV",
    "Explanation",
    "Gaussian",
    "Job",
    "KernelBank",
    "Laplacian",
    "Plan",
    "Polynomial",
    "Results",
    "Sigmoid",
    "Statistics",
    "all_estimators",
    "per_feature",
    "product",
    "run",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _ROOMS:
        return import_module(f"tamis.{name}")
    raise AttributeError(f"module 'tamis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS, "__version__"])
