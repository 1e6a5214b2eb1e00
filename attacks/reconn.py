"""RecoNN: a network that learns from shadow models to reconstruct the unknown record from a model's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from attacks.base import AttackContext, Reconstruction, VictimView
from attacks.informed.shadows import ShadowAttack, ShadowParams, Shadows
from victims.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from attacks.informed.reconstructor import Loss, Pairs


class ReconnParams(ShadowParams):
    """Parameters of `reconn`; the defaults are Table V's for MNIST, but the learning rate is the authors' notebook's.

    The decoder of the epoch with the least error on the shadows kept apart for `validation` is the one that is used.

    Attributes:
        decoder: "dense" for grey images, "convolutional" for colour ones (Table VII).
        hidden: widths of the dense decoder's hidden layers.
        optimizer: "rmsprop" (MNIST) or "adam" with weight decay 1e-4 (CIFAR-10).
        lr: learning rate of the optimizer.
        batch_size: batch size of the decoder's training.
        epochs: largest number of epochs.
        patience: number of epochs without a better validation error after which training ends.
        perceptual: weight of LPIPS in the loss.
        adversarial: weight of the patch discriminator's loss.
        rehearsal: number of shadows of another fixed set, from the end of the pool, on which the decoder is trained
            before it is fine-tuned to the fixed set (their Fig. 12); 0 for none. Their records are the images of the
            pool behind the first `shadows`.
    """

    decoder: Literal["dense", "convolutional"] = "dense"
    hidden: tuple[PositiveInt, ...] = (1000, 1000)
    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    lr: PositiveFloat = 3e-4
    batch_size: PositiveInt = 128
    epochs: PositiveInt = 100
    patience: PositiveInt = 15
    perceptual: NonNegativeFloat = 0.0
    adversarial: NonNegativeFloat = 0.0
    rehearsal: NonNegativeInt = 0


class Reconn(ShadowAttack[ReconnParams]):
    """Trains shadow models on the fixed set and an image each, and a decoder from their parameters to that image."""

    name = "reconn"
    summary = "a network trained on shadow models reconstructs the one unknown record"
    paper = "Balle, Cherubin, Hayes 2022"
    Params = ReconnParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        "black-box": {"released": "logits"},
        "colour": {
            "decoder": "convolutional",
            "optimizer": "adam",
            "lr": 1e-4,
            "perceptual": 1.0,
            "adversarial": 0.1,
        },
    }

    def decode(self, view: VictimView, shadows: Shadows, released: Tensor, ctx: AttackContext) -> Reconstruction:
        """Return the records that the trained decoder reads off the released models' features (T, p)."""
        import torch

        from attacks.informed.reconstructor import Pairs, apply
        from attacks.informed.standardisation import Standardisation

        def standardised(both: Shadows) -> tuple[Standardisation, Pairs, Pairs]:
            learned, apart = both.split(self.params.validation)
            scale = Standardisation.of(learned.features)
            first, second = (Pairs(scale(part.features), part.images) for part in (learned, apart))
            return scale, first, second

        seed = int(torch.randint(2**31, (), generator=ctx.generator))
        with torch.random.fork_rng(devices=[]):  # modules draw their weights from torch's own generator
            torch.manual_seed(seed)
            network = self._network(shadows).to(ctx.device)
            losses = self._losses(shadows, ctx)
        spent = 0
        if self.params.rehearsal:
            _, *pairs = standardised(self._rehearsed(view, ctx))
            _, spent = self._fit(network, losses, pairs, ctx, spent)
        scale, *pairs = standardised(shadows)
        error, spent = self._fit(network, losses, pairs, ctx, spent)
        return Reconstruction(
            candidates=apply(network, scale(released)),
            loss=error,
            grad_evals=spent,
            flags=shadows.flags,
        )

    def _network(self, shadows: Shadows) -> nn.Module:
        """Return the untrained decoder; raises UserError if it cannot make images of this size."""
        from attacks.informed.reconstructor import convolutional_reconstructor, dense_reconstructor

        inputs, shape = shadows.features.shape[1], shadows.images.shape[1:]
        if self.params.decoder == "dense":
            return dense_reconstructor(inputs, self.params.hidden, shape)
        if shape[1] % 4 or shape[2] % 4:
            raise UserError(
                f"the convolutional decoder makes images whose sides are multiples of 4, not {tuple(shape)}"
            )
        return convolutional_reconstructor(inputs, shape)

    def _losses(self, shadows: Shadows, ctx: AttackContext) -> Loss:
        """Return the decoder's loss: pixel loss, LPIPS and the discriminator's loss, weighted by the parameters."""
        from attacks.informed.discriminator import SMALLEST_SIDE, PatchDiscriminator
        from attacks.informed.reconstructor import pixel_loss

        terms: list[tuple[float, Loss]] = [(1.0, pixel_loss)]
        if self.params.perceptual:
            terms.append((self.params.perceptual, ctx.perceptual()))
        if self.params.adversarial:
            if min(shadows.images.shape[2:]) < SMALLEST_SIDE:
                raise UserError(f"a discriminator of patches needs images of at least {SMALLEST_SIDE} pixels a side")
            terms.append((self.params.adversarial, PatchDiscriminator(shadows.images.shape[1], ctx.device)))
        return lambda images, truth: sum(
            (weight * loss(images, truth).mean() for weight, loss in terms), images.new_zeros(())
        )

    def _rehearsed(self, view: VictimView, ctx: AttackContext) -> Shadows:
        """Return shadows of another fixed set, which has as many images as the true one, from the end of the pool.

        Their records follow those of the true shadows in the pool: a decoder that had learnt the images that are kept
        for validation would have its epoch chosen by what it knows.
        """
        images, labels = view.shadow_pool
        n, count, before = len(view.known_points[0]), self.params.rehearsal, self.wanted(view)
        if before + count + n > len(images):
            raise UserError(
                f"{before} shadows, a rehearsal of {count} and {n} other fixed images; the pool has {len(images)}"
            )
        extra = slice(before, before + count)
        return self.shadows(view, (images[-n:], labels[-n:]), (images[extra], labels[extra]), ctx)

    def _fit(
        self, network: nn.Module, loss: Loss, pairs: Sequence[Pairs], ctx: AttackContext, before: int
    ) -> tuple[float, int]:
        """Train the network in place; return its best validation error, and the number of steps plus `before`."""
        import torch

        from attacks.informed.reconstructor import Schedule, fit

        params = self.params

        def report(epoch: int, training_loss: float, error: float) -> None:
            ctx.report(epoch, params.epochs, loss=training_loss, validation_mse=error)

        optimizer: torch.optim.Optimizer
        if params.optimizer == "adam":
            optimizer = torch.optim.Adam(network.parameters(), params.lr, weight_decay=1e-4)
        else:
            optimizer = torch.optim.RMSprop(network.parameters(), params.lr, alpha=0.9)
        schedule = Schedule(params.epochs, params.batch_size, params.patience)

        def expired(step: int) -> bool:
            return ctx.expired(before + step)

        error, steps = fit(network, optimizer, loss, pairs[0], pairs[1], schedule, ctx.generator, report, expired)
        return error, before + steps
