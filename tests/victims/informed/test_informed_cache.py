"""Released models are kept, and a file that is not what it was is set aside and made again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from attacking import CPU, digits_network

from victims.informed.cache import obtain
from victims.informed.victim import InformedVictim

SPEC = digits_network(n=30, targets=2, epochs=2)


@pytest.mark.parametrize("name", ["weights.safetensors", "card.json"])
def test_a_damaged_file_is_named_set_aside_and_made_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path))
    said: list[str] = []

    def victim() -> InformedVictim:
        return obtain(SPEC, None, CPU, lambda done, models: None, said.append)

    whole = victim()
    (file,) = tmp_path.glob(f"victims/*/{name}")
    file.write_bytes(file.read_bytes()[:-9])
    again = victim()

    assert len(said) == 1
    assert "do not match their hash" in said[0]
    assert len(list((tmp_path / "damaged").iterdir())) == 2
    assert all(torch.equal(value, again.weights[key]) for key, value in whole.weights.items())
    victim()
    assert len(said) == 1
