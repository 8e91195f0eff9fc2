"""Pictures of models and explanations, in scikit-learn's convention of displays.

A display holds the numbers it draws; ``from_estimator`` and the like compute them and draw, ``plot``
draws again. matplotlib is imported when something is drawn.
"""

from tamis.views.plots.atlas import PrototypeAtlasDisplay
from tamis.views.plots.budgets import BudgetPathDisplay
from tamis.views.plots.contributions import ContributionDisplay
from tamis.views.plots.effects import ParameterEffectsDisplay
from tamis.views.plots.features import FeaturePathDisplay
from tamis.views.plots.history import ConvergenceDisplay, KernelWeightDisplay
from tamis.views.plots.importance import ImportanceDisplay
from tamis.views.plots.per_class import PrototypesPerClassDisplay
from tamis.views.plots.scores import KSCurveDisplay
from tamis.views.plots.shapes import ShapeFunctionDisplay
from tamis.views.plots.stability import StabilityDisplay
from tamis.views.plots.surfaces import SurfaceDisplay

__all__ = [
    "BudgetPathDisplay",
    "ContributionDisplay",
    "ConvergenceDisplay",
    "FeaturePathDisplay",
    "ImportanceDisplay",
    "KSCurveDisplay",
    "KernelWeightDisplay",
    "ParameterEffectsDisplay",
    "PrototypeAtlasDisplay",
    "PrototypesPerClassDisplay",
    "ShapeFunctionDisplay",
    "StabilityDisplay",
    "SurfaceDisplay",
]
