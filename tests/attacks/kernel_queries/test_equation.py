"""The equation of a kernel machine's answers: its derivatives, its minimum, its width."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch import Tensor

from attacks.kernel_queries.descent import step
from attacks.kernel_queries.equation import Answers, Fit
from attacks.kernel_queries.search import Search, Setting
from attacks.kernel_queries.transform import are_labels, kernel_sums, may_be_probabilities
from attacks.kernel_queries.width import read_width
from victims.kernel.machine import KernelMachine, kernel_values, squared_distances
from victims.kernel.spec import Kernel

KERNELS = get_args(Kernel)
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
GAMMA = 0.7


def machine(kernel: Kernel, points: Tensor, coefficients: Tensor, model: str = "ridge") -> KernelMachine:
    """A machine in float64, beyond what a victim stores."""
    made = KernelMachine(model, kernel, GAMMA, points, coefficients, torch.tensor([0.3, -0.2]))  # type: ignore[arg-type]
    return made.double()


def scene(kernel: Kernel, seed: int) -> tuple[Answers, Tensor, Tensor]:
    """Answers of a machine of three points in five dimensions with two outputs, and points near and far from them."""
    generator = torch.Generator().manual_seed(seed)
    points, moved = (torch.rand(3, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    coefficients = torch.randn(3, 2, generator=generator, dtype=torch.float64)
    queries = torch.rand(40, 5, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        values = machine(kernel, points, coefficients)(queries)
    return Answers(kernel, queries, values, constant=True), points, moved


@every_kernel
def test_the_truth_leaves_no_residual_and_has_its_coefficients(kernel: Kernel) -> None:
    answers, points, moved = scene(kernel, 0)
    width = torch.tensor(GAMMA, dtype=torch.float32).double().log()

    # the ridge of the normal equations leaves as much as it is relative to them
    assert Fit(answers, points.float().double(), width).loss < 1e-15
    assert Fit(answers, moved, width).loss > 1e-3
    assert Fit(answers, points.float().double(), width + 0.1).loss > 1e-6


@every_kernel
def test_the_slope_is_that_of_autograd(kernel: Kernel) -> None:
    answers, _, points = scene(kernel, 1)
    at, width = points.clone().requires_grad_(), torch.tensor(-0.3, dtype=torch.float64, requires_grad=True)
    basis = torch.cat(
        [kernel_values(kernel, width.exp(), squared_distances(answers.queries, at)), torch.ones(40, 1)], 1
    )
    best = torch.linalg.lstsq(basis, answers.values).solution
    residual = basis @ best - answers.values
    expected = torch.autograd.grad((residual * residual).sum() / 2, (at, width))
    fit = Fit(answers, points, width.detach())

    for found, wanted in zip(fit.backward(fit.residual), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9)


@every_kernel
def test_forward_is_the_derivative_at_fixed_coefficients_and_backward_its_transpose(kernel: Kernel) -> None:
    answers, _, points = scene(kernel, 2)
    width = torch.tensor(-0.3, dtype=torch.float64)
    fit = Fit(answers, points, width)
    generator = torch.Generator().manual_seed(0)
    moves, widening = torch.randn(3, 5, generator=generator, dtype=torch.float64), torch.tensor(0.4).double()

    def sums(by: Tensor) -> Tensor:
        squared = squared_distances(answers.queries, points + by * moves)
        return kernel_values(kernel, (width + by * widening).exp(), squared) @ fit.coefficients

    zero, one = torch.tensor(0.0, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
    _, change = torch.autograd.functional.jvp(sums, (zero,), (one,))
    basis = torch.cat([fit.values, torch.ones(40, 1)], 1).double()
    outside = change - basis @ torch.linalg.lstsq(basis, change).solution
    found = fit.forward(moves, widening)
    torch.testing.assert_close(found, outside, rtol=1e-6, atol=1e-9)

    back, back_width = fit.backward(found)
    inner = (back * moves).sum() + back_width * widening
    torch.testing.assert_close(inner, (found * found).sum(), rtol=1e-6, atol=0.0)


@every_kernel
def test_the_curvature_is_the_diagonal_of_the_squared_derivative(kernel: Kernel) -> None:
    answers, _, points = scene(kernel, 3)
    fit = Fit(answers, points, torch.tensor(-0.3, dtype=torch.float64))

    def sums(at: Tensor) -> Tensor:
        return kernel_values(kernel, fit.log_gamma.exp(), squared_distances(answers.queries, at)) @ fit.coefficients

    derivative = torch.autograd.functional.jacobian(sums, points)
    torch.testing.assert_close(fit.curvature[0], (derivative**2).sum((0, 1)))


@every_kernel
@pytest.mark.parametrize("seed", range(3))
def test_steps_from_nearby_end_at_the_truth_in_float64(kernel: Kernel, seed: int) -> None:
    answers, points, other = scene(kernel, seed)
    points = points.float().double()
    fit, damping = Fit(answers, points + 0.05 * (other - points), torch.tensor(GAMMA).double().log() + 0.05), 0.1
    for _ in range(40):
        fit, damping, _ = step(answers, fit, damping, (0.0, 1.0), True, 50, lambda: False)

    assert (fit.points - points).abs().max() < 1e-5
    assert float(fit.log_gamma.exp()) == pytest.approx(GAMMA, rel=1e-5)


@every_kernel
def test_no_step_leaves_the_box_or_raises_the_loss(kernel: Kernel) -> None:
    answers, _, points = scene(kernel, 4)
    fit, damping = Fit(answers, points, torch.tensor(0.0, dtype=torch.float64)), 1e-6
    for _ in range(5):
        moved, damping, _ = step(answers, fit, damping, (0.2, 0.8), False, 20, lambda: False)
        assert moved.loss <= fit.loss
        assert moved is fit or bool(((moved.points >= 0.2) & (moved.points <= 0.8)).all())
        assert moved.log_gamma == 0
        fit = moved


@every_kernel
def test_a_step_under_much_damping_goes_down_the_slope(kernel: Kernel) -> None:
    """Each image's step is its slope over the damping times its mean curvature."""
    answers, _, points = scene(kernel, 5)
    fit, damping = Fit(answers, points, torch.tensor(0.0, dtype=torch.float64)), 1e3
    moved, _, _ = step(answers, fit, damping, None, False, 50, lambda: False)
    slope, _ = fit.backward(fit.residual)
    expected = -slope / (damping * fit.curvature[0].mean(1, keepdim=True))
    torch.testing.assert_close(moved.points - points, expected, rtol=0.02, atol=0.02 * float(expected.abs().max()))


