"""Which of N records it was, from the trace of a private training (Hayes, Mahloujifar, Balle 2023).

The evidence for each record is `attacks.informed.naming.trace_evidence`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, VictimView
from victims.informed.spec import DenseSpec, Descent, SmallCNNSpec

if TYPE_CHECKING:
    from torch import Tensor


class PriorAwareParams(AttackParams):
    """Parameters of `prior-aware`.

    Attributes:
        evidence: what is compared between the records of the prior: "likelihood" of the trace, which no other rule
            beats; "inner-product", the paper's rule; "weights", without the trace, the distance of the released weights
            from where training on the record ends without noise.
    """

    evidence: Literal["likelihood", "inner-product", "weights"] = "likelihood"


class PriorAware(Attack[PriorAwareParams]):
    """Names the record of the prior whose clipped gradients are in the noisy ones.

    The adversary knows all other records, so it subtracts their clipped gradients from every noisy sum. What is left is
    noise and, where the target was in the batch, its clipped gradient.
    """

    name = "prior-aware"
    summary = "which of N records it was, from the noisy gradients of a private training"
    paper = "Hayes, Mahloujifar, Balle 2023"
    setting = "informed"
    protocol = "hayes2023"
    needs = frozenset(
        {
            Knowledge.ARCHITECTURE,
            Knowledge.KNOWN_POINTS,
            Knowledge.TRAINING,
            Knowledge.INITIAL_WEIGHTS,
            Knowledge.GRADIENT_TRACE,
            Knowledge.PRIOR,
        }
    )
    Params = PriorAwareParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {"evidence": "inner-product"},
        "model": {"evidence": "weights"},
    }

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """The items of `needs`, with the weights instead of the trace for the evidence of the weights."""
        if self.params.evidence != "weights":
            return self.needs
        return self.needs - {Knowledge.GRADIENT_TRACE} | {Knowledge.WEIGHTS}

    def supports(self, victim: Any) -> str | None:
        """Decline victims whose trace is not released."""
        return None if victim.prior is not None else "no trace of its training is released, and no prior"

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return the likeliest record of each target's prior."""
        import torch

        from attacks.informed.naming import end_evidence, trace_evidence
        from victims.informed.private_descent import PrivateDescent

        spec, training, start, prior = view.architecture.spec, view.training, view.initial_weights, view.prior
        assert isinstance(spec, DenseSpec | SmallCNNSpec)
        assert isinstance(training, Descent)
        assert start is not None
        problem = PrivateDescent(spec, training, *view.known_points)
        count, spent = len(prior[1]), 0

        def told(step: int, evidence: Tensor) -> bool:
            nonlocal spent
            spent = step * count
            ctx.report(step, training.epochs, margin=-float(_lead(evidence).mean()))
            return ctx.expired(step)

        with torch.no_grad():
            if self.params.evidence == "weights":
                evidence = end_evidence(problem, start, view.weights, prior, told)
            else:
                likelihood = self.params.evidence == "likelihood"
                evidence = trace_evidence(spec, problem, start, view.gradient_trace, prior, likelihood, told)
        named, everyone = evidence.argmax(1), torch.arange(count, device=evidence.device)
        flags: tuple[str, ...] = ()
        if self.params.evidence == "likelihood":
            expected = float(evidence.softmax(1).amax(1).sum())
            flags = (f"expects to have named {expected:.1f} of {count}",)
        return Reconstruction(
            candidates=prior[0][everyone, named].float(),
            labels=prior[1][everyone, named],
            confidence=_lead(evidence),
            grad_evals=spent,
            flags=flags,
        )


def _lead(evidence: Tensor) -> Tensor:
    """Return how far the best record of each prior is ahead of the second, (T,), for evidence (T, N)."""
    best = evidence.topk(2, 1).values
    return best[:, 0] - best[:, 1]
