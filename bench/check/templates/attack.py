"""Blurred noise, as an example."""

import torch

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction


class BlurParams(AttackParams):
    candidates: int = 100


class Blur(Attack[BlurParams]):
    name = "blur"
    summary = "blurred noise"
    paper = "nobody, 2026"
    needs = frozenset({Knowledge.ARCHITECTURE})
    Params = BlurParams

    def reconstruct(self, view, ctx):
        shape = view.architecture.input_shape
        noise = torch.randn(self.params.candidates, *shape, generator=ctx.generator)
        return Reconstruction(candidates=torch.nn.functional.avg_pool2d(noise, 3, stride=1, padding=1))
