"""What two releases give away of a deleted record, and what hides it, after Bertran et al. 2024."""

from __future__ import annotations

from attacks.studies.base import Cell, Plot, Study

MNIST = {
    "ridge": "mnist-unlearn-ridge-5000",
    "softmax": "mnist-unlearn-softmax-5000",
    "Fourier features": "mnist-unlearn-rff-5000",
    "tanh network": "mnist-unlearn-mlp-5000",
}
DIGITS = {"ridge": "digits-unlearn-ridge-1000", "softmax": "digits-unlearn-softmax-1000"}
"""The victims of the studies of noise and of batches: they need no data set, and train in seconds."""
NOISE = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
BATCHES = (1, 2, 5, 10)
PENALTIES = (1, 10, 100, 1000)
PUBLIC = (300, 1000, 3000, 10_000)
COSINES = ("cosine", "cosine_public_nearest", "cosine_public_mean")


def noised(name: str, victim: str, strength: float) -> Cell:
    """Return the cell of a victim whose releases have noise of that relative strength."""
    noisy = f"{victim}+noise={strength:.15g}" if strength else victim
    return Cell({"model": name, "noise": strength}, "unlearning", noisy)


def batched(name: str, victim: str, records: int) -> Cell:
    """Return the cell of a victim that deletes `records` records at once."""
    together = f"{victim}-batch{records}" if records > 1 else victim
    return Cell({"model": name, "records": records}, "unlearning", together)


def estimated(penalty: int, public: int) -> Cell:
    """Return the cell of a ridge regression with this penalty, attacked with `public` public records."""
    victim = MNIST["ridge"] if penalty == 100 else f"{MNIST['ridge']}-lambda{penalty}"
    return Cell({"penalty": penalty, "public": public}, "unlearning", victim, {"public": public})


STUDIES: tuple[Study, ...] = (
    Study(
        name="unlearning",
        summary="distributions of the cosine between deleted records and reconstructions, by model",
        paper="Bertran et al. 2024, the figures of cosine similarities",
        cells=tuple(Cell({"model": name}, "unlearning", victim) for name, victim in MNIST.items()),
        smoke=(Cell({"model": "softmax"}, "unlearning", DIGITS["softmax"]),),
        plots=(Plot("cdf", "model", values=COSINES),),
    ),
    Study(
        name="unlearning-noise",
        summary="what noise on both releases leaves of the attack",
        paper="new here",
        cells=tuple(noised(name, victim, noise) for name, victim in DIGITS.items() for noise in (0.0, *NOISE)),
        smoke=tuple(noised("softmax", DIGITS["softmax"], noise) for noise in (0.0, 1e-3)),
        plots=(Plot("curve", "noise", "model", logarithmic=True),),
    ),
    Study(
        name="unlearning-batch",
        summary="what is left of the attack where several records are deleted at once",
        paper="new here",
        cells=tuple(batched(name, victim, records) for name, victim in DIGITS.items() for records in BATCHES),
        smoke=tuple(batched("softmax", DIGITS["softmax"], records) for records in (1, 2)),
        plots=(Plot("curve", "records", "model"),),
    ),
    Study(
        name="unlearning-public",
        summary="the attack over the penalty and the number of public records that the Hessian is estimated from",
        paper="new here",
        cells=tuple(estimated(penalty, public) for penalty in PENALTIES for public in PUBLIC),
        smoke=(Cell({"penalty": 10, "public": 200}, "unlearning", DIGITS["softmax"], {"public": 200}),),
        plots=(Plot("map", "public", "penalty", values=("n_good", "null_n_good", "mse_p50")),),
    ),
)
