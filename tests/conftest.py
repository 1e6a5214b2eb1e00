"""What every test may use: a cache of its own, victims that train in a second, and the command line in-process."""

from __future__ import annotations

import compileall
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypotheses
from processes import Forked, carry_out, main, server_state, with_server
from stored_runs import PLAIN

from bench.store.records import RunRecord

ROOT = Path(__file__).parent.parent
# A shell starts what it puts into the background with Ctrl-C ignored, and the programs under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# No bound of time, which a busy machine breaks, and the same examples in every run.
hypotheses.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
hypotheses.load_profile("steady")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Compile the packages once for all processes, and let a worker that is done take over tests of the other.

    The slowest tests stand together. Python that is told to write no bytecode compiles a package in each process anew.
    """
    for package in ("attacks", "bench", "victims"):
        compileall.compile_dir(ROOT / package, quiet=2)
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def isolated(cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the user's is read or written: no cache, no data folder; and lines are long enough not to fold.

    Runs are executed in this process, which is quicker; tests of what executes them say how. A process that a test
    starts has one thread: threads of two workers that wait for each other on two cores double its time.
    """
    monkeypatch.setenv("BENCH_CACHE_DIR", str(cache_dir))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("BENCH_DATA_DIR", raising=False)
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("BENCH_JOBS", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def no_learned_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is downloaded and no judge is trained while a run is scored; both have tests of their own."""
    from bench.run.session import Session

    def learned_metrics(self: Session, dataset: str) -> Any:
        from bench.scoring.evaluation import LearnedMetrics

        return LearnedMetrics(perceptual_status="not in tests", judge_status="not in tests")

    monkeypatch.setattr(Session, "learned_metrics", learned_metrics)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plug-in folder with the tiny victims and the failing attacks."""
    folder = tmp_path_factory.mktemp("plugins")
    shutil.copy(ROOT / "tests" / "plugins" / "tiny.py", folder)
    return folder


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    status: int
    out: str
    err: str


Bench = Callable[..., Result]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bench:
    """Run the command line in this process."""
    from bench.cli.main import main

    def call(*args: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["bench", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Result(int(ended.value.code or 0), captured.out, captured.err)

    return call


@pytest.fixture
def run(bench: Bench, plugins: Path, results: Path) -> Bench:
    """Run `bench run` on the CPU with the plug-ins; the tiny faces are the victim unless the arguments name one."""

    def call(*args: object) -> Result:
        victim = () if "-v" in args else ("-v", "faces-mlp-4-tiny")
        folder = () if "--plugin-dir" in args else ("--plugin-dir", plugins)
        return bench("run", *args, *victim, "--device", "cpu", *folder, "--results-dir", results)

    return call


@pytest.fixture
def followed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Run the command line in this process, and its runs in processes of their own, which one server forks.

    A process of its own imports torch, and so does the server that it starts. Of the environment that is given, the
    variables of the suite reach the runs.
    """

    def call(environment: dict[str, str], *args: object) -> Result:
        monkeypatch.delenv("BENCH_JOBS", raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return bench(*args)

    return call


@pytest.fixture
def forked(tmp_path: Path) -> Iterator[Callable[..., Forked]]:
    """Start the command line in a process of its own, which may be killed; the server of `followed` forks it.

    It does not import torch, which a fresh one does twice: plug-ins are not rehearsed where torch is there. A server
    of its own takes seconds: who asks for none has its runs forked by the server that forked it.
    """
    from bench.run.executors import server

    started: list[Forked] = []

    def call(given: dict[str, str], *words: object, task: Callable[[], None] = main, own_server: bool = True) -> Forked:
        out, err = (tmp_path / f"forked-{len(started)}.{name}" for name in ("out", "err"))
        context = server.start(1)
        task = task if own_server else partial(with_server, server_state(), task)
        process = context.Process(target=carry_out, args=(given, list(map(str, words)), out, err, task))
        process.start()
        started.append(Forked(process, out, err))
        return started[-1]

    yield call
    for one in started:
        one.kill()
        one.communicate()


@pytest.fixture
def process() -> Bench:
    """Run Python in a process of its own."""

    def call(*args: object) -> Result:
        command = [sys.executable, *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ)
        return Result(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def record() -> Callable[..., RunRecord]:
    """Make run records that differ from a plain one in what is named."""

    def make(**changes: Any) -> RunRecord:
        plain: dict[str, Any] = {
            **PLAIN,
            "run_id": "kkt-faces-mlp-4-s0-0123456789",
            "attack": "kkt",
            "victim": "faces-mlp-4",
            "n": 4,
            "seed": 0,
            "metric_suite": "1",
            "n_good": 3,
            "null_n_good": 1,
            "ssim_mean": 0.123456789,
            "wall_s": 1.5,
        }
        return RunRecord(**(plain | changes))

    return make
