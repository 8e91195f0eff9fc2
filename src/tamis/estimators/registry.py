# ruff: noqa: I001
"""All estimators, one line each, in the order in which people meet them: everything else goes through `all_estimators`.

`tamis` reads these lines to know where its names live without loading them: one name a line, as itself.
"""

from __future__ import annotations

from sklearn.base import ClassifierMixin, RegressorMixin

from tamis.estimators.blend import TamisClassifier as TamisClassifier
from tamis.estimators.blend_regressor import TamisRegressor as TamisRegressor
from tamis.estimators.em2nolc import EM2NOLCClassifier as EM2NOLCClassifier
from tamis.estimators.em2nolc_cv import EM2NOLCClassifierCV as EM2NOLCClassifierCV
from tamis.estimators.l0_mkl import L0MKLClassifier as L0MKLClassifier
from tamis.estimators.l0_mkl_cv import L0MKLClassifierCV as L0MKLClassifierCV
from tamis.estimators.l01_svm import ZeroOneMKLClassifier as ZeroOneMKLClassifier
from tamis.estimators.imkpl import IMKPLClassifier as IMKPLClassifier
from tamis.estimators.imkpl_cv import IMKPLClassifierCV as IMKPLClassifierCV
from tamis.estimators.absent_mkl import AbsentMKLClassifier as AbsentMKLClassifier
from tamis.estimators.absent_mkl_cv import AbsentMKLClassifierCV as AbsentMKLClassifierCV
from tamis.estimators.channel_baselines import ChannelBaselineClassifier as ChannelBaselineClassifier
from tamis.estimators.prototype_baselines import PrototypeSelectionClassifier as PrototypeSelectionClassifier
from tamis.estimators.prototype_baselines import KernelGLVQClassifier as KernelGLVQClassifier
from tamis.estimators.mkl import SimpleMKLClassifier as SimpleMKLClassifier
from tamis.estimators.mkl import EasyMKLClassifier as EasyMKLClassifier
from tamis.estimators.mkl import AverageMKLClassifier as AverageMKLClassifier
from tamis.estimators.fs_svm import FeatureScalingSVC as FeatureScalingSVC
from tamis.estimators.linear_l0 import LinearL0SVC as LinearL0SVC
from tamis.estimators.admm_baselines import LinearSVMADMM as LinearSVMADMM
from tamis.estimators.admm_baselines import KernelSVMADMM as KernelSVMADMM
from tamis.estimators.admm_baselines import LassoADMM as LassoADMM
from tamis.shells.base import KernelEstimator as _KernelEstimator

KINDS = {None: object, "classifier": ClassifierMixin, "regressor": RegressorMixin}


def all_estimators(type_filter: str | None = None) -> dict[str, type[_KernelEstimator]]:
    """Return {name: class} of every public estimator, or of "classifier" or "regressor" alone."""
    if type_filter not in KINDS:
        raise ValueError(f"type_filter={type_filter!r} is unknown: use 'classifier', 'regressor' or None for all")
    kind = KINDS[type_filter]
    found = {name: cls for name, cls in globals().items() if not name.startswith("_") and isinstance(cls, type)}
    return {name: cls for name, cls in found.items() if issubclass(cls, _KernelEstimator) and issubclass(cls, kind)}
