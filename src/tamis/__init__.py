"""tamis: kernel classifiers that keep few cases and few features and explain every prediction exactly."""

from tamis.estimators.em2nolc import EM2NOLCClassifier
from tamis.estimators.em2nolc_cv import EM2NOLCClassifierCV
from tamis.estimators.plan import Plan
from tamis.estimators.registry import all_estimators
from tamis.estimators.statistics import Statistics
from tamis.explain import Explanation
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Categorical, Gaussian, Laplacian, Polynomial, Sigmoid
from tamis.kernels.recipes import per_feature, product

__version__ = "0.1.0"

__all__ = [
    "Categorical",
    "Channel",
    "EM2NOLCClassifier",
    "EM2NOLCClassifierCV",
    "Explanation",
    "Gaussian",
    "KernelBank",
    "Laplacian",
    "Plan",
    "Polynomial",
    "Sigmoid",
    "Statistics",
    "all_estimators",
    "per_feature",
    "product",
]
