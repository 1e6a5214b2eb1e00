"""Shallow models: gradient, curvature, Newton's steps, and the three ways to delete records."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from victims.deletion.forget import forget, without
from victims.deletion.newton import minimum, newton_step, preconditioner, settled
from victims.deletion.objective import Objective, named, sizes
from victims.deletion.spec import Deletion, ShallowSpec
from victims.errors import UserError

MODELS = {
    "ridge": ShallowSpec(outputs=3),
    "softmax": ShallowSpec(loss="cross-entropy", outputs=3),
    "rff": ShallowSpec(front="fourier", units=7, width=1.0, outputs=3),
    "tanh": ShallowSpec(front="hidden", units=4, loss="cross-entropy", outputs=3),
    "tanh-squares": ShallowSpec(front="hidden", units=4, outputs=3),
}
every_model = pytest.mark.parametrize("spec", MODELS.values(), ids=MODELS)


def problem(spec: ShallowSpec, records: int = 30, penalty: float = 0.5, scale: float = 1.0) -> tuple[Objective, Tensor]:
    """An objective on records of six numbers, and a start."""
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(records, 1, 2, 3, generator=generator)
    labels = torch.randint(0, 3, (records,), generator=generator)
    count = sum(math.prod(shape) for shape in sizes(spec, 6).values())
    start = torch.randn(count, generator=generator, dtype=torch.float64)
    return Objective.of(spec, penalty, images, labels, scale), start


def hessian(objective: Objective, theta: Tensor) -> Tensor:
    found: Tensor = torch.func.hessian(objective.value)(theta)
    return found


@every_model
def test_the_written_down_derivatives_are_those_of_autograd(spec: ShallowSpec) -> None:
    objective, theta = problem(spec, scale=1.7)
    direction = theta.flip(0)
    gradient = torch.func.grad(objective.value)(theta)
    assert torch.allclose(objective.gradient(theta), gradient, rtol=1e-11, atol=1e-11)
    product = hessian(objective, theta) @ direction
    assert torch.allclose(objective.curvature(theta, direction), product, rtol=1e-11, atol=1e-11)


@every_model
def test_a_newton_step_is_that_of_the_full_hessian(spec: ShallowSpec) -> None:
    """With a penalty that makes a network's objective convex there; the preconditioner changes no step."""
    objective, theta = problem(spec, penalty=200.0)
    step = torch.linalg.solve(hessian(objective, theta), -objective.gradient(theta))
    for precondition in (preconditioner(objective, theta), lambda vector: vector):
        assert torch.allclose(newton_step(objective, theta, precondition), step, rtol=1e-8, atol=1e-10)


def test_the_preconditioner_of_a_ridge_regression_is_its_inverse_hessian() -> None:
    objective, theta = problem(MODELS["ridge"])
    vector = theta.flip(0)
    product = preconditioner(objective, theta)(objective.curvature(theta, vector))
    assert torch.allclose(product, vector, rtol=1e-11)


def test_the_preconditioner_of_a_network_is_its_gauss_newton_matrix_unit_by_unit() -> None:
    objective, theta = problem(MODELS["tanh"])
    spec, inputs = objective.spec, objective.inputs

    def linear(point: Tensor) -> Tensor:
        from victims.deletion.objective import outputs

        return outputs(spec, named(spec, inputs, point), objective.seen)

    slopes = torch.func.jacrev(linear)(theta)  # (n, C, p)
    share = linear(theta).softmax(1)
    weight = torch.diag_embed(share) - share[:, :, None] * share[:, None]
    full = torch.einsum("nap,nab,nbq->pq", slopes, weight, slopes) + 0.5 * torch.eye(len(theta), dtype=theta.dtype)
    first = [*range(6), 4 * 6]  # the weights and the bias of the first hidden unit
    vector = torch.zeros_like(theta)
    vector[first] = torch.arange(1.0, 8.0, dtype=torch.float64)
    wanted = torch.linalg.solve(full[first][:, first], vector[first])
    assert torch.allclose(preconditioner(objective, theta)(vector)[first], wanted, rtol=1e-10)


def test_a_ridge_regression_is_that_of_scikit_learn() -> None:
    """The bias is penalised too, so it is a column of ones there."""
    objective, start = problem(MODELS["ridge"])
    theta = named(objective.spec, 6, minimum(objective, start)[0])
    design = np.hstack([objective.seen.numpy(), np.ones((30, 1))])
    fitted = Ridge(alpha=0.5, fit_intercept=False).fit(design, objective.wanted.numpy()).coef_
    assert np.allclose(theta["layers.0.weight"], fitted[:, :-1], rtol=1e-9)
    assert np.allclose(theta["layers.0.bias"], fitted[:, -1], rtol=1e-9)


@every_model
def test_a_refit_is_the_minimum_without_the_deleted_records(spec: ShallowSpec) -> None:
    objective, start = problem(spec)
    theta, precondition = minimum(objective, start)
    deleted = torch.tensor([3, 17])
    after = forget(Deletion(penalty=0.5), objective, theta, deleted, precondition)
    rest = without(objective, deleted)
    assert len(rest.seen) == 28
    assert objective.optimality(theta) < 1e-9
    assert rest.optimality(after) < 1e-9
    assert rest.optimality(theta) > 1e-3


def test_the_other_deletions_are_one_newton_step_and_steps_up_the_losses() -> None:
    objective, start = problem(MODELS["softmax"])
    theta, precondition = minimum(objective, start)
    deleted = torch.tensor([3, 17])
    rest = without(objective, deleted)
    step = torch.linalg.solve(hessian(rest, theta), -rest.gradient(theta))
    moved = forget(Deletion(penalty=0.5, method="newton"), objective, theta, deleted, precondition)
    assert torch.allclose(moved, theta + step, rtol=1e-9)

    lost, expected = objective.part(deleted, 0.0), theta
    for _ in range(3):
        expected = expected + 0.1 * torch.func.grad(lost.value)(expected)
    risen = forget(Deletion(method="ascent", steps=3, lr=0.1), objective, theta, deleted, precondition)
    assert torch.allclose(risen, expected, rtol=1e-12)


def test_a_training_that_does_not_converge_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("victims.deletion.newton.STEPS", 1)
    objective, start = problem(MODELS["tanh"])
    with pytest.raises(UserError, match="did not reach a stationary point"):
        settled(objective, start, preconditioner(objective, start))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"front": "fourier"}, "does not have 0 units"),
        ({"units": 3}, "does not have 3 units"),
        ({"loss": "cross-entropy", "outputs": 1}, "two classes have two outputs"),
    ],
)
def test_a_model_that_is_none_is_refused(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ShallowSpec(**fields)  # type: ignore[arg-type]
