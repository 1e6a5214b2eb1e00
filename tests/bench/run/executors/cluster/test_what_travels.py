"""What travels to a cluster, and what a node may lack: each part by itself, without a cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is an extra: pip install 'reconstruction-bench[ray]'")
from bench.run.executors.cluster import connection, mailbox, probe, source
from bench.run.executors.cluster.bundles import pack, unpack
from bench.run.executors.cluster.node_folders import NodeFolders, TaskInputs
from bench.run.executors.cluster.share import Share
from bench.run.setup import Setup
from victims.errors import UserError
from victims.files import atomic

NOTHING = (), "", frozenset[str]()


def test_what_is_packed_is_unpacked_and_locks_stay(tmp_path: Path) -> None:
    for name in ("runs/a/run.json", "runs/a/.half.json", "runs/a/lock", "runs/b/run.json", ".work/checkpoints/a.x"):
        path = tmp_path / "here" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    bundle = pack(tmp_path / "here", ("runs/a/*", ".work/checkpoints/a.*", "absent/*"))
    assert bundle == {name: name.encode() for name in ("runs/a/run.json", ".work/checkpoints/a.x")}
    unpack(bundle, tmp_path / "there")
    assert pack(tmp_path / "there", ("**/*",)) == bundle


def test_a_checkpoint_is_sent_whenever_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "WATCH_SECONDS", 0.01)
    sent: Queue[dict[str, bytes]] = Queue()
    told = SimpleNamespace(keep=SimpleNamespace(remote=lambda job, bundle: sent.put(bundle)))
    (tmp_path / "of.before").write_bytes(b"0")
    with mailbox.MailboxReporter(told, "job").checkpoints(tmp_path, ("of.*",)):
        for content in (b"1", b"22"):
            with atomic(tmp_path / "of.run") as path:
                path.write_bytes(content)
            assert sent.get(timeout=600)["of.run"] == content
    assert sent.empty()


def test_a_worker_is_there_without_torch(process: Callable[..., Any]) -> None:
    """It passes on what its processes do, and these have torch; its own torch would cost seconds and memory."""
    listed = "import sys, bench.run.executors.cluster.worker; print({'torch', 'pandas', 'scipy'} & sys.modules.keys())"
    assert process("-c", listed).out.strip() == "set()"


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out", ""])
def test_no_bundle_leads_out_of_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="outside its folder"):
        unpack({name: b""}, tmp_path / "folder")
    assert not list(tmp_path.iterdir())


def test_the_source_travels_without_results_data_and_bytecode(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    (plugins / "weights").mkdir(parents=True)
    (plugins / "mine.py").write_text("X = 1")
    (plugins / "weights" / "mine.safetensors").write_bytes(b"w")
    (plugins / ".git").mkdir()
    place = source.gather(tmp_path / "staged", plugins)
    names = {path.relative_to(tmp_path / "staged").as_posix() for path in (tmp_path / "staged").rglob("*")}
    assert {"bench/__main__.py", f"{place}/mine.py", f"{place}/weights/mine.safetensors"} <= names
    assert {name.partition("/")[0] for name in names} == {"bench", "attacks", "victims", place}
    assert not [name for name in names if "__pycache__" in name or ".git" in name]
    assert source.gather(tmp_path / "single", plugins / "mine.py") == f"{place}/mine.py"


def test_plugins_that_are_too_large_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_BYTES", 2**20)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "images.npz").write_bytes(bytes(2**20 + 1))
    with pytest.raises(UserError, match=r"holds 1 MiB, and 1 MiB travel to a cluster; keep data in --data-dir"):
        source.gather(tmp_path / "staged", tmp_path / "plugins")


def test_a_node_like_this_one_lacks_nothing() -> None:
    assert probe.lacking(probe.versions(), ("json",), "", frozenset()) == ""


def test_a_node_without_a_dependency_is_told() -> None:
    assert "no absent_library;" in probe.lacking(probe.versions(), ("json", "absent_library"), "", frozenset())


def test_a_node_with_another_torch_is_told_with_both_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = probe.versions()
    other = tmp_path / "torch-9.9.9.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9.9+cu999\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert probe.lacking(here, *NOTHING) == f"torch 9.9.9 is there, {here['torch']} here; install the same"


def test_a_node_without_a_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    assert "temporary folder cannot be written" in probe.lacking(probe.versions(), *NOTHING)


def test_a_plugin_that_does_not_travel_is_told(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import absent_library")
    (tmp_path / "fine.py").write_text("X = 1")
    trouble = probe.lacking(probe.versions(), (), str(tmp_path), frozenset())
    assert trouble.startswith("the plug-in mine.py does not import there (ModuleNotFoundError: No module named")
    assert probe.lacking(probe.versions(), (), str(tmp_path), frozenset({"mine.py"})) == ""


def test_a_cluster_of_another_python_is_one_line_with_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(
            "Version mismatch: The cluster was started with:\n  Python: 3.12.1\nThis process with:\n  3.11.7"
        )

    monkeypatch.setattr(connection.ray, "init", refuse)
    with pytest.raises(UserError, match=r"cluster was started with: Python: 3\.12\.1 This process with: 3\.11\.7"):
        connection.connect("", Path())


NODES = [
    {"Resources": {"CPU": 4.0, "GPU": 1.0, "memory": 2.0**33}},
    {"Resources": {"CPU": 2.0, "memory": 2.0**33}},
]


@pytest.mark.parametrize(
    ("share", "runs"),
    [
        (Share(1, 0, 0), 6),
        (Share(4, 0, 0), 1),
        (Share(0.5, 0.25, 0), 4),
        (Share(1, 0, 2**32), 4),
        (Share(3, 0.4, 2**30), 1),
    ],
)
def test_there_is_room_for_as_many_runs_as_nodes_hold(share: Share, runs: int) -> None:
    assert share.room(NODES) == runs


def test_a_run_that_fits_on_no_node_is_one_line() -> None:
    with pytest.raises(UserError, match=r"no node of the Ray cluster has 1 CPUs, 2 GPUs and 4 GiB of memory"):
        Share(1, 2, 2**32).require_room(NODES)


@pytest.mark.parametrize(
    ("given", "named", "joined"),
    [("", None, "local"), ("", "auto", "auto"), ("local", "10.0.0.1:6379", "local")],
)
def test_without_an_address_no_cluster_of_before_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, named: str | None, joined: str
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(connection.ray, "init", lambda address, **options: asked.append(address))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if named is not None:
        monkeypatch.setenv("RAY_ADDRESS", named)
    connection.connect(given, tmp_path)
    assert asked == [joined]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "somewhere", "127.0.0.1:99999999"])
def test_an_address_of_the_environment_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UserError, match=f"^RAY_ADDRESS {address}(: nothing answers| is no address)"):
        connection.connect("", tmp_path)


def test_a_run_has_the_gpus_that_ray_gave_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    setup = Setup(tmp_path, None, None, "cuda:1", twins=False, environment=(("BENCH_DATA_DIR", "there"),))
    here = NodeFolders(tmp_path / "folders").settle(setup, TaskInputs(tmp_path / "no token", ""))
    assert here.device == "cuda"
    assert dict(here.environment) == {
        "CUDA_VISIBLE_DEVICES": "2",
        "BENCH_CACHE_DIR": str(tmp_path / "folders" / "cache"),
    }
