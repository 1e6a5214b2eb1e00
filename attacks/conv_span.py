"""Reconstruction from a network behind a convolution, image by image, in the span of features that its weights show.

The equation is the condition that features lie in their span, without the stationarity residual: see
`attacks.feature_span.search`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attacks.base import Attack, AttackContext, Knowledge, Reconstruction, VictimView, declined_unless_layered
from attacks.feature_span.params import ConvSpanParams
from attacks.search_space import Range

if TYPE_CHECKING:
    from victims.exposure.card import Exposure
    from victims.spec import VictimSpec


class ConvSpan(Attack[ConvSpanParams]):
    """Images whose features lie in the span that the rows of the next layer show, each found by itself."""

    name = "conv-span"
    version = 2
    summary = (
        "images whose features behind convolutions lie in the span that the next layer shows; smooth where it is blind"
    )
    paper = "beyond Buzaglo et al. 2023; span checks after Petrov et al. 2024 (DAGER)"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS})
    Params = ConvSpanParams
    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {
        "": {
            "lr": Range(1e-2, 1, log=True),
            "init_scale": Range(1e-2, 1, log=True),
            "smoothness": Range(1e-5, 1e-1, log=True),
            "repulsion": Range(1e-2, 10, log=True),
        },
    }

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline networks whose layers are not known, and those without a convolution."""
        if (reason := declined_unless_layered(victim)) is not None:
            return reason
        if victim.architecture.kind != "conv":
            return f"{victim.architecture.label} has no convolution: use kkt-span"
        return None

    def doubt(self, exposure: Exposure) -> str | None:
        """Doubt a network that is at no stationary point."""
        return exposure.start_remains

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return the candidates of all rounds; the confidence is the share of their features' energy in the span."""
        import torch

        from attacks.feature_span.deflation import Deflation
        from attacks.feature_span.search import shown_span
        from victims.equations.network import Network

        shape = view.architecture.input_shape
        network = Network.of(view.weights, shape, ctx.device, torch.float32)
        span = shown_span(network.after_convolutions().weights[0])
        rounds = Deflation(network, span, self.params, ctx)
        rounds.run()
        shown = f"layer {network.convolutions + 1} shows {span.rank} directions"
        return Reconstruction(
            candidates=rounds.images.reshape(-1, *shape),
            confidence=1 - rounds.outside,
            resolved={"candidates": rounds.candidates},
            loss=float(rounds.outside.median()),
            grad_evals=rounds.spent,
            flags=(f"{shown}; {len(rounds.known)} candidates' features lie in their span",),
        )
