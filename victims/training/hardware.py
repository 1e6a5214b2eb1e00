"""The hardware that a number was measured on: its names, and how it is made to compute."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    import torch

Products = Literal["float32", "bfloat16"]
"""The precision to which products of float32 matrices round their factors."""
WARM_UP = 3
"""Calls of a function before a GPU records it: in the first, libraries set up what they keep."""
Result = TypeVar("Result")


def prepare(device: torch.device) -> None:
    """Set how the suite computes, in training and attack alike: at full precision, and the same for a seed.

    Products of float32 are float32: TF32 keeps 10 bits of the mantissa, and the residual that an attack minimises,
    like the trace that one image leaves in the weights, is smaller than what that rounds away. The recipes that the
    papers ran in float64 ask for it themselves (`dtype`). On a GPU only deterministic kernels are used where there are
    any, and cuBLAS gets the workspace that it needs for that.
    """
    import torch

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True, warn_only=True)


@contextmanager
def products_in(precision: Products) -> Iterator[None]:
    """Let products of float32 matrices round their factors to bfloat16, until the block ends.

    Sums are float32 all the same. A processor without units for it multiplies in float32. The setting is torch's, of
    the whole process.
    """
    import torch

    before = torch.get_float32_matmul_precision()
    if precision == "bfloat16":
        torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def cpu_name() -> str:
    """Return the processor's model and how many cores this process may use, e.g. `AMD EPYC 7B13 (2 cores)`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.processor() or platform.machine()} ({cores} cores)"


def gpu_name(device: torch.device) -> str:
    """Return the GPU's name, or the empty string for another device, and on a machine without GPUs."""
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" and torch.cuda.is_available() else ""


class Repeated(Generic[Result]):
    """A function that does the same at each call; a GPU records what it does, and then needs the host only to begin.

    A step of a search is some hundred small kernels, and a host starts them more slowly than a GPU ends them. Recorded
    as a CUDA graph they start together. On the CPU this is the function itself.

    Args:
        function: what it reads and writes are tensors that stay where they are; it draws nothing and waits for
            nothing. What it returns, and gradients that it leaves, are overwritten by the next call.
        device: where it computes.
    """

    def __init__(self, function: Callable[..., Result], device: torch.device) -> None:
        self._function, self._device = function, device
        self._calls, self._arguments = 0, tuple[Any, ...]()
        self._replay: Callable[[], Result] | None = None

    def __call__(self, *arguments: Any) -> Result:
        """Return what the function returns for these arguments, numbers that seldom change."""
        if self._device.type != "cuda":
            return self._function(*arguments)
        if arguments != self._arguments:
            self._calls, self._arguments, self._replay = 0, arguments, None
        if self._replay is None and self._calls == WARM_UP:
            self._replay = self._recorded()
        if self._replay is not None:
            return self._replay()
        self._calls += 1
        return self._warm()

    def _warm(self) -> Result:
        """Return what the function returns, called on a stream of its own, as recording wants it before."""
        import torch

        current, own = torch.cuda.current_stream(self._device), torch.cuda.Stream(self._device)
        own.wait_stream(current)
        with torch.cuda.stream(own):
            result = self._function(*self._arguments)
        current.wait_stream(own)
        return result

    def _recorded(self) -> Callable[[], Result]:
        """Return what replays the function, which it records without calling it."""
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device), torch.cuda.graph(graph):
            result = self._function(*self._arguments)

        def replay() -> Result:
            graph.replay()
            return result

        return replay
