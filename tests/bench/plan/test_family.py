"""The words by which boards group networks."""

from __future__ import annotations

import pytest

from bench.plan import registry
from bench.plan.family import family


@pytest.mark.parametrize(
    ("victim", "words"),
    {
        "cancer-logistic": "one record unknown, generalised linear model",
        "mnist-elu10-1000": "one record unknown, network",
        "digits-unlearn-ridge-1000": "deleted between two releases, linear model",
        "cifar-mlp-100-c10-sgd": "ordinary training",
        "photos-rf-10-c10-12288": "last layer trained alone",
        "digits-krr-100": "kernel machine",
        "cifar-conv-50-k3-32": "convolution",
        "cifar-mlp-300-l2": "regression",
        "cifar-mlp-100-affine-wd": "affine classifier",
        "cifar-mlp-500": "two classes",
        "cifar-mlp-500-wd1e-4": "two classes, weight decay",
        "photos-mlp-100-c10-wd1e-4": "several classes, weight decay",
        "cifar-mlp-500-c10": "several classes",
    }.items(),
)
def test_a_victim_is_of_the_family_that_its_training_and_outputs_make(victim: str, words: str) -> None:
    spec = registry.victims().find(victim)
    assert spec is not None
    assert family(spec) == words
