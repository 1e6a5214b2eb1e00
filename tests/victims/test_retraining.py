"""A retraining is the same recipe on other images from another seed, and no retraining is the victim itself."""

from __future__ import annotations

import numpy as np
import pytest

from bench.plan import registry
from victims.cache import victim_key
from victims.datasets import load
from victims.informed.data import split_of as informed_split
from victims.informed.spec import AnySpec
from victims.obtain import split_of

VICTIMS = registry.victims().items
NAMES = ("faces-mlp-100", "digits-elu10-200", "cancer-logistic", "photos-mlp-20-c10-wd1e-4")
every_kind = pytest.mark.parametrize("spec", [VICTIMS[name] for name in NAMES], ids=NAMES)


def test_the_victim_itself_has_the_key_and_the_text_that_it_had() -> None:
    for spec in VICTIMS.values():
        assert spec.retrained(0) is spec.described is spec
        assert "retraining" not in spec.identity()
        assert '"retraining"' not in spec.model_dump_json()


@every_kind
def test_a_retraining_is_a_victim_of_its_own(spec: AnySpec) -> None:
    again = spec.retrained(3)

    assert (again.name, again.seed, again.retraining) == (f"{spec.name}@3", spec.seed + 3, 3)
    assert again.described == spec
    assert type(spec).model_validate_json(again.model_dump_json()) == again
    assert len({victim_key(one, "data") for one in (spec, again, spec.retrained(4))}) == 3


@every_kind
def test_a_retraining_learns_other_images_of_the_same_data(spec: AnySpec) -> None:
    def learnt(of: AnySpec) -> np.ndarray:
        if of.setting == "dataset":
            return split_of(of, None).images
        return np.concatenate(
            [part.images for part in (informed_split(of, None).fixed, informed_split(of, None).targets)]
        )

    first, again, third = (learnt(one) for one in (spec, spec.retrained(1), spec.retrained(2)))
    assert first.shape == again.shape
    assert not np.array_equal(again, third)
    shared = {image.tobytes() for image in first.round(4)} & {image.tobytes() for image in again.round(4)}
    assert len(shared) < len(first)
    np.testing.assert_array_equal(again, learnt(spec.retrained(1)))


def test_no_image_is_lost_or_doubled_in_another_order() -> None:
    raw = load("digits", None)
    drawn = raw.in_order_of(5)

    assert raw.in_order_of(0) is raw
    assert sorted(image.tobytes() for image in drawn.train_images) == sorted(
        image.tobytes() for image in raw.train_images
    )
    labels = {image.tobytes(): label for image, label in zip(raw.train_images, raw.train_labels, strict=True)}
    places = [
        labels[image.tobytes()] == label for image, label in zip(drawn.train_images, drawn.train_labels, strict=True)
    ]
    assert np.mean(places) > 0.999  # but for images that the data hold twice
