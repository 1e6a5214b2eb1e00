"""What a Ray cluster of this machine adds to runs of a known length: time besides them, and bytes moved.

    python tests/benchmarks/on_a_cluster.py 100 8 2

makes 100 runs of an attack that sleeps 8 s, two at a time. `besides` is the share of the time of both places in which
no process of a run was at work: the start of the plan, transfers, and waiting for the driver.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "bench" / "run" / "executors")]
from world import PLUGIN, make_world  # noqa: E402

from bench.cli.app import say  # noqa: E402

SLEEPER = """
import time

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction


class Params(AttackParams):
    seconds: float = 1.0


class Sleeper(Attack):
    name = "sleeper"
    summary = "sleeps"
    needs = frozenset({Knowledge.ARCHITECTURE})
    Params = Params

    def reconstruct(self, view, ctx):
        import torch

        time.sleep(self.params.seconds)
        return Reconstruction(candidates=torch.randn(3, *view.architecture.input_shape, generator=ctx.generator))
"""
LINE = re.compile(r"on the cluster (\d+) runs took (\d+) s of its nodes in (\d+) s; ([\d.]+) MiB of files moved")


def main(runs: int, seconds: float, places: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = make_world(Path(folder))
        (world.plugins / "mini.py").write_text(PLUGIN)
        (world.plugins / "sleeper.py").write_text(SLEEPER)
        plan = ("-a", "sleeper", "-v", "mini-mlp-4", "--controls", "quick", "--seeds", f"0-{runs - 1}")
        done = world.run(*plan, "--set", f"seconds={seconds}", "--executor", "ray", "--jobs", places)
        found = LINE.search(done.stdout)
        assert done.returncode == 0 and found, done.stdout + done.stderr
        ended, busy, took, moved = map(float, found.groups())
        asleep = world.rows()["wall_s"].sum()
    say(f"{ended:.0f} runs: {asleep:.0f} s of attacks, {busy:.0f} s of processes, {took:.0f} s on {places} places")
    say(f"{moved:.1f} MiB moved; besides the processes: {1 - busy / (places * took):.1%}")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
