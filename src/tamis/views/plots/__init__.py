"""Pictures of models and explanations, in scikit-learn's convention of displays.

A display holds the numbers it draws; ``from_estimator`` and the like compute them and draw, ``plot``
draws again. matplotlib is imported when something is drawn.
"""

from tamis.views.plots.contributions import ContributionDisplay, ImportanceDisplay, StabilityDisplay
from tamis.views.plots.fits import (
    BudgetPathDisplay,
    ConvergenceDisplay,
    FeaturePathDisplay,
    KernelWeightDisplay,
    KSCurveDisplay,
)
from tamis.views.plots.prototypes import ParameterEffectsDisplay, PrototypeAtlasDisplay, PrototypesPerClassDisplay
from tamis.views.plots.shapes import ShapeFunctionDisplay, SurfaceDisplay

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
