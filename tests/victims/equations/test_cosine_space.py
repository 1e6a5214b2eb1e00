"""Images on cosines, against scipy's transform over all axes at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.fft import dctn

from victims.equations.row_space import CHANNEL_SIZES, CosineSpace

SHAPES = [(3, 6, 5), (1, 4, 4)]


def space_of(shape: tuple[int, int, int]) -> CosineSpace:
    return CosineSpace.of(shape, torch.zeros((), dtype=torch.float64))


@pytest.mark.parametrize("shape", SHAPES)
def test_coordinates_are_the_cosine_transform_and_give_the_images_back(shape: tuple[int, int, int]) -> None:
    space = space_of(shape)
    images = torch.randn(2, 4, space.rank, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    coordinates = space.coordinates(images)
    expected = dctn(images.view(8, *shape).numpy(), axes=(1, 2, 3), norm="ortho")
    torch.testing.assert_close(coordinates, torch.from_numpy(expected).view_as(images))
    torch.testing.assert_close(space.inputs(coordinates), images)


@pytest.mark.parametrize("shape", SHAPES)
def test_smooth_images_are_near(shape: tuple[int, int, int]) -> None:
    """A coordinate's amplitude falls with its frequency along rows and columns, and with its cosine over channels."""
    space = space_of(shape)
    rows, columns = np.arange(shape[1])[:, None], np.arange(shape[2])
    expected = np.array(CHANNEL_SIZES[: shape[0]])[:, None, None] / (1 + np.hypot(rows, columns))
    np.testing.assert_allclose(space.singular.view(shape), expected)
    flat = space.coordinates(torch.ones(space.rank, dtype=torch.float64))
    assert int(flat.abs().argmax()) == int(space.singular.argmax()) == 0


def test_amplitudes_are_powers_of_mean_square_one() -> None:
    space = space_of((3, 6, 5))
    amplitudes = space.amplitudes(2.0)
    assert float(amplitudes.square().mean()) == pytest.approx(1)
    torch.testing.assert_close(amplitudes / amplitudes[0], (space.singular / space.singular[0]).square())
