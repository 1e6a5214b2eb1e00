"""Networks as they are built: convolutions that shrink what they are laid on."""

from __future__ import annotations

import pytest
import torch

from victims.equations.architectures import blank, build
from victims.errors import UserError
from victims.networks import ConvSpec

SHAPE = (3, 6, 5)


def test_convolutions_take_each_others_maps_and_the_first_alone_has_a_bias() -> None:
    spec = ConvSpec(kernel=2, channels=(4, 7), hidden=(11,), outputs=2, first_layer_scale=None)
    shapes = {name: tuple(value.shape) for name, value in blank(spec, SHAPE).named_parameters()}
    assert list(shapes.values()) == [(4, 3, 2, 2), (4,), (7, 4, 2, 2), (11, 7 * 4 * 3), (2, 11)]
    assert spec.label == "conv(2, 4)-conv(2, 7)-11-2"


@pytest.mark.parametrize(
    ("channels", "largest", "told"), [(2, 5, "a kernel of 6"), ((2, 2), 3, "a kernel of 4, 2 times in a row,")]
)
def test_kernels_fit_as_long_as_a_pixel_is_left(channels: int | tuple[int, ...], largest: int, told: str) -> None:
    """On 5 pixels one kernel of 5 leaves one, two of 3 leave one."""
    spec = ConvSpec(kernel=largest, channels=channels, hidden=(), first_layer_scale=None)
    images = torch.rand(4, *SHAPE, dtype=torch.float64)
    assert build(spec, SHAPE, torch.Generator(), torch.float64)(images).shape == (4,)
    with pytest.raises(UserError, match=f"{told} does not fit into images of 6 x 5 pixels"):
        blank(spec.model_copy(update={"kernel": largest + 1}), SHAPE)
