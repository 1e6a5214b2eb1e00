"""What can be said of an attack before it runs: it applies or not, it can work or not, and who can mount it."""

from __future__ import annotations

from typing import Any

import pytest

from attacks.base import Threat
from attacks.knowledge import Knowledge, threat_of
from bench.plan import registry
from bench.plan.prospects import Outlook, prospects
from victims.exposure.card import Exposure, Seed, Spectrum, Start
from victims.recipes import Released
from victims.spec import MLPSpec, ModuleSpec, VictimSpec

SEED = Seed(found=False, seed=3, correlation=0.1, threshold=0.12, tried=100)
FORGOTTEN = Spectrum(edge=0.9, above=5, gap=True, rank=100, left=1e-9)
KEPT = Spectrum(edge=0.9, above=5, gap=True, rank=50, left=0.7)
WHOLE = Spectrum(edge=0.9, above=5, gap=False, rank=100, left=0.0)


def card(**fields: Any) -> Exposure:
    """The card of a network that has forgotten its start, but for what is named."""
    known: dict[str, Any] = {
        **{"architecture": "mlp", "layers": True, "uncovered": "", "homogeneous": False, "hidden": 2},
        **{"parameters": 4_000_000, "inputs": 3072, "images": 100, "imbalance": [0.0, 0.0], "spectrum": FORGOTTEN},
        **{"start": None, "seed": SEED, "residual": [], "margins": [], "train_accuracy": 1.0},
    }
    return Exposure(**(known | fields))


def start(cosine: float = 0.9, images: int | None = 100, stayed: int = 0) -> Start:
    return Start(known_by="given", decay=0.9, movement=0.2, cosine=cosine, images=images, stayed=stayed)


def released(initial: str | None = None, **fields: Any) -> VictimSpec:
    hashes = {"weights_sha256": "", "network_sha256": "", "mean": (0.0,), "std": (1.0,), "n_trained": 100}
    training = Released(weights="w.safetensors", initial=initial, **hashes)  # type: ignore[arg-type]
    known = {"architecture": MLPSpec(outputs=10, biases="every", first_layer_scale=None), "training": training}
    return VictimSpec(name="mine", dataset="mine.npz", n=100, **(known | fields))


def outlooks(victim: VictimSpec, exposure: Exposure | None) -> dict[str, Outlook]:
    found = prospects(registry.attacks().items.values(), victim, exposure)
    return {prospect.name: prospect.outlook for prospect in found}


def test_where_the_start_is_forgotten_stationarity_can_be_searched() -> None:
    found = outlooks(released(), card())
    assert {found[name] for name in ("kkt-multiclass", "kkt-general", "kkt-span", "inversion")} == {Outlook.OPEN}
    assert found["kkt-delta:seed"] is Outlook.DOUBTED
    assert found["kkt-delta"] is found["kkt"] is found["glm"] is Outlook.DECLINED


@pytest.mark.parametrize(
    ("fields", "forgotten"),
    [
        ({"spectrum": KEPT}, False),
        ({"spectrum": KEPT, "imbalance": [0.0, 0.0]}, False),
        ({"spectrum": WHOLE, "imbalance": [0.0, 0.8]}, False),
        ({"spectrum": WHOLE, "imbalance": [0.0, 0.01]}, True),
        ({"spectrum": FORGOTTEN, "imbalance": [0.9, 0.9]}, True),
        ({"hidden": 0, "imbalance": []}, False),
    ],
    ids=["kept", "kept and balanced", "unbalanced", "balanced", "small start", "linear"],
)
def test_what_speaks_against_a_stationary_point(fields: dict[str, Any], forgotten: bool) -> None:
    """A start that was small is forgotten by W1, whatever the neurons' balance; a span that fills all shows nothing."""
    assert (card(**fields).start_remains is None) == forgotten
    assert outlooks(released(), card(**fields))["kkt-general"] is (Outlook.OPEN if forgotten else Outlook.DOUBTED)


