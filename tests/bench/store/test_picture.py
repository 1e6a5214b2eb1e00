from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread

from bench.experiments.study_picture import strips
from bench.publish.report.lattice_picture import draw_lattice
from bench.store import picture
from bench.store.picture import grid, save_png


def images(count: int, channels: int = 3, side: int = 32, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(seed))


def read(path: Path) -> np.ndarray:
    return imread(path)[..., :3]


def shows(picture: np.ndarray, image: torch.Tensor, top: int, left: int, scale: int) -> bool:
    """Whether the image, enlarged, stands at this place of the picture."""
    _, height, width = image.shape
    found = picture[top : top + height * scale, left : left + width * scale][::scale, ::scale]
    return np.allclose(found, image.permute(1, 2, 0).expand(height, width, 3).numpy(), atol=1 / 255)


@pytest.mark.parametrize(
    "draw",
    [
        lambda path: save_png(Figure(), path),
        lambda path: draw_lattice([], path),
        lambda path: strips(path, "rows", [("candidate", images(2))]),
    ],
)
def test_a_picture_that_cannot_be_written_leaves_the_old_one(
    draw: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.png"
    draw(path)
    old = path.read_bytes()

    def half(figure: Figure, file: Path, **options: Any) -> None:
        file.write_bytes(old[:20])
        raise OSError("the disk is full")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(OSError, match="full"):
        draw(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_forty_pairs_in_a_small_file_and_nothing_else(tmp_path: Path) -> None:
    smooth = torch.nn.functional.interpolate(images(50, side=8), size=32, mode="bilinear")
    path = tmp_path / "pairs.png"
    grid(path, smooth, smooth, torch.linspace(0, 1, 50), title="kkt on cifar-mlp-500")
    assert [file.name for file in tmp_path.iterdir()] == ["pairs.png"]
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert path.stat().st_size < 400_000
    height, width, _ = read(path).shape
    assert (width, height) == (6 + 10 * (96 + 6), 40 + 4 * (2 * 96 + 2 + 16 + 6))


def test_the_legend_says_whose_similarity_the_numbers_are_where_there_is_room(tmp_path: Path) -> None:
    """In a wide picture it goes on; in a narrow one it stays what fits."""
    for count, more in ((10, True), (4, False)):
        grid(tmp_path / "pairs.png", images(count), images(count), torch.ones(count))
        legend = read(tmp_path / "pairs.png")[20:38]
        ink = np.flatnonzero((legend < 0.9).any((0, 2)))
        assert (ink.max() > 600) == more
        assert ink.max() < legend.shape[1] - 1


def test_best_pair_comes_first_reconstruction_on_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "BEST", 3)
    monkeypatch.setattr(picture, "COLUMNS", 2)
    truth, reconstruction = images(4), images(4, seed=1)
    path = tmp_path / "pairs.png"
    grid(path, truth, reconstruction, torch.tensor([0.1, math.nan, 0.9, 0.5]))
    drawn = read(path)
    assert drawn.shape[:2] == (40 + 2 * 216, 6 + 2 * 102)
    for sample, top, left in ((2, 40, 6), (3, 40, 108), (0, 256, 6)):
        assert shows(drawn, reconstruction[sample], top, left, 3)
        assert shows(drawn, truth[sample], top + 98, left, 3)


def test_grey_images_and_nan_scores(tmp_path: Path) -> None:
    truth = images(2, channels=1, side=8)
    path = tmp_path / "digits.png"
    grid(path, truth, truth, torch.full((2,), math.nan))
    assert shows(read(path), truth[0], 40, 6, 10)


def test_same_input_same_bytes_and_old_file_replaced(tmp_path: Path) -> None:
    truth = images(3)
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    second.write_text("old")
    for path in (first, second):
        grid(path, truth, truth, torch.ones(3))
    assert first.read_bytes() == second.read_bytes()


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        grid(tmp_path / "a.png", images(1), images(1), torch.ones(1))
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        grid(tmp_path / "a.png", images(0), images(0), torch.ones(0))
    with pytest.raises(ValueError, match="cannot draw"):
        grid(tmp_path / "a.png", images(2), images(1), torch.ones(2))
