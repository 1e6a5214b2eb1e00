"""Victims that train in a moment, and attacks that fail in every way."""

from typing import ClassVar

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction
from victims.spec import MLPSpec, NormalizedDescent, VictimSpec

SMALL = NormalizedDescent(steps=60)
VICTIMS = (
    VictimSpec(name="faces-mlp-4-tiny", dataset="faces", n=4, architecture=MLPSpec(hidden=(16, 16)), training=SMALL),
    VictimSpec(
        name="digits-mlp-6-tiny",
        dataset="digits",
        n=6,
        architecture=MLPSpec(hidden=(12, 10), biases="all"),
        training=SMALL,
    ),
    VictimSpec(
        name="digits-mlp-6-c3",
        dataset="digits",
        n=6,
        architecture=MLPSpec(hidden=(12, 10), outputs=3),
        training=SMALL,
    ),
)


class Params(AttackParams):
    count: int = 3


class Tiny(Attack):
    """Zeros; counts how often it is called."""

    name = "tiny"
    summary = "zeros [as many] as asked for"
    needs = frozenset({Knowledge.ARCHITECTURE})
    Params = Params
    variants: ClassVar = {"many": {"count": 9}}
    calls: ClassVar = []

    def reconstruct(self, view, ctx):
        import torch

        self.calls.append(self.params.count)
        images = torch.zeros(self.params.count, *view.architecture.input_shape)
        return self.answer(images, view)

    def answer(self, images, view):
        return Reconstruction(candidates=images)


class Raises(Tiny):
    name = "raises"

    def answer(self, images, view):
        raise RuntimeError("the wheel came off\nand rolled away")


class Exits(Tiny):
    name = "exits"

    def answer(self, images, view):
        raise SystemExit("had enough")


class Interrupted(Tiny):
    name = "interrupted"

    def answer(self, images, view):
        raise KeyboardInterrupt


class NotANumber(Tiny):
    name = "nan"

    def answer(self, images, view):
        return Reconstruction(candidates=images * float("nan"))


class HalfNotANumber(Tiny):
    name = "half-nan"

    def answer(self, images, view):
        images[0] = float("nan")
        return Reconstruction(candidates=images)


class WrongShape(Tiny):
    name = "wrong-shape"

    def answer(self, images, view):
        return Reconstruction(candidates=images[..., 1:])


class NoCandidates(Tiny):
    name = "no-candidates"

    def answer(self, images, view):
        return Reconstruction(candidates=images[:0])


class ReturnsNothing(Tiny):
    name = "returns-nothing"

    def answer(self, images, view):
        return None


class BadLabels(Tiny):
    name = "bad-labels"

    def answer(self, images, view):
        return Reconstruction(candidates=images, labels=["cat"])


class BadCount(Tiny):
    name = "bad-count"

    def answer(self, images, view):
        return Reconstruction(candidates=images, grad_evals=-1)


class BadLoss(Tiny):
    name = "bad-loss"

    def answer(self, images, view):
        return Reconstruction(candidates=images, loss=float("inf"))


class Peeks(Tiny):
    name = "peeks"

    def answer(self, images, view):
        return Reconstruction(candidates=images, labels=view.labels)


class Vandal(Tiny):
    name = "vandal"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.LABELS, Knowledge.DATA_MEAN})

    def answer(self, images, view):
        for value in view.weights.values():
            value.zero_()
        view.labels.zero_()
        view.data_mean.fill_(9)
        return Reconstruction(candidates=images)


class Picky(Tiny):
    name = "picky"

    def supports(self, victim):
        return "only likes cats"


class Confused(Tiny):
    name = "confused"

    def supports(self, victim):
        raise TypeError("what is a victim?")
