# What `tamis` offers, read by editors, by type checkers and by `__init__.py`. Estimators are one line each: everything
# else finds them through `all_estimators`.

from . import explain as explain
from . import io as io
from . import results as results
from . import views as views
from . import workflow as workflow
from .explain import Explanation as Explanation
from .flagship.classifier import TamisClassifier as TamisClassifier
from .flagship.regressor import TamisRegressor as TamisRegressor
from .kernels.alignment import alignment as alignment
from .kernels.alignment import alignment_kernels as alignment_kernels
from .kernels.bank import Channel as Channel
from .kernels.bank import KernelBank as KernelBank
from .kernels.base import Categorical as Categorical
from .kernels.base import Epanechnikov as Epanechnikov
from .kernels.base import Gaussian as Gaussian
from .kernels.base import Laplacian as Laplacian
from .kernels.base import Polynomial as Polynomial
from .kernels.base import Sigmoid as Sigmoid
from .kernels.precomputed import precomputed as precomputed
from .kernels.recipes import bandwidths as bandwidths
from .kernels.recipes import per_feature as per_feature
from .kernels.recipes import per_group as per_group
from .kernels.recipes import product as product
from .kernels.spectrum import repaired as repaired
from .methods.absent.channel_baselines import ChannelBaselineClassifier as ChannelBaselineClassifier
from .methods.absent.estimator import AbsentMKLClassifier as AbsentMKLClassifier
from .methods.absent.search import AbsentMKLClassifierCV as AbsentMKLClassifierCV
from .methods.baselines.admm_kernel_svm import KernelSVMADMM as KernelSVMADMM
from .methods.baselines.admm_lasso import LassoADMM as LassoADMM
from .methods.baselines.admm_linear_svm import LinearSVMADMM as LinearSVMADMM
from .methods.baselines.average_mkl import AverageMKLClassifier as AverageMKLClassifier
from .methods.baselines.easy_mkl import EasyMKLClassifier as EasyMKLClassifier
from .methods.baselines.feature_scaling import FeatureScalingSVC as FeatureScalingSVC
from .methods.baselines.filling import GaussianImputer as GaussianImputer
from .methods.baselines.kernel_glvq import KernelGLVQClassifier as KernelGLVQClassifier
from .methods.baselines.linear_l0 import LinearL0SVC as LinearL0SVC
from .methods.baselines.prototype_selection import PrototypeSelectionClassifier as PrototypeSelectionClassifier
from .methods.baselines.simple_mkl import SimpleMKLClassifier as SimpleMKLClassifier
from .methods.em2nolc.estimator import EM2NOLCClassifier as EM2NOLCClassifier
from .methods.em2nolc.search import EM2NOLCClassifierCV as EM2NOLCClassifierCV
from .methods.imkpl.estimator import IMKPLClassifier as IMKPLClassifier
from .methods.imkpl.search import IMKPLClassifierCV as IMKPLClassifierCV
from .methods.l0_mkl.estimator import L0MKLClassifier as L0MKLClassifier
from .methods.l0_mkl.search import L0MKLClassifierCV as L0MKLClassifierCV
from .methods.zero_one.estimator import ZeroOneMKLClassifier as ZeroOneMKLClassifier
from .registry import all_estimators as all_estimators
from .results import Results as Results
from .statistics.plan import Plan as Plan
from .statistics.statistics import Statistics as Statistics
from .table.channels import channels as channels
from .workflow import Job as Job
from .workflow import run as run

__all__: list[str]
__version__: str
