"""Scoring protocols: they match candidates to training images and say which reconstructions are good.

Matching, voting and rescaling are part of a published number, so each recipe has a name, and no board mixes names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.terminal.text import nearest
from victims.errors import UserError


@dataclass(frozen=True)
class Protocol:
    """A matching, a rescaling, a similarity and a threshold.

    Attributes:
        name: as in tables.
        matching: "nearest" by normalised distance, a candidate may serve many images; "one to one" at the smallest
            total distance, of rows of a table with the fewest wrong columns; "aligned" when candidate i was made for
            image i, as the informed adversary's are.
        downscale: factor by which colour images are shrunk before matching. Grey images (one channel) are always
            matched at full resolution, as in the authors' MNIST notebook.
        vote_ratio: None for the nearest candidate alone, else the ratio of `vote`.
        stretch: whether candidate + mean is stretched to fill [0, 1] (else clipped to it).
        ssim: the SSIM that `threshold` judges; "wang" falls back to "window3" for images under 11 pixels.
        good: "ssim": an image is good when its SSIM is above `threshold`; "columns": a row of a table is good when the
            share of its right columns is above `threshold`; "oracle": an image is good when its MSE is below the MSE of
            the nearest image that the attacker has, or, matched one to one and without any such image, by its SSIM;
            "named": a reconstruction is good when it is nearer (MSE) to its target than to every other record of the
            target's prior.
        source: where the recipe comes from.
        null: when the best null control gets much under it, by the published tables; empty if that is not said.
        version: raised when its scores or its null controls change and those of other protocols do not; else
            `METRIC_SUITE` is raised.
    """

    name: str
    matching: Literal["nearest", "one to one", "aligned"]
    source: str
    downscale: float = 1.0
    vote_ratio: float | None = None
    stretch: bool = True
    ssim: Literal["window3", "wang"] = "wang"
    good: Literal["ssim", "columns", "oracle", "named"] = "ssim"
    threshold: float = 0.4
    null: str = ""
    version: int = 1

    @property
    def subject(self) -> str:
        """What it scores: only protocols of one subject can take each other's place."""
        if self.matching == "aligned":
            return "records that are sought one by one"
        return "rows of tables" if self.good == "columns" else "images"


ALIKE = "large where images are alike (digits, faces) or few: held-out or random candidates pass for most of them"
"""Of a threshold of SSIM, whatever the matching."""

PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "haim2022-min",
            "nearest",
            "Haim et al. 2022, notebooks (ncc2, vote min)",
            downscale=0.5,
            ssim="window3",
            null=ALIKE,
            version=2,
        ),
        Protocol(
            "haim2022-mean",
            "nearest",
            "Haim et al. 2022, code (ncc2, vote mean, 1.1)",
            downscale=0.5,
            vote_ratio=1.1,
            ssim="window3",
            null=ALIKE,
            version=2,
        ),
        Protocol(
            "buzaglo2023", "nearest", "Buzaglo et al. 2023, eq. 16, B = 1.1", vote_ratio=1.1, null=ALIKE, version=2
        ),
        Protocol(
            "buzaglo2023-conv",
            "nearest",
            "Buzaglo et al. 2023, eq. 16, B = 1.5 (convolutions)",
            vote_ratio=1.5,
            null=ALIKE,
            version=2,
        ),
        Protocol("buzaglo2023-unique", "one to one", "buzaglo2023, a candidate counts once", null=ALIKE, version=2),
        Protocol("assigned", "one to one", "one to one, nothing rescaled", stretch=False, null=ALIKE, version=2),
        Protocol(
            "nearest-public",
            "one to one",
            "after Balle et al. 2022: nearer than the nearest held-out image, one to one",
            stretch=False,
            good="oracle",
            null="large on MNIST's digits, whose next ones are often nearer than all held-out ones",
            version=2,
        ),
        Protocol(
            "vero2023",
            "one to one",
            "rows of a table: accuracy of Vero et al. 2023, one to one, above 0.9",
            stretch=False,
            good="columns",
            threshold=0.9,
            version=2,
        ),
        Protocol("balle2022", "aligned", "Balle et al. 2022, section 5", stretch=False, good="oracle"),
        Protocol("hayes2023", "aligned", "Hayes et al. 2023: which of N", stretch=False, good="named"),
    )
}


def protocol_named(name: str) -> Protocol:
    """Return the protocol of that name.

    Raises:
        UserError: there is none.
    """
    if name not in PROTOCOLS:
        raise UserError(f"no scoring protocol is called {name!r}; {nearest(name, PROTOCOLS)}")
    return PROTOCOLS[name]
