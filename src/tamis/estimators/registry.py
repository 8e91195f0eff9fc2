"""All estimators by name; tests, command line and experiments iterate over this."""

from __future__ import annotations

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from tamis.estimators.absent_mkl import AbsentMKLClassifier
from tamis.estimators.absent_mkl_cv import AbsentMKLClassifierCV
from tamis.estimators.admm_baselines import KernelSVMADMM, LassoADMM, LinearSVMADMM
from tamis.estimators.blend import TamisClassifier
from tamis.estimators.blend_regressor import TamisRegressor
from tamis.estimators.channel_baselines import ChannelBaselineClassifier
from tamis.estimators.em2nolc import EM2NOLCClassifier
from tamis.estimators.em2nolc_cv import EM2NOLCClassifierCV
from tamis.estimators.fs_svm import FeatureScalingSVC
from tamis.estimators.imkpl import IMKPLClassifier
from tamis.estimators.imkpl_cv import IMKPLClassifierCV
from tamis.estimators.l0_mkl import L0MKLClassifier
from tamis.estimators.l0_mkl_cv import L0MKLClassifierCV
from tamis.estimators.l01_svm import ZeroOneMKLClassifier
from tamis.estimators.linear_l0 import LinearL0SVC
from tamis.estimators.mkl import AverageMKLClassifier, EasyMKLClassifier, SimpleMKLClassifier
from tamis.estimators.prototype_baselines import KernelGLVQClassifier, PrototypeSelectionClassifier

KINDS = {None: object, "classifier": ClassifierMixin, "regressor": RegressorMixin}


def all_estimators(type_filter: str | None = None) -> dict[str, type[BaseEstimator]]:
    """Return {name: class} of every public estimator, or of "classifier" or "regressor" alone."""
    if type_filter not in KINDS:
        raise ValueError(f"type_filter={type_filter!r} is unknown: use 'classifier', 'regressor' or None for all")
    return {
        cls.__name__: cls
        for cls in (
            TamisClassifier,
            TamisRegressor,
            EM2NOLCClassifier,
            EM2NOLCClassifierCV,
            L0MKLClassifier,
            L0MKLClassifierCV,
            ZeroOneMKLClassifier,
            IMKPLClassifier,
            IMKPLClassifierCV,
            AbsentMKLClassifier,
            AbsentMKLClassifierCV,
            ChannelBaselineClassifier,
            PrototypeSelectionClassifier,
            KernelGLVQClassifier,
            SimpleMKLClassifier,
            EasyMKLClassifier,
            AverageMKLClassifier,
            FeatureScalingSVC,
            LinearL0SVC,
            LinearSVMADMM,
            KernelSVMADMM,
            LassoADMM,
        )
        if issubclass(cls, KINDS[type_filter])
    }