@every_kernel
def test_a_pixel_on_the_border_moves_where_the_slope_leads_inside(kernel: Kernel) -> None:
    answers, _, points = scene(kernel, 4)
    for border, box in ((points.clamp(max=0.5), (0.0, 0.5)), (points.clamp(min=0.5), (0.5, 1.0))):
        fit = Fit(answers, border, torch.tensor(0.0, dtype=torch.float64))
        slope, _ = fit.backward(fit.residual)
        low, high = border == box[0], border == box[1]
        moved, _, _ = step(answers, fit, 1e3, box, False, 50, lambda: False)
        inside, out = (low & (slope < 0)) | (high & (slope > 0)), (low & (slope > 0)) | (high & (slope < 0))
        assert inside.any() and out.any()
        assert torch.equal(moved.points[out], border[out])
        assert (moved.points[inside] != border[inside]).all()


@every_kernel
@pytest.mark.parametrize("gamma", [0.05, 0.7, 5.0])
def test_the_width_is_read_off_far_away(kernel: Kernel, gamma: float) -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(6, 9, generator=generator)
    made = KernelMachine("ridge", kernel, gamma, points, torch.randn(6, 2, generator=generator), torch.ones(2)).double()
    with torch.no_grad():
        found = read_width(made, lambda answers: answers, kernel, 9, 3.0, torch.Generator().manual_seed(1))

    # on a ray of length t the relative error is at most (1 - cos) of the angle to an image, (|x| / t)^2 / 2, beside
    # that of the differences; images have |x| <= 3, rays are 6 to 9 long where answers allow it
    assert found == pytest.approx(gamma, rel=0.5)


def test_answers_become_sums_of_kernels() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 3, generator=generator, dtype=torch.float64)
    centred = logits - logits.mean(1, keepdim=True)
    torch.testing.assert_close(kernel_sums("logistic", logits.softmax(1), probabilities=True), centred)
    torch.testing.assert_close(kernel_sums("svc", logits[:, :1].sigmoid(), probabilities=True), logits[:, :1])
    torch.testing.assert_close(kernel_sums("density", logits, probabilities=False), logits.exp())
    assert torch.equal(kernel_sums("ridge", logits, probabilities=False), logits)
    assert are_labels(torch.eye(3))
    assert may_be_probabilities(logits.softmax(1))
    assert may_be_probabilities(logits[:, :1].sigmoid())
    assert not may_be_probabilities(logits)
    assert not may_be_probabilities(logits.sigmoid() / 4)


