"""Pictures of models and explanations, in scikit-learn's convention of displays.

A display holds the numbers it draws; ``from_estimator`` and the like compute them and draw, ``plot``
draws again. matplotlib is imported when something is drawn.
"""

from tamis.plots.atlas import PrototypeAtlasDisplay
from tamis.plots.boundary import DecisionBoundaryDisplay
from tamis.plots.budgets import BudgetPathDisplay
from tamis.plots.contributions import ContributionDisplay
from tamis.plots.effects import ParameterEffectsDisplay
from tamis.plots.features import FeaturePathDisplay
from tamis.plots.history import ConvergenceDisplay, KernelWeightDisplay
from tamis.plots.importance import ImportanceDisplay
from tamis.plots.per_class import PrototypesPerClassDisplay
from tamis.plots.scores import KSCurveDisplay
from tamis.plots.shapes import ShapeFunctionDisplay
from tamis.plots.stability import StabilityDisplay
from tamis.plots.surfaces import SurfaceDisplay

__all__ = [
    "BudgetPathDisplay",
    "ContributionDisplay",
    "ConvergenceDisplay",
    "DecisionBoundaryDisplay",
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
