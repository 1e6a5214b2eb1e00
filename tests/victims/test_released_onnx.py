"""Somebody's own model in ONNX: it computes the same, its layers are known, and what cannot be read is told."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from attacks.base import Knowledge
from bench.run.disclosure import view_of
from victims.base import Victim
from victims.errors import UserError
from victims.obtain import obtain
from victims.released import released
from victims.spec import ConvSpec, MLPSpec, ModuleSpec, TailSpec

CPU = torch.device("cpu")
SHAPE = (3, 8, 8)
NETWORKS: dict[str, tuple[Callable[[], nn.Module], type]] = {
    "mlp": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 12), nn.ReLU(), nn.Linear(12, 3)), MLPSpec),
    "conv": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)), ConvSpec),
    "tail": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 12), nn.Tanh(), nn.Linear(12, 1)), TailSpec),
    "other": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(144, 1)), ModuleSpec),
}


def images(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    pixels, labels = draw.random((6, 8, 8, 3), np.float32), np.arange(6) % 2
    np.savez(folder / "images.npz", train_images=pixels, train_labels=labels)
    return folder / "images.npz"


def exported(folder: Path, network: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    module = network().eval()
    axes = {"input": {0: "n"}}
    given = (torch.zeros(2, *SHAPE),)
    torch.onnx.export(module, given, folder / "model.onnx", dynamo=False, input_names=["input"], dynamic_axes=axes)
    return module


def load(folder: Path, **options: Any) -> Victim:
    spec = released("mine", weights=folder / "model.onnx", images=images(folder), **options)
    return obtain(spec, None, CPU, lambda progress: None, lambda notice: None)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("network", "kind"), NETWORKS.values(), ids=NETWORKS)
def test_it_computes_what_the_module_does_that_was_exported(
    tmp_path: Path, network: Callable[[], nn.Module], kind: type
) -> None:
    pytest.importorskip("onnx2torch", reason="needs the extra onnx")
    module = exported(tmp_path, network)
    victim = load(tmp_path)
    assert isinstance(victim.spec.architecture, kind)
    inputs = torch.rand(5, *SHAPE, generator=torch.Generator().manual_seed(1))
    expected = module(inputs)
    expected = expected[:, 0] if expected.shape[1] == 1 else expected
    torch.testing.assert_close(victim.model(inputs), expected)
    view = view_of(victim, frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS}), CPU)
    blank = view.architecture.build()
    assert all(not value.any() for value in blank.state_dict().values())
    blank.load_state_dict(view.weights)
    torch.testing.assert_close(blank(inputs), expected)


def test_what_is_no_onnx_model_is_told(tmp_path: Path) -> None:
    pytest.importorskip("onnx2torch", reason="needs the extra onnx")
    (tmp_path / "model.onnx").write_bytes(b"this is no model")
    with pytest.raises(UserError, match="cannot be read as ONNX"):
        load(tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_weights_in_another_file_are_told(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    pytest.importorskip("onnx2torch", reason="needs the extra onnx")
    exported(tmp_path, NETWORKS["mlp"][0])
    model = onnx.load(tmp_path / "model.onnx")
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0)
    with pytest.raises(UserError, match="has its weights in another file; save it in one file"):
        load(tmp_path)


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx2torch", None)
    monkeypatch.setitem(sys.modules, "onnx", None)
    (tmp_path / "model.onnx").touch()
    with pytest.raises(UserError, match=r"pip install 'reconstruction-bench\[onnx\]'"):
        load(tmp_path)


def test_without_a_network_only_onnx_tells_what_the_weights_are_of(tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").touch()
    with pytest.raises(UserError, match="give `network`, which builds the module of"):
        released("mine", weights=tmp_path / "weights.safetensors", images=images(tmp_path))
