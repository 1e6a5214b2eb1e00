"""How well each record of a prior explains a private training, by its released trace or by its end.

Shapes: T models, each with a prior of N records; p parameters in all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from victims.informed.networks import LabelledImages, Parameters
from victims.informed.private_descent import PrivateDescent, clipped_gradients
from victims.informed.spec import DenseSpec, SmallCNNSpec

Progress = Callable[[int, Tensor], bool]
"""Is told the steps done and the evidence (T, N) so far; returns whether to end there."""


def trace_evidence(
    architecture: DenseSpec | SmallCNNSpec,
    problem: PrivateDescent,
    start: Parameters,
    trace: Parameters,
    prior: LabelledImages,
    likelihood: bool,
    told: Progress = lambda step, evidence: False,
) -> Tensor:
    """Return the evidence (T, N) for each record z of a prior, from the trace.

    At step t the noisy sum less the known records' clipped gradients is r_t = b_t c_t(z*) + noise. Here c_t(z) is the
    clipped gradient of z at theta_t, and b_t is 1 with probability q, if the target z* was sampled, else 0. Let a_t(z)
    be <r_t, c_t(z)>. Hayes et al. 2023 add up a_t(z), and with q < 1 the largest of each epoch of 1 / q steps (Section
    4.2). With `likelihood` it is the logarithm of the trace's likelihood up to a constant, which no other evidence
    beats: sum over t of log(1 - q + q exp((a_t(z) - ||c_t(z)||^2 / 2) / deviation^2)).

    Args:
        architecture: the architecture of the networks.
        problem: the private training on the fixed set.
        start: the initial network of all models, by parameter name.
        trace: (T, steps, ...) by name, the noisy sums of clipped gradients.
        prior: images (T, N, C, H, W) and classes (T, N).
        likelihood: whether to return the log-likelihood.
        told: called after each step.
    """
    images, labels = prior
    count, steps = next(iter(trace.values())).shape[:2]
    parameters = {name: value.expand(count, *value.shape) for name, value in start.items()}
    velocity = {name: torch.zeros_like(value) for name, value in parameters.items()}
    gradients = torch.vmap(partial(clipped_gradients, architecture, problem.clip))
    evidence = images.new_zeros(labels.shape, dtype=torch.float64)
    epoch = round(1 / (problem.rate or 1))
    largest = torch.full_like(evidence, -math.inf)
    for step in range(steps):
        summed = {name: value[:, step] for name, value in trace.items()}
        known, own = problem.known(parameters, step), gradients(parameters, images, labels)
        matched = _dot({name: (summed[name] - known[name])[:, None] for name in known}, own)
        if likelihood:
            evidence += _log_ratio((matched - _dot(own, own) / 2) / problem.deviation**2, problem.rate)
        else:
            largest = torch.maximum(largest, matched)
            if (step + 1) % epoch == 0 or step + 1 == steps:
                evidence += largest
                largest = torch.full_like(evidence, -math.inf)
        if told(step + 1, evidence):
            break
        parameters, velocity = problem.advance(parameters, velocity, summed)
    return evidence


def end_evidence(
    problem: PrivateDescent, start: Parameters, released: Parameters, prior: LabelledImages, told: Progress
) -> Tensor:
    """Return the evidence (T, N) for each record of a prior from the released weights: -||A(D_- and z) - theta||^2.

    A runs without noise, and takes q times the record's clipped gradient where it samples.

    Args:
        problem: the private training on the fixed set.
        start: the initial network of all models, by parameter name.
        released: theta, (T, ...) by name.
        prior: images (T, N, C, H, W) and classes (T, N).
        told: called after each step, with zeros (T, N): there is no evidence before the training has ended.
    """
    images, labels = (part.flatten(0, 1) for part in prior)
    rows = torch.cat([images.flatten(1), labels[:, None].to(images)], 1)
    _, place = rows.unique(dim=0, return_inverse=True)  # targets of a group share their prior
    first = torch.full((int(place.max()) + 1,), len(rows), device=place.device)
    first = first.scatter_reduce(0, place, torch.arange(len(rows), device=place.device), "amin")
    records, classes, count = images[first, None], labels[first, None], len(first)
    parameters = {name: value.expand(count, *value.shape) for name, value in start.items()}
    velocity = {name: torch.zeros_like(value) for name, value in parameters.items()}
    for step in range(problem.training.epochs):
        known, own = problem.known(parameters, step), problem.own(parameters, records, classes)
        summed = {name: known[name] + (problem.rate or 1) * own[name] for name in known}
        parameters, velocity = problem.advance(parameters, velocity, summed)
        if told(step + 1, torch.zeros(prior[1].shape)):
            break
    ends = {name: value[place].unflatten(0, prior[1].shape) for name, value in parameters.items()}
    away = {name: value - released[name][:, None] for name, value in ends.items()}
    return -_dot(away, away)


def _dot(first: Parameters, second: Parameters) -> Tensor:
    """Return the inner products (T, N) of parameters (T, N, ...) by name, in float64; dimensions of 1 are shared."""
    return torch.stack([(first[name] * second[name]).flatten(2).sum(2, dtype=torch.float64) for name in first]).sum(0)


def _log_ratio(exponent: Tensor, rate: float | None) -> Tensor:
    """Return log(1 - q + q exp(exponent)), which is the exponent where all records are in every batch."""
    if rate is None:
        return exponent
    return torch.logaddexp(torch.full_like(exponent, math.log1p(-rate)), exponent + math.log(rate))
