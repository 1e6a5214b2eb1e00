"""The training images of a kernel machine from what it answers to queries (Barzilai et al. 2025)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, VictimView
from victims.recipes.geometric import geometric

if TYPE_CHECKING:
    from torch import Tensor

    from attacks.kernel_queries.search import Search
    from victims.spec import VictimSpec


class KernelQueryParams(AttackParams):
    """Parameters of `kernel-query`.

    Attributes:
        images: number of training images that is assumed; None for n, which is then asked for.
        surplus: candidates for each of them. Those in excess find what the others overlook, and end with small
            coefficients or beside another.
        queries: how many queries are asked in all, at least 200, since the width alone takes up to 193 where answers
            are rounded; None for `equations` a round.
        equations: numbers answered in a round for each unknown (pixels and coefficients); as many of the last ones
            are explained at a time.
        rounds: how often it asks: first all over the box of pixels, then around the candidates.
        steps: Gauss-Newton steps in a round.
        iterations: most conjugate-gradient iterations in a step.
        spread: standard deviation of queries around a candidate in the second round and in the last, in ranges of a
            pixel; in between it falls geometrically.
        pixels: range of a pixel in the victim's input space, which an interface tells; None for any.
        width: whether the kernel's width is "found", or "told" (then it is asked for).
    """

    images: PositiveInt | None = None
    surplus: Annotated[float, Field(ge=1)] = 1.2
    queries: Annotated[int, Field(ge=200)] | None = None
    equations: PositiveFloat = 4.0
    rounds: PositiveInt = 8
    steps: PositiveInt = 12
    iterations: PositiveInt = 100
    spread: tuple[PositiveFloat, PositiveFloat] = (0.2, 0.1)
    pixels: tuple[float, float] | None = (0.0, 1.0)
    width: Literal["found", "told"] = "found"

    @field_validator("pixels")
    @classmethod
    def _range_rises(cls, pixels: tuple[float, float] | None) -> tuple[float, float] | None:
        if pixels is not None and pixels[0] >= pixels[1]:
            raise ValueError("the range of a pixel is (low, high)")
        return pixels


class KernelQuery(Attack[KernelQueryParams]):
    """Looks for images and coefficients whose kernel machine answers as the victim does.

    It asks all over the box of pixels, explains the answers, asks around the images found, and so on: near an image
    its own kernel is steep and those of the others are not. When its images explain the answers to a new round, too, it
    drops the candidates in excess, those of the smallest coefficients, and ends.
    """

    name = "kernel-query"
    summary = "the training images of a kernel machine, from its answers to queries"
    paper = "Barzilai et al. 2025"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.LOGITS, Knowledge.N})
    protocol = "nearest-public"
    Params = KernelQueryParams

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """The items of `needs`, without n if it is assumed, and with the width if it is to be told."""
        less = set() if self.params.images is None else {Knowledge.N}
        more = {Knowledge.KERNEL_WIDTH} if self.params.width == "told" else set()
        return (self.needs - less) | more

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline what is no kernel machine."""
        architecture = victim.architecture
        return None if architecture.kind == "kernel" else f"{architecture.label} is no kernel machine"

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Ask and explain by turns, and return the images that explain the last answers."""
        state = ctx.resume()
        search = self._search(view, ctx, state)
        total = self.params.rounds * self.params.steps

        def expired() -> bool:
            return ctx.expired(search.done)

        if not state:
            search.ask(None)
        while search.done < total and not expired():
            if search.done and search.done % self.params.steps == 0:
                search.ask(self._spread(search.done // self.params.steps))
                if search.foretold:
                    break
            search.advance(self.params.iterations, expired)
            ctx.report(search.done, total, loss=search.fit.loss, queries=search.asked)
            ctx.checkpoint(search.state)
        search.settle(self._images(view), self.params.steps, self.params.iterations, expired)
        return search.reconstruction()

    def _search(self, view: VictimView, ctx: AttackContext, state: dict[str, Tensor]) -> Search:
        from attacks.kernel_queries.search import Search, Setting

        params, architecture = self.params, view.architecture
        spec = architecture.spec
        assert spec.kind == "kernel"
        count = math.ceil(params.surplus * self._images(view))
        unknowns = count * (math.prod(architecture.input_shape) + spec.outputs)
        kept = math.ceil(params.equations * unknowns / spec.outputs)
        setting = Setting(
            model=spec.model,
            kernel=spec.kernel,
            shape=architecture.input_shape,
            candidates=count,
            kept=kept,
            each=kept if params.queries is None else math.ceil(params.queries / params.rounds),
            most=params.queries or kept * params.rounds,
            pixels=params.pixels,
            width=view.kernel_width if params.width == "told" else None,
        )
        return Search(setting, view.logits, ctx.generator, ctx.device, state)

    def _images(self, view: VictimView) -> int:
        """Return how many training images there are, or are assumed to be."""
        return view.n if self.params.images is None else self.params.images

    def _spread(self, round_: int) -> float:
        """Return the standard deviation, in ranges of a pixel, of the queries around candidates in a round >= 1."""
        return geometric(self.params.spread, round_ - 1, max(self.params.rounds - 2, 1))
