"""Training: in the span and out of it, to the letter of the recipe."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from twelve import CPU, problem, spec

from victims.equations.architectures import MLP, build
from victims.equations.losses import margins, sample_losses, signs
from victims.equations.optimality import stationarity_residuals
from victims.spec import ConvSpec, DecayedDescent, GradientDescent, MLPSpec, NormalizedDescent, Regularised, VictimSpec
from victims.training.loop import algorithm, train
from victims.training.regularised import relative_gradient
from victims.training.span import InputSpan
from victims.training.state import TrainState
from victims.unfinished import Unfinished


def train_on_pixels(victim: VictimSpec, inputs: torch.Tensor, labels: torch.Tensor) -> MLP:
    """The same algorithm without the span: every step on pixels."""
    dtype = getattr(torch, victim.training.dtype)
    model = build(victim.architecture, inputs.shape[1:], torch.Generator().manual_seed(victim.seed), dtype)
    state = TrainState(model, outside_norm=0.0, outside_scale=torch.ones((), dtype=dtype))
    method = algorithm(victim)
    method.start(state)
    while state.step < method.steps:
        method.step(state, inputs.flatten(1).to(dtype), labels)
        state.step += 1
    return model


@pytest.mark.parametrize("biases", ["first", "all"])
@pytest.mark.parametrize(
    "training",
    [
        GradientDescent(lr=0.1, epochs=300),
        GradientDescent(lr=0.1, epochs=100, batch_size=5),
        NormalizedDescent(steps=300, dtype="float64"),
    ],
    ids=["gd", "sgd", "normalized"],
)
def test_span_training_equals_plain_training(
    training: GradientDescent | NormalizedDescent, biases: str, tmp_path: Path
) -> None:
    victim = spec(training, biases=biases)
    inputs, labels = problem()
    inside = train(victim, inputs, labels, CPU, Unfinished(), lambda at: None)
    plain = train_on_pixels(victim, inputs, labels)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(inside.state_dict()[name], value, rtol=1e-7, atol=1e-9)


def test_gradient_descent_is_the_papers_recipe(tmp_path: Path) -> None:
    """One epoch is theta - lr * grad of torch's own BCE on labels {0, 1}."""
    victim = spec(GradientDescent(lr=0.01, epochs=1))
    inputs, labels = problem()
    model = build(victim.architecture, (30,), torch.Generator().manual_seed(1), torch.float64)
    torch.nn.functional.binary_cross_entropy_with_logits(model(inputs.double()), labels.double()).backward()
    trained = train(victim, inputs, labels, CPU, Unfinished(), lambda at: None)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(trained.state_dict()[name], parameter.detach() - 0.01 * parameter.grad)


def test_initialisation_is_the_papers() -> None:
    model = build(MLPSpec(hidden=(400, 300)), (500,), torch.Generator().manual_seed(0), torch.float64)
    state = model.state_dict()
    assert set(state) == {"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.2.weight"}
    assert float(state["layers.0.weight"].std()) == pytest.approx(1e-4, rel=0.01)
    assert float(state["layers.1.weight"].abs().max()) <= 1 / 20
    assert float(state["layers.1.weight"].var()) == pytest.approx(1 / (3 * 400), rel=0.02)
    everywhere = build(MLPSpec(hidden=(8, 7), biases="all"), (5,), torch.Generator(), torch.float32).state_dict()
    assert "layers.1.bias" in everywhere and "layers.2.bias" not in everywhere


