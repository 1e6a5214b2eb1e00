"""How much of the errors that weights hold of an image a network explains: errors come back from its outputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.independent_components.adapted import Adapted
from attacks.independent_components.tail import Tailed
from attacks.known_start.equation import back_propagated
from victims.equations.network import Network

Explaining = Network | Tailed | Adapted
"""A network that explains errors: by the recursion through its gates, by autograd through its tail, or by either and
through a low-rank update."""
SHARPNESS = 35.0
"""Of the gates; as at the end of a search by `kkt-delta`."""
RIDGE = 1e-3
"""Of the least squares, in which errors have length 1."""


def explained(candidates: Tensor, held: Tensor, networks: Sequence[Explaining], sharpness: float = SHARPNESS) -> Tensor:
    """Return the share (m,) in [0, 1] of the squares of D_i that errors of the candidate make up.

    They are D_i's best approximation by what comes back from the outputs, for any coefficients on them, through the
    gates that the candidate opens.

    Args:
        candidates: (m, r), the inputs of the networks.
        held: (m, h) D_i, up to a factor each.
        networks: where errors are taken, each with coefficients of its own.
        sharpness: of the gates.
    """
    tiny = torch.finfo(held.dtype).tiny
    basis = torch.cat([_error_basis(network, candidates, sharpness) for network in networks], dim=1)
    basis = basis / basis.norm(dim=2, keepdim=True).clamp_min(tiny)
    seen = basis @ held[:, :, None]
    products = basis @ basis.mT + RIDGE * torch.eye(basis.shape[1]).to(basis)
    made: Tensor = (torch.linalg.solve_ex(products, seen).result * seen).sum((1, 2))  # no check, as in the likelihood
    return made / held.square().sum(1).clamp_min(tiny)


def of_one_label(candidates: Tensor, held: Tensor, network: Adapted) -> Tensor:
    """Return the cosine (m,) of D_i with the errors of the candidate under the label that fits best.

    They are those of a step that lowers the cross-entropy of several outputs: the label's is to rise, the others fall.

    Args:
        candidates: (m, r), the inputs of the network.
        held: (m, h) D_i, up to a positive factor each.
        network: where errors are taken.
    """
    passed = _error_basis(network, candidates, SHARPNESS)
    expected = network.answers(candidates).softmax(1)[:, None] @ passed
    return F.cosine_similarity(passed - expected, held[:, None], dim=2).amax(1)


def chance(rank: int, coefficients: int, neurons: int) -> float:
    """Return the share in [0, 1] of a mixture's errors that the networks can explain by chance.

    The errors of all mixtures span as many dimensions as there are images. Those nearest to the span of what comes back
    from the outputs are explained best. Of two random spans the share is the largest squared canonical correlation,
    which is given here at its limit for large spans (Wachter 1980).

    Args:
        rank: r, the number of images.
        coefficients: the number of outputs, of all networks together.
        neurons: h, of layer 1.
    """
    images, outputs = rank / neurons, coefficients / neurons
    if images + outputs >= 1:
        return 1.0
    return float((images * (1 - outputs)) ** 0.5 + (outputs * (1 - images)) ** 0.5) ** 2


def _error_basis(network: Explaining, candidates: Tensor, sharpness: float) -> Tensor:
    """Return the errors (m, C, h) of candidates (m, r) in layer 1, one for each of C outputs."""
    if isinstance(network, Adapted):
        return _error_basis(network.network, candidates, sharpness) @ network.inwards
    if isinstance(network, Tailed):
        return network.errors(candidates)
    outputs = torch.eye(network.outputs).to(candidates)
    errors, _ = back_propagated(network, candidates, outputs[:, None].expand(-1, len(candidates), -1), sharpness)
    return errors[0].movedim(0, 1)
