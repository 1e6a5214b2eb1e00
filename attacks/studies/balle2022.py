"""The factor study of Balle et al. 2022: what of a victim's training helps, and what hinders, its reconstruction.

`paper_mse` is the paper's figure where it gives one as a number. Its default victims have a fixed set of 10,000 (MNIST)
or 5,000 (CIFAR-10) and 54,000 to 59,000 shadows; the cells here have fewer of both, which their flags tell, and
shorter training of the decoder, so directions can be compared and numbers cannot.
"""

from __future__ import annotations

from typing import Any

from attacks.studies.base import Cell, Plot, Study

SHADOWS, EPOCHS = 2000, 40
DEFAULT = "mnist-elu10-1000-default"


def cell(factor: str, level: str, paper: float | None, victim: str = DEFAULT, **params: Any) -> Cell:
    """Return a run of reconn whose row says which factor is at which level, and what the paper has there."""
    labels: dict[str, str | float] = {"factor": factor, "level": level}
    if paper is not None:
        labels["paper_mse"] = paper
    return Cell(labels, "reconn", victim, {"shadows": SHADOWS, "epochs": EPOCHS, **params})


MNIST = (
    cell("default", "", 0.0089),
    Cell({"factor": "decoder", "level": "ridge"}, "reconn-linear", DEFAULT, {"shadows": SHADOWS}),
    cell("fixed set", "500", None, "mnist-elu10-500-default"),
    cell("fixed set", "1000", 0.0094),
    cell("fixed set", "2000", None, "mnist-elu10-2000-default"),
    cell("width", "1", 0.0079, "mnist-elu1-1000-default"),
    cell("width", "100", 0.0079, "mnist-elu100-1000-default"),
    cell("width", "10-10", None, "mnist-elu10-10-1000-default"),
    cell("layers seen", "2 of 2, width 100", 0.0124, "mnist-elu100-1000-default", layers=(2,)),
    cell("layers seen", "1 of 2", None, layers=(1,)),
    cell("epochs", "50", None, "mnist-elu10-1000-epochs50"),
    cell("epochs", "250", 0.0121, "mnist-elu10-1000-epochs250"),
    cell("activation", "relu", 0.0182, "mnist-relu10-1000-default"),
    *(
        cell("activation", activation, None, f"mnist-{activation}10-1000-default")
        for activation in ("tanh", "sigmoid", "gelu", "softplus")
    ),
    cell("initialisation", "random", 0.0695, "mnist-elu10-1000-random"),
    cell("initialisation", "pretrained", None, "mnist-elu10-1000-pretrained"),
    # Table III
    cell("rate, momentum", ".01, 0", 0.0041, "mnist-elu10-1000-lr001-m0"),
    cell("rate, momentum", ".01, .9", 0.0049, "mnist-elu10-1000-lr001-m09"),
    cell("rate, momentum", ".2, 0", 0.0063, "mnist-elu10-1000-lr02-m0"),
    cell("rate, momentum", ".2, .9", 0.0089, "mnist-elu10-1000-lr02-m09"),
    cell("rate, momentum", ".01, 0, random initialisation", 0.0693, "mnist-elu10-1000-lr001-m0-random"),
    cell("rate, momentum", ".01, .9, random initialisation", 0.0691, "mnist-elu10-1000-lr001-m09-random"),
    cell("rate, momentum", ".2, 0, random initialisation", 0.0692, "mnist-elu10-1000-lr02-m0-random"),
    cell("rate, momentum", ".2, .9, random initialisation", 0.0695, "mnist-elu10-1000-lr02-m09-random"),
    *(
        cell("mini-batches", f"{size}, {order} order", None, f"mnist-elu10-1000-batch{size}{suffix}")
        for size in (100, 500)
        for order, suffix in (("known", ""), ("secret", "-secret"))
    ),
    cell("optimiser", "adam", None, "mnist-elu10-1000-adam"),
    cell("released", "logits on 200 images", 0.0110, released="logits", queries=200),
    cell("fine-tuned", "200 shadows after 1,800 of another fixed set", None, shadows=200, rehearsal=1800),
    cell("fine-tuned", "200 shadows alone", None, shadows=200),
)
COLOUR: dict[str, Any] = {"decoder": "convolutional", "optimizer": "adam", "lr": 1e-4}
TABLE_IX = {
    ("sgd", 1000): (0.0041, 0.0126, 0.0170),
    ("adam", 1000): (0.0052, 0.0065, 0.0068),
    ("sgd", 5000): (0.0049, 0.0201, 0.0761),
    ("adam", 5000): (0.0052, 0.0062, 0.0143),
    ("sgd", 10000): (0.0209, 0.0385, 0.0761),
    ("adam", 10000): (0.0081, 0.0208, 0.0357),
}
"""MSE after 100, 250 and 500 epochs, by optimiser and size of the fixed set."""

CIFAR = (
    *(
        cell(f"{optimizer}, fixed set {n}", f"{epochs} epochs", paper, f"cifar-cnn-{n}-{optimizer}{epochs}", **COLOUR)
        for (optimizer, n), row in TABLE_IX.items()
        for epochs, paper in zip((100, 250, 500), row, strict=True)
    ),
    cell("activation", "relu", 0.0324, "cifar-cnn-1000-relu", **COLOUR),
    cell("initialisation", "random", 0.0931, "cifar-cnn-1000-random", **COLOUR),
    cell("released", "logits on 500 images", 0.0198, "cifar-cnn-1000-sgd100", released="logits", queries=500, **COLOUR),
)

SMALL: dict[str, Any] = {"shadows": 600, "hidden": (300, 300), "lr": 1e-3}
SMOKE = (
    cell("default", "", None, "digits-elu10-100-default", **SMALL),
    cell("activation", "relu", None, "digits-relu10-100-default", **SMALL),
    cell("initialisation", "random", None, "digits-elu10-100-random", **SMALL),
    cell("released", "logits on 100 images", None, "digits-elu10-100-default", **SMALL, released="logits", queries=100),
)

ERRORS = (Plot("dots", "factor", "level", values=("mse_mean", "oracle_mse", "paper_mse"), logarithmic=True),)

STUDIES: tuple[Study, ...] = (
    Study(
        name="factors",
        summary="what makes reconn succeed or fail on MNIST: one factor of the victim's training at a time",
        paper="Balle, Cherubin, Hayes 2022, Tables II-IV",
        cells=MNIST,
        smoke=SMOKE,
        plots=ERRORS,
    ),
    Study(
        name="factors-cifar",
        summary="the same on CIFAR-10: optimiser, epochs, size of the fixed set (needs the whole data set)",
        paper="Balle, Cherubin, Hayes 2022, Tables II and IX",
        cells=CIFAR,
        smoke=SMOKE,
        plots=ERRORS,
    ),
    Study(
        name="factors-foreign",
        summary="reconn with shadows of another distribution (needs Fashion-MNIST)",
        paper="Balle, Cherubin, Hayes 2022, Section 5",
        cells=(cell("shadows", "fashion", None, "mnist-elu10-1000-fashion-shadows"),),
        smoke=SMOKE,
    ),
)