@pytest.mark.parametrize("biases", ["first", "all"])
def test_rescaling_by_degrees_scales_the_function(biases: str) -> None:
    model = build(MLPSpec(hidden=(9, 8, 7), biases=biases), (6,), torch.Generator().manual_seed(2), torch.float64)  # type: ignore[arg-type]
    inputs = torch.randn(5, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    before = model(inputs)
    with torch.no_grad():
        for parameter, degree in zip(model.parameters(), model.degrees(), strict=True):
            parameter.mul_(1.3**degree)
    torch.testing.assert_close(model(inputs), before * 1.3**4)


def test_normalized_descent_reaches_the_kkt_direction(tmp_path: Path) -> None:
    """The smallest margin is held at 10, so the mean loss is at most log(1 + exp(-9.9)) = 5e-5.

    The direction is near: seeds 1 to 6 end at 0.13 to 0.20 (mean 0.16, standard deviation 0.025) of the weights that no
    multipliers explain, and 0.3 is over 5 deviations off. They start at 1.00 to 1.03.
    """
    victim = spec(NormalizedDescent(steps=4000, dtype="float64"))
    inputs, labels = problem()
    model = train(victim, inputs, labels, CPU, Unfinished(), lambda at: None)
    outputs = model(inputs.double()).detach()
    assert float(margins(outputs, labels).min()) == pytest.approx(10, abs=0.1)
    assert float(sample_losses("cross-entropy", outputs, labels).mean()) < 5.1e-5
    start = build(victim.architecture, (30,), torch.Generator().manual_seed(1), torch.float64)
    trained, untrained = (max(stationarity_residuals(victim, m.float(), inputs, labels)) for m in (model, start))
    assert trained < 0.3
    assert untrained > 0.9


@pytest.mark.parametrize("outputs", [2, 3])
def test_normalized_descent_takes_several_classes(outputs: int, tmp_path: Path) -> None:
    victim = spec(NormalizedDescent(steps=2000, dtype="float64"), outputs=outputs)
    inputs, _ = problem()
    labels = torch.arange(12) % outputs
    model = train(victim, inputs, labels, CPU, Unfinished(), lambda at: None)
    assert float(margins(model(inputs.double()).detach(), labels).min()) == pytest.approx(10, abs=0.1)
    start = build(victim.architecture, (30,), torch.Generator().manual_seed(1), torch.float64)
    trained, untrained = (max(stationarity_residuals(victim, m.float(), inputs, labels)) for m in (model, start))
    assert trained < 0.5 * untrained


@pytest.mark.parametrize("loss", ["cross-entropy", "l2", "l2.5", "huber"])
def test_decayed_descent_reaches_the_scale_of_a_stationary_point(loss: str, tmp_path: Path) -> None:
    """theta = sum_i l_i grad Phi(x_i), tied to the loss, along theta itself: L sum_i l_i Phi(x_i) = ||theta||^2."""
    victim = spec(DecayedDescent(steps=800, rate=(3e-2, 1e-6), dtype="float64")).model_copy(update={"loss": loss})
    inputs, labels = problem()
    model = train(victim, inputs, labels, CPU, Unfinished(), lambda at: None)
    outputs = model(inputs.double()).detach().requires_grad_()
    (slope,) = torch.autograd.grad(sample_losses(victim.loss, outputs, labels).mean(), outputs)
    square_norm = sum(float(parameter.detach().square().sum()) for parameter in model.parameters())
    product = -3 * float((slope * outputs.detach()).sum()) / victim.weight_decay
    assert product == pytest.approx(square_norm, rel=1e-2)


def test_on_the_kinks_zero_lies_in_the_subdifferential(tmp_path: Path) -> None:
    """What autograd's derivative of 0 or 1 leaves of the stationarity condition, one in [0, 1] takes away.

    The training ends on the kinks. Seeds 1 to 8 leave 0.158 with a derivative of 0 or 1, and 0.0035 to 0.0079 with one
    between, in layer 1 between 1/20 and 1/60 of it.
    """
    victim = spec(DecayedDescent(steps=500, corners=(0.03, 0.001), iterations=150, dtype="float64"))
    inputs, labels = problem()
    model = train(victim, inputs, labels, CPU, Unfinished(), lambda at: None)
    exact, outputs = inputs.double(), model(inputs.double())
    loss = sample_losses("cross-entropy", outputs, labels).mean()
    first = model.layers[0]
    gradients = torch.autograd.grad(loss, [first.weight, first.bias], retain_graph=True)
    parameters = [first.weight.detach(), first.bias.detach()]
    left = torch.cat([(p + g / 1e-3).flatten() for p, g in zip(parameters, gradients, strict=True)])
    zero_or_one = float(left.norm() / torch.cat([p.flatten() for p in parameters]).norm())
    free = stationarity_residuals(victim, model, exact, labels)
    assert max(free) < 0.03
    assert zero_or_one > 0.1
    assert zero_or_one > 4 * free[0]


def test_a_training_that_rounds_the_kinks_ends_at_a_stationary_point(tmp_path: Path) -> None:
    """theta = sum_i l_i grad Phi(x_i) with coefficients tied to the loss holds in every layer, of the ReLU network.

    L-BFGS ends at a relative gradient of 4e-3, `rounded.TOLERANCE`, of three layers of one norm: in one of them at most
    sqrt(3) as much, 0.007. What the corner's width adds is of the order of the width, 0.001 of a pre-activation. Seeds
    1 to 8 end at 0.0035 to 0.0079 (mean 0.0049, standard deviation 0.0014), the descent alone at 80 to 165 times that.
    """
    inputs, labels = problem()
    residuals = []
    for corners in ((), (0.03, 0.001)):
        victim = spec(DecayedDescent(steps=500, corners=corners, iterations=150, dtype="float64"))
        model = train(victim, inputs, labels, CPU, Unfinished(), lambda at: None)
        residuals.append(max(stationarity_residuals(victim, model, inputs.double(), labels)))
    descended, settled = residuals
    assert settled < 0.015
    assert descended > 20 * settled


def test_off_the_kinks_the_residual_is_autograds(tmp_path: Path) -> None:
    """A network that is not trained has no pre-activation on the kink."""
    victim = spec(DecayedDescent(weight_decay=0.1))
    inputs, labels = problem()
    model = build(victim.architecture, (30,), torch.Generator().manual_seed(1), torch.float64)
    sample_losses("cross-entropy", model(inputs.double()), labels).mean().backward()
    expected = []
    for layer in model.layers:
        pairs = [(p.detach(), p.grad) for p in layer.parameters()]
        left = sum(float((p + g / 0.1).square().sum()) for p, g in pairs if g is not None)
        expected.append((left / sum(float(p.square().sum()) for p, _ in pairs)) ** 0.5)
    assert stationarity_residuals(victim, model, inputs, labels) == pytest.approx(expected)


def test_weight_decay_is_torchs(tmp_path: Path) -> None:
    """Coupled, on all parameters, and outside the data's span too."""
    victim = spec(GradientDescent(lr=0.1, epochs=5, weight_decay=0.01))
    inputs, labels = problem()
    model = build(victim.architecture, (30,), torch.Generator().manual_seed(1), torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01)
    for _ in range(5):
        optimizer.zero_grad()
        sample_losses("cross-entropy", model(inputs.double()), labels).mean().backward()
        optimizer.step()
    trained = train(victim, inputs, labels, CPU, Unfinished(), lambda at: None)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(trained.state_dict()[name], parameter.detach())


def test_a_convolution_learns(tmp_path: Path) -> None:
    inputs, labels = problem()
    architecture = ConvSpec(kernel=2, channels=4, hidden=(16,), first_layer_scale=0.1)
    victim = VictimSpec(
        name="test-conv-12", dataset="test", n=12, architecture=architecture, training=DecayedDescent(steps=300)
    )
    model = train(victim, inputs, labels, CPU, Unfinished(), lambda at: None)
    assert bool((margins(model(inputs), labels) > 0).all())


def test_span_reduces_and_restores() -> None:
    inputs, _ = problem()
    model = build(MLPSpec(hidden=(9, 8)), (30,), torch.Generator().manual_seed(4), torch.float64)
    span = InputSpan.of(inputs.flatten(1))
    assert span.basis.shape == (30, 12)
    reduced, outside = span.reduce(model)
    torch.testing.assert_close(reduced(span.coordinates(inputs.flatten(1))), model(inputs.double()))
    for name, value in span.restore(reduced, outside).state_dict().items():
        torch.testing.assert_close(value, model.state_dict()[name])


def test_an_affine_victim_is_at_the_one_minimum_of_its_problem(tmp_path: Path) -> None:
    """From any start it ends at the same weights, which are scikit-learn's.

    The objective is wd-strongly convex, so ||theta - minimum|| <= ||gradient|| / wd, the relative gradient times
    ||theta||: two victims within the tolerance are at most twice that apart. The peer's gradient is at most 1e-12 in
    the maximum norm, so it is within sqrt(31) 1e-12 / 0.01 = 6e-10 of the minimum. Rounding adds some 1e-15.
    """
    from sklearn.linear_model import LogisticRegression

    inputs, labels = problem()
    training = Regularised(weight_decay=0.01, tolerance=1e-9)
    thetas = []
    for seed in range(1, 7):
        victim = spec(training, hidden=()).model_copy(update={"seed": seed})
        model = train(victim, inputs, labels, CPU, Unfinished(), lambda at: None)
        assert relative_gradient(model, inputs.double(), signs(labels).double(), 0.01) < 1.001e-9
        thetas.append(torch.cat([model.layers[0].weight[0], model.layers[0].bias]).detach())
    first, size = thetas[0], float(thetas[0].norm())
    assert max(float((theta - first).norm()) for theta in thetas) < 2.01e-9 * size

    ones = torch.cat([inputs.flatten(1), torch.ones(12, 1)], 1).double().numpy()  # the bias is decayed as well
    peer = LogisticRegression(C=1 / (12 * 0.01), fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    peer.fit(ones, labels.numpy())
    assert float((first - torch.from_numpy(peer.coef_[0])).norm()) < 1.01e-9 * size + 6e-10


def test_weight_decay_leaves_nothing_outside_the_span(tmp_path: Path) -> None:
    inputs, labels = problem()
    trained = train(spec(Regularised(steps=300)), inputs, labels, CPU, Unfinished(), lambda at: None)
    first = trained.linears()[0].weight
    basis = InputSpan.of(inputs.flatten(1)).basis
    assert float(first.detach().norm()) > 0.1
    torch.testing.assert_close(first @ basis @ basis.T, first, rtol=1e-9, atol=1e-9)
