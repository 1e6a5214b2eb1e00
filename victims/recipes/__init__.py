"""The recipes by which victims are trained, as frozen, hashable descriptions. Imports no torch."""

from victims.recipes.augmentation import Augmentation
from victims.recipes.ordinary import Ordinary, Pretraining, Schedule
from victims.recipes.privacy import Privacy, Share
from victims.recipes.released import Released
from victims.recipes.stationary import (
    DecayedDescent,
    GradientDescent,
    GramGaussNewton,
    Interpolation,
    NormalizedDescent,
    Regularised,
)

__all__ = [
    "Augmentation",
    "DecayedDescent",
    "GradientDescent",
    "GramGaussNewton",
    "Interpolation",
    "NormalizedDescent",
    "Ordinary",
    "Pretraining",
    "Privacy",
    "Regularised",
    "Released",
    "Schedule",
    "Share",
]
