"""Tensors on disk: what was written comes back, and what was altered does not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bench.store.tensors import DamagedError, read_tensors, write_tensors

TENSORS = {
    "images": torch.rand(3, 1, 4, 4),
    "labels": torch.tensor([0, 1, 2]),
    "scalar": torch.tensor(1.5, dtype=torch.float64),
    "half": torch.rand(5).bfloat16(),
    "flags": torch.tensor([True, False]),
    "none": torch.empty(0, 3),
    "turned": torch.rand(2, 3).T,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "deep" / "stored.safetensors"
    write_tensors(file, TENSORS, {"resolved": "{}"})
    return file


def test_what_was_written_comes_back(path: Path) -> None:
    tensors, metadata = read_tensors(path)

    assert metadata == {"resolved": "{}"}
    assert tensors.keys() == TENSORS.keys()
    assert all(
        torch.equal(value, TENSORS[name]) and value.dtype == TENSORS[name].dtype for name, value in tensors.items()
    )


def test_any_altered_byte_is_found(path: Path) -> None:
    whole = path.read_bytes()
    key = whole.index(b"sha256")  # a file without that key is one of an older version
    for place in (place for place in range(0, len(whole), 7) if not key <= place < key + 6):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            tensors, _ = read_tensors(path)
        except DamagedError as error:
            assert "\n" not in str(error)
            continue
        raise AssertionError(f"byte {place}: {whole[place - 20 : place + 5]!r} changed, {tensors.keys()} read")


@pytest.mark.parametrize("length", [0, 7, 8, 100, -1])
def test_a_cut_file_is_found(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DamagedError):
        read_tensors(path)


def test_altered_metadata_are_found(path: Path) -> None:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as stored:
        metadata = stored.metadata()
    save_file(load_file(path), path, metadata | {"resolved": '{"steps": 1}'})
    with pytest.raises(DamagedError, match="does not match its hash"):
        read_tensors(path)


def test_a_file_of_an_older_version_has_no_hash(path: Path) -> None:
    save_file({"images": TENSORS["images"]}, path)
    assert torch.equal(read_tensors(path)[0]["images"], TENSORS["images"])


def test_a_missing_file_is_not_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent"):
        read_tensors(tmp_path / "absent.safetensors")


def test_tensors_in_the_same_memory_are_kept_each(tmp_path: Path) -> None:
    """An attack may take its coefficients for its confidence, or its best state so far for the present one."""
    images = torch.arange(6.0).view(2, 3)
    given = {"now": images, "best": images, "turned": images.T, "part": images[1], "none": images[:0], "no": images[:0]}
    write_tensors(tmp_path / "kept.safetensors", given)
    found, _ = read_tensors(tmp_path / "kept.safetensors")
    assert found.keys() == given.keys()
    for name, value in given.items():
        assert torch.equal(found[name], value)
