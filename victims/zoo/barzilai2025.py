"""The victims of Barzilai et al. 2025: kernel machines on images of ten classes, which answer queries.

The kernels' widths are such that two images of a set have k = .2 to .3 on average, as the paper's have on its images.
"""

from __future__ import annotations

from victims.kernel.spec import Kernel, KernelFit, KernelSpec, Model
from victims.spec import VictimSpec

GAMMA: dict[str, dict[Kernel, float]] = {
    "digits": {"laplace": 0.5, "gaussian": 0.15},
    "mnist": {"laplace": 0.15, "gaussian": 0.015},
    "cifar": {"laplace": 0.08, "gaussian": 0.005},
}
"""Inverse widths by dataset and kernel."""
NAMES: dict[Model, str] = {"ridge": "krr", "svc": "svc", "logistic": "klr", "density": "kde"}


def machine(dataset: str, model: Model, n: int, kernel: Kernel = "laplace") -> VictimSpec:
    """Return the victim `<dataset>-<model>-<n>[-gaussian]`, with ten outputs."""
    variant = "" if kernel == "laplace" else f"-{kernel}"
    return VictimSpec(
        name=f"{dataset}-{NAMES[model]}-{n}{variant}",
        dataset=dataset,
        n=n,
        architecture=KernelSpec(model=model, kernel=kernel, outputs=10),
        training=KernelFit(gamma=GAMMA[dataset][kernel]),
    )


KERNELS: tuple[Kernel, ...] = ("laplace", "gaussian")
VICTIMS: tuple[VictimSpec, ...] = (
    *(machine("digits", "ridge", n) for n in (20, 50)),
    *(machine(dataset, model, 100, kernel) for dataset in ("digits", "mnist") for model in NAMES for kernel in KERNELS),
    *(machine("mnist", "ridge", n) for n in (20, 500)),
    machine("cifar", "ridge", 100),
)
