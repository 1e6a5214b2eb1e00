"""The kind of network that a victim is, in the words that boards group by."""

from __future__ import annotations

from victims.informed.spec import AnySpec


def family(victim: AnySpec) -> str:
    """Return the family of a victim: how it was trained and what it predicts, in a few words."""
    if victim.setting == "informed":
        return f"one record unknown, {'network' if victim.kind == 'network' else 'generalised linear model'}"
    if victim.setting == "deletion":
        front = {"none": "linear model", "fourier": "random features", "hidden": "network"}[victim.architecture.front]
        return f"deleted between two releases, {front}"
    classes = "two classes" if victim.n_classes == 2 else "several classes"
    kinds = {
        "released weights": victim.training.kind == "released",
        "ordinary training": victim.training.kind == "ordinary",
        "last layer trained alone": victim.training.kind == "interpolation",
        "kernel machine": victim.architecture.kind == "kernel",
        "convolution": victim.architecture.kind == "conv",
        "regression": victim.loss != "cross-entropy",
        "affine classifier": victim.architecture.kind == "mlp" and not victim.architecture.hidden,
        f"{classes}, weight decay": victim.weight_decay > 0,
    }
    return next((name for name, holds in kinds.items() if holds), classes)