def test_a_start_or_a_seed_opens_what_needs_them() -> None:
    given = released(initial="start.safetensors")
    kept = {"spectrum": KEPT, "imbalance": [0.1, 0.8]}
    assert outlooks(given, card(start=start(), **kept))["kkt-delta"] is Outlook.OPEN
    assert outlooks(given, card(start=start(cosine=0.01, images=None), **kept))["kkt-delta"] is Outlook.DOUBTED
    assert outlooks(given, card(start=start(cosine=0.9, images=None), **kept))["kkt-delta"] is Outlook.OPEN
    for stayed, behind in ((0, Outlook.DOUBTED), (1, Outlook.OPEN)):
        found = outlooks(given, card(start=start(stayed=stayed), **kept))
        assert found["kkt-delta-features"] is behind
        assert found["kkt-delta"] is (Outlook.DOUBTED if stayed else Outlook.OPEN)
    found_seed = SEED.model_copy(update={"found": True})
    guessed = card(seed=found_seed, start=start().model_copy(update={"known_by": "seed"}), **kept)
    assert outlooks(released(), guessed)["kkt-delta:seed"] is Outlook.OPEN
    assert outlooks(released(), card(seed=found_seed, **kept))["kkt-delta:seed"] is Outlook.DOUBTED


def test_a_module_is_open_to_what_needs_no_layers() -> None:
    module = ModuleSpec(name="Net", outputs=10, uncovered="GELU is not covered")
    nothing = card(layers=False, uncovered="GELU", hidden=0, imbalance=[], spectrum=None, seed=None)
    found = list(prospects(registry.attacks().items.values(), released(architecture=module), nothing))
    tried = {prospect.name for prospect in found if prospect.outlook is Outlook.OPEN}
    assert tried == {"inversion", "inversion:black-box"}
    (span,) = (prospect for prospect in found if prospect.name == "kkt-span")
    assert "GELU is not covered" in span.reason


def test_who_can_mount_it_follows_from_what_it_knows() -> None:
    base = {Knowledge.ARCHITECTURE}
    assert threat_of(frozenset(base | {Knowledge.WEIGHTS, Knowledge.LABELS})) is Threat.WEIGHTS
    assert threat_of(frozenset(base | {Knowledge.WEIGHTS, Knowledge.INITIAL_WEIGHTS})) is Threat.START
    assert threat_of(frozenset(base | {Knowledge.WEIGHTS, Knowledge.INITIAL_WEIGHTS, Knowledge.KNOWN_POINTS})) is (
        Threat.RECORDS
    )
    assert threat_of(frozenset(base | {Knowledge.WEIGHTS, Knowledge.EARLIER_WEIGHTS})) is Threat.RELEASES
    assert threat_of(frozenset(base | {Knowledge.LOGITS})) is Threat.QUERIES
    assert threat_of(frozenset(base | {Knowledge.SHADOW_POOL})) is None
    assert threat_of(frozenset(base | {Knowledge.WEIGHTS, Knowledge.TRAINING_IMAGES})) is None


def test_what_looks_at_no_model_is_not_audited() -> None:
    names = {prospect.attack.name for prospect in prospects(registry.attacks().items.values(), released(), None)}
    recipe = {"replay"}  # runs a training again, and an audit is not told how the model was trained
    assert names == registry.attacks().items.keys() - {"class-mean", "random"} - recipe
    threats = {
        prospect.name: prospect.threat for prospect in prospects(registry.attacks().items.values(), released(), None)
    }
    assert threats["inversion:black-box"] is Threat.QUERIES
    assert threats["kkt-delta:seed"] is Threat.SEED


def test_of_a_victim_of_the_suite_an_attack_of_another_setting_speaks_of_no_audit() -> None:
    victim = registry.victims().items["photos-mlp-100-c10-wd1e-4"]
    assert isinstance(victim, VictimSpec)
    told = {found.attack.name: found.reason for found in prospects(registry.attacks().items.values(), victim, None)}
    assert told["unroll"] == told["glm"] == "it attacks victims with one unknown record"
    owned = {
        found.attack.name: found.reason for found in prospects(registry.attacks().items.values(), released(), None)
    }
    assert owned["unroll"].endswith("which an audit cannot")


@pytest.mark.parametrize("method", ["supports", "doubt", "__init__"])
def test_an_attack_that_cannot_say_whom_it_takes_costs_only_itself(method: str) -> None:
    def fails(*_: object) -> str:
        raise RuntimeError("no idea")

    kind = registry.attacks().items["kkt-general"]
    odd = type("Odd", (kind,), {method: fails, "audits": ("",)})
    found = list(prospects([odd, kind], released(), card()))
    assert (found[0].outlook, found[0].reason) == (
        Outlook.DECLINED,
        "it cannot say whom it takes: RuntimeError: no idea",
    )
    assert found[-1].outlook is Outlook.OPEN
