"""`check` names the attacks that a model of somebody's own is open to, and an audit's variants that an attack lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from bench.check import check_file

MODEL = """
from pathlib import Path

from torch import nn

from victims.released import released

HERE = Path(__file__).parent


def network():
    return nn.Sequential(LAYERS)


VICTIMS = (released("own", network=network, weights=HERE / "weights.safetensors", DATA),)
"""
ATTACK = """
from attacks.base import Attack, AttackParams, Reconstruction


class Own(Attack[AttackParams]):
    name, summary, needs, Params = "own", "noise", frozenset(), AttackParams
    audits = ("", "fast")

    def reconstruct(self, view, ctx):
        raise NotImplementedError
"""


def claims(folder: Path, layers: str, data: str) -> list[str]:
    (folder / "own.py").write_text(MODEL.replace("LAYERS", layers).replace("DATA", data))
    return [claim.text for claim in check_file(folder / "own.py", {}, None)]


def test_of_a_linear_model_on_a_table_the_attack_for_its_kind_comes_first(tmp_path: Path) -> None:
    """The attack on one missing record takes linear models alone; those on layers take many others too."""
    save_file({"0.weight": torch.tensor([[1.0, -1.0]]), "0.bias": torch.zeros(1)}, tmp_path / "weights.safetensors")
    rows = "a,b,label\n" + "".join(f"{i % 5},{(i * 3) % 7},{int(i % 5 > (i * 3) % 7)}\n" for i in range(12))
    (tmp_path / "rows.csv").write_text(rows)
    found = claims(tmp_path, "nn.Linear(2, 1)", 'records=HERE / "rows.csv"')

    (taken,) = (text for text in found if "take it" in text)
    assert taken.partition(": ")[2].startswith("glm, ")
    assert any(text.startswith("classifies the rows that it has learnt") for text in found)


def test_why_attacks_on_layers_do_not_take_a_model_is_said(tmp_path: Path) -> None:
    save_file({"2.weight": torch.randn(2, 144), "2.bias": torch.zeros(2)}, tmp_path / "weights.safetensors")
    images = np.random.default_rng(0).integers(0, 256, (8, 12, 12), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", train_images=images, train_labels=np.arange(8) % 2)
    found = claims(tmp_path, "nn.Flatten(), nn.Tanh(), nn.Linear(144, 2)", 'images=HERE / "images.npz"')

    (taken,) = (text for text in found if "take it" in text)
    assert "(not those on layers: Tanh is not covered" in taken


def test_an_audit_names_no_variant_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(ATTACK)
    (claim,) = (one for one in check_file(tmp_path / "own.py", {}, None) if "declarations" in one.text)
    assert claim.trouble == "`audits` names 'fast', which is none of the variants (none)"
