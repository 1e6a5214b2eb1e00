"""Reconstruction from what tells neighbouring neurons of a network with one output apart: few training images.

The equations are in `attacks.sparse_dictionary`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attacks.base import (
    Attack,
    AttackContext,
    Knowledge,
    Reconstruction,
    VictimView,
    declined_unless_layered,
    no_reconstruction,
)
from attacks.search_space import Range
from attacks.sparse_dictionary.params import DifferencesParams

if TYPE_CHECKING:
    from victims.exposure.card import Exposure
    from victims.spec import VictimSpec


class NeuronDifferences(Attack[DifferencesParams]):
    """Atoms over which the differences of neighbouring rows of [W1, b1] have sparse codes.

    It needs neither labels nor loss, and no residual: an atom is a training image wherever few of them lie between
    neighbouring neurons, though the network be far from a stationary point.
    """

    name = "neuron-differences"
    summary = "atoms over which differences of neighbouring neurons are sparse, where there is one output"
    paper = "beyond Haim et al. 2022; sparse dictionaries after Spielman et al. 2012, Bai et al. 2019"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS})
    Params = DifferencesParams
    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {
        "": {"lr": Range(1e-2, 1, log=True)},  # the objective, how sparse the codes are, does not depend on the ridge
    }

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline layers that are not known, convolutions, no hidden layer, and more than two outputs."""
        if (reason := declined_unless_layered(victim)) is not None:
            return reason
        network = victim.architecture
        if network.kind != "mlp" or not network.hidden:
            return f"{network.label}: it compares the neurons of a fully connected first layer, with layers behind it"
        if network.outputs > 2:
            return f"{network.outputs} outputs: its neurons differ in more than gates; use kkt-span"
        return None

    def doubt(self, exposure: Exposure) -> str | None:
        """Doubt a network whose first layer still holds its start."""
        return exposure.start_remains

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return the atoms of all stages; the confidence in an atom is its mean agreement with the other stages."""
        import torch

        from attacks.sparse_dictionary.neurons import Neurons
        from attacks.sparse_dictionary.stages import Stages
        from victims.equations.network import Network

        shape = view.architecture.input_shape
        network = Network.of(view.weights, shape, ctx.device, torch.float32)
        if network.biases[0] is None or not network.biases[0].any():
            return no_reconstruction(shape, "its first layer has no biases, which tell the sign of an atom")
        neurons = Neurons.of(network)
        stages = Stages(neurons, self.params, ctx)
        stages.run()
        told = (f"W1 shows {neurons.rank} directions",)
        if not len(stages.atoms):
            return no_reconstruction(shape, *told, "its neurons lie on few points")
        images, factor = stages.atoms[:, :-1], stages.atoms[:, -1:]
        lengths = images.norm(dim=1, keepdim=True)
        tiny = torch.finfo(images.dtype).tiny
        length = (lengths / factor.abs().clamp_min(tiny)).median()
        return Reconstruction(
            candidates=(images * factor.sign() / lengths.clamp_min(tiny) * length).reshape(-1, *shape),
            confidence=stages.agreement(),
            loss=stages.sparsity,
            grad_evals=stages.spent,
            flags=told,
        )
