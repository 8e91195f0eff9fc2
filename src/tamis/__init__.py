"""tamis: kernel classifiers that keep few cases and few features and explain every prediction exactly.

Names are loaded when they are first used, so that the command line answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tamis.estimators.absent_mkl import AbsentMKLClassifier
    from tamis.estimators.absent_mkl_cv import AbsentMKLClassifierCV
    from tamis.estimators.admm_baselines import KernelSVMADMM, LassoADMM, LinearSVMADMM
    from tamis.estimators.blend import TamisClassifier
    from tamis.estimators.blend_regressor import TamisRegressor
    from tamis.estimators.channel_baselines import ChannelBaselineClassifier
    from tamis.estimators.channels import channels
    from tamis.estimators.em2nolc import EM2NOLCClassifier
    from tamis.estimators.em2nolc_cv import EM2NOLCClassifierCV
    from tamis.estimators.fs_svm import FeatureScalingSVC
    from tamis.estimators.imkpl import IMKPLClassifier
    from tamis.estimators.imkpl_cv import IMKPLClassifierCV
    from tamis.estimators.imputing import GaussianImputer
    from tamis.estimators.l0_mkl import L0MKLClassifier
    from tamis.estimators.l0_mkl_cv import L0MKLClassifierCV
    from tamis.estimators.l01_svm import ZeroOneMKLClassifier
    from tamis.estimators.linear_l0 import LinearL0SVC
    from tamis.estimators.mkl import AverageMKLClassifier, EasyMKLClassifier, SimpleMKLClassifier
    from tamis.estimators.plan import Plan
    from tamis.estimators.prototype_baselines import KernelGLVQClassifier, PrototypeSelectionClassifier
    from tamis.estimators.registry import all_estimators
    from tamis.estimators.statistics import Statistics
    from tamis.explain import Explanation
    from tamis.kernels.alignment import alignment, alignment_kernels
    from tamis.kernels.bank import Channel, KernelBank
    from tamis.kernels.base import Categorical, Epanechnikov, Gaussian, Laplacian, Polynomial, Sigmoid
    from tamis.kernels.precomputed import precomputed
    from tamis.kernels.recipes import bandwidths, per_feature, per_group, product
    from tamis.kernels.spectrum import repaired
    from tamis.results import Results
    from tamis.workflow import Job, run

__version__ = "0.1.0"

_HOMES = {
    "tamis.estimators.em2nolc": ("EM2NOLCClassifier",),
    "tamis.estimators.em2nolc_cv": ("EM2NOLCClassifierCV",),
    "tamis.estimators.absent_mkl": ("AbsentMKLClassifier",),
    "tamis.estimators.absent_mkl_cv": ("AbsentMKLClassifierCV",),
    "tamis.estimators.admm_baselines": ("KernelSVMADMM", "LassoADMM", "LinearSVMADMM"),
    "tamis.estimators.blend": ("TamisClassifier",),
    "tamis.estimators.blend_regressor": ("TamisRegressor",),
    "tamis.estimators.channel_baselines": ("ChannelBaselineClassifier",),
    "tamis.estimators.channels": ("channels",),
    "tamis.estimators.fs_svm": ("FeatureScalingSVC",),
    "tamis.estimators.imkpl": ("IMKPLClassifier",),
    "tamis.estimators.imkpl_cv": ("IMKPLClassifierCV",),
    "tamis.estimators.imputing": ("GaussianImputer",),
    "tamis.estimators.l0_mkl": ("L0MKLClassifier",),
    "tamis.estimators.l0_mkl_cv": ("L0MKLClassifierCV",),
    "tamis.estimators.l01_svm": ("ZeroOneMKLClassifier",),
    "tamis.estimators.linear_l0": ("LinearL0SVC",),
    "tamis.estimators.mkl": ("AverageMKLClassifier", "EasyMKLClassifier", "SimpleMKLClassifier"),
    "tamis.estimators.plan": ("Plan",),
    "tamis.estimators.prototype_baselines": ("KernelGLVQClassifier", "PrototypeSelectionClassifier"),
    "tamis.estimators.registry": ("all_estimators",),
    "tamis.estimators.statistics": ("Statistics",),
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

__all__ = [
    "AbsentMKLClassifier",
    "AbsentMKLClassifierCV",
    "AverageMKLClassifier",
    "Categorical",
    "Channel",
    "ChannelBaselineClassifier",
    "EM2NOLCClassifier",
    "EM2NOLCClassifierCV",
    "EasyMKLClassifier",
    "Epanechnikov",
    "Explanation",
    "FeatureScalingSVC",
    "Gaussian",
    "GaussianImputer",
    "IMKPLClassifier",
    "IMKPLClassifierCV",
    "Job",
    "KernelBank",
    "KernelGLVQClassifier",
    "KernelSVMADMM",
    "L0MKLClassifier",
    "L0MKLClassifierCV",
    "Laplacian",
    "LassoADMM",
    "LinearL0SVC",
    "LinearSVMADMM",
    "Plan",
    "Polynomial",
    "PrototypeSelectionClassifier",
    "Results",
    "Sigmoid",
    "SimpleMKLClassifier",
    "Statistics",
    "TamisClassifier",
    "TamisRegressor",
    "ZeroOneMKLClassifier",
    "alignment",
    "alignment_kernels",
    "all_estimators",
    "bandwidths",
    "channels",
    "per_feature",
    "per_group",
    "precomputed",
    "product",
    "repaired",
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