@pytest.mark.parametrize("spreads", [(0.05, None), (None, 0.05)])
def test_a_round_whose_answers_could_be_probabilities_is_read_as_all_others_are(
    spreads: tuple[float | None, ...],
) -> None:
    """Decision values of one output lie between 0 and 1 around some images, and are no probabilities."""
    point, kept = torch.full((1, 4), 0.5, dtype=torch.float64), 30
    setting = Setting("svc", "gaussian", (1, 2, 2), 1, 2 * kept, kept, 400, (0.0, 1.0), GAMMA)

    def answer(queries: Tensor) -> Tensor:
        return (
            kernel_values("gaussian", torch.tensor(GAMMA), squared_distances(queries.flatten(1), point.float())) - 0.9
        )

    search = Search(setting, answer, torch.Generator().manual_seed(0), torch.device("cpu"), {})
    search._points = point
    for spread in spreads:
        search.ask(spread)
    asked = [may_be_probabilities(part) for part in search._answers.split(kept)]
    assert asked == [spread is not None for spread in spreads]
    again = Search(setting, answer, torch.Generator().manual_seed(0), torch.device("cpu"), search.state())
    for one in (search, again):
        torch.testing.assert_close(one.fit.answers.values, answer(one._queries.float()).double())


def test_the_surest_image_is_the_one_around_which_answers_are_explained_best() -> None:
    """By the mean squared residual of the queries nearest to each; that of all for an image that is nearest to none."""
    generator = torch.Generator().manual_seed(0)
    answers, points, moved = scene("gaussian", 6)
    setting = Setting("ridge", "gaussian", (1, 1, 5), 4, 40, 40, 40, (0.0, 1.0), GAMMA)
    search = Search(setting, lambda queries: queries, generator, torch.device("cpu"), {})
    far = torch.full((1, 5), 9.0, dtype=torch.float64)
    fit = Fit(answers, torch.cat([points[:1], moved[:2], far]), torch.tensor(GAMMA).double().log())
    search._fit = fit
    squares, nearest = fit.residual.square().mean(1), torch.cdist(answers.queries, fit.points).argmin(1)
    means = torch.stack([squares[nearest == image].mean() for image in range(3)] + [squares.mean()])
    found = search.reconstruction()
    assert found.confidence is not None
    torch.testing.assert_close(found.confidence, -(means / answers.values.square().sum()).float())


def test_of_one_output_the_sign_of_its_coefficient_is_an_images_class() -> None:
    answers, points, _ = scene("gaussian", 7)
    setting = Setting("svc", "gaussian", (1, 1, 5), 3, 40, 40, 40, (0.0, 1.0), GAMMA)
    search = Search(setting, lambda queries: queries, torch.Generator(), torch.device("cpu"), {})
    kernels = kernel_values("gaussian", GAMMA, squared_distances(answers.queries, points))
    signs = torch.tensor([[1.0], [-2.0], [3.0]], dtype=torch.float64)
    values = Answers("gaussian", answers.queries, kernels @ signs, constant=True)
    search._fit = Fit(values, points, torch.tensor(GAMMA).double().log())
    found = search.reconstruction()
    assert found.labels is not None
    assert found.labels.tolist() == [1, 0, 1]
    torch.testing.assert_close(found.coefficients, signs[:, 0].float(), rtol=1e-3, atol=1e-3)


def test_the_last_queries_are_the_ones_that_are_explained() -> None:
    setting, asked = Setting("ridge", "gaussian", (1, 1, 5), 2, 15, 10, 100, (0.0, 1.0), GAMMA), list[Tensor]()

    def answer(queries: Tensor) -> Tensor:
        asked.append(queries.flatten(1).double())
        return queries.flatten(1)[:, :1]

    search = Search(setting, answer, torch.Generator().manual_seed(0), torch.device("cpu"), {})
    for spread in (None, 0.1, 0.1):
        search.ask(spread)
    assert torch.equal(search._queries, torch.cat(asked)[-15:])
    assert torch.equal(search._answers, torch.cat(asked)[-15:, :1])


@pytest.mark.parametrize("width", [GAMMA, None])
def test_answers_that_are_all_alike_tell_no_image_and_end_the_search(width: float | None) -> None:
    """So are probabilities that are rounded until all classes have the same."""
    setting = Setting("ridge", "laplace", (1, 2, 2), 3, 40, 40, 400, (0.0, 1.0), width)
    search = Search(
        setting,
        lambda queries: torch.full((len(queries), 10), 0.1),
        torch.Generator().manual_seed(0),
        torch.device("cpu"),
        {},
    )
    search.ask(None)
    search.advance(5, lambda: False)
    search.ask(0.1)
    assert search.foretold
    search.settle(2, 2, 5, lambda: False)
    found = search.reconstruction()
    assert found.candidates.isfinite().all()
    assert found.loss == 0
    assert "all answers are alike: they tell no image" in found.flags
