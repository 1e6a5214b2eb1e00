"""`kkt-span` decides by the weights whether they show the spans, and is `kkt-general` where they do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attacking import attacked, victim_of

from attacks.base import Reconstruction
from attacks.kkt_general import KKTGeneral, KKTGeneralParams
from attacks.kkt_span import SHARE_SHOWN, KKTSpan, KKTSpanParams
from victims.base import Victim
from victims.equations.network import Network
from victims.equations.spans import activations_shown
from victims.spec import DecayedDescent, MLPSpec, VictimSpec

SHORT: dict[str, Any] = {"steps": 20, "restarts": 2}
D, H, N, NOISE = 30, 60, 12, 1e-3


def planted(rank: int, *, deep: bool = True) -> Network:
    """A network whose W1 shows N directions above Gaussian noise, and whose W2 shows `rank`."""
    generator = torch.Generator().manual_seed(rank)

    def noisy(h: int, d: int, r: int) -> torch.Tensor:
        signal = torch.randn(h, r, generator=generator) @ torch.randn(r, d, generator=generator)
        return signal + NOISE * torch.randn(h, d, generator=generator)

    weights = (noisy(H, D, N), noisy(H, H, rank), torch.randn(3, H, generator=generator))
    return Network(weights, (None,) * 3) if deep else Network((weights[0], weights[2]), (None,) * 2)


def trained(outputs: int, hidden: tuple[int, ...] = (60, 60)) -> Victim:
    spec = VictimSpec(
        name=f"digits-mlp-12-shown-{outputs}-{len(hidden)}",
        dataset="digits",
        n=12,
        architecture=MLPSpec(hidden=hidden, outputs=outputs, first_layer_scale=None),
        training=DecayedDescent(steps=600),
    )
    return victim_of(spec)


def same(one: Reconstruction, other: Reconstruction) -> bool:
    return torch.equal(one.candidates, other.candidates)


def test_the_directions_that_w2_shows_are_counted() -> None:
    assert [activations_shown(planted(rank)) for rank in (1, 5, 12)] == [1, 5, 12]
    assert activations_shown(planted(0)) == 0, "noise alone"
    assert activations_shown(planted(5, deep=False)) == 0, "the last layer shows a direction an output"


@pytest.mark.parametrize(("outputs", "spanned"), [(1, False), (6, True)])
def test_where_w2_shows_too_little_it_is_kkt_general(outputs: int, spanned: bool) -> None:
    victim = trained(outputs)
    network = Network.of(victim.model.state_dict(), None)
    assert (activations_shown(network) >= SHARE_SHOWN * 12) == spanned
    found = attacked(KKTSpan(KKTSpanParams(spans="auto", **SHORT)), victim)
    priced = attacked(KKTSpan(KKTSpanParams(**SHORT)), victim)
    general = attacked(KKTGeneral(KKTGeneralParams(**SHORT)), victim)
    assert (same(found, priced), same(found, general)) == (spanned, not spanned)
    assert bool(found.flags) != spanned


@pytest.mark.parametrize(
    ("outputs", "width", "spanned"), [(6, 60, True), (1, 60, False), (6, 10, False)], ids=["six", "one", "narrow"]
)
def test_below_several_outputs_one_hidden_layer_shows_enough(outputs: int, width: int, *, spanned: bool) -> None:
    """Unless it is narrower than the images are many, so that the errors' span is the whole space."""
    victim = trained(outputs, (width,))
    found = attacked(KKTSpan(KKTSpanParams(spans="auto", **SHORT)), victim)
    assert same(found, attacked(KKTSpan(KKTSpanParams(**SHORT)), victim)) == spanned
    assert same(found, attacked(KKTGeneral(KKTGeneralParams(**SHORT)), victim)) != spanned


def test_null_controls_are_searched_alike() -> None:
    """Their parameters are the run's and what it resolved, whatever the weights that they attack show."""
    params = KKTSpanParams(spans="auto", **SHORT)
    found = attacked(KKTSpan(params), trained(1))
    pinned = KKTSpanParams.model_validate(params.model_dump() | found.resolved)
    assert attacked(KKTSpan(params.model_copy(update={"rounds": 6})), trained(1)).resolved["rounds"] == 0
    assert same(attacked(KKTSpan(pinned), trained(1)), found)
    other = attacked(KKTSpan(pinned), trained(6))
    general = KKTGeneral(KKTGeneralParams(candidates=len(found.candidates) // 2, **SHORT))
    assert same(other, attacked(general, trained(6)))


def test_without_spans_the_settings_are_those_of_kkt_general_but_what_was_set() -> None:
    assert KKTSpanParams(spans="auto").without_spans == KKTGeneralParams()
    assert KKTSpanParams(steps=7, signal_span=2.0).without_spans == KKTGeneralParams(steps=7)


def test_a_stored_description_does_not_mention_what_it_never_had() -> None:
    assert "spans" not in KKTSpanParams().model_dump()
    assert KKTSpanParams(spans="auto").model_dump()["spans"] == "auto"
