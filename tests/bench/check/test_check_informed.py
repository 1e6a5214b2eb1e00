"""`check` tries attacks of the informed setting on victims of that setting, and finds what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.check import attack as attack_check
from bench.check import check_file, trial
from bench.plan.registry import ROOT

CHEAP: dict[str, dict[str, Any]] = {
    "glm": {},
    "reconn": {"shadows": 20, "epochs": 2, "hidden": (8,)},
    "prior_aware": {},
    "reconn_linear": {"shadows": 20},
    "unroll": {"labels": 1, "trial": 2, "evaluations": 2, "hardest": 1, "retries": 0},
}
"""The shipped informed attacks, by file, and what makes each of them quick."""
GOOD = """
from attacks.base import Attack, AttackParams, Knowledge, Reconstruction


class Own(Attack):
    name = "own"
    summary = "images of the shadow pool"
    setting = "informed"
    protocol = "balle2022"
    needs = frozenset({Knowledge.WEIGHTS, Knowledge.SHADOW_POOL})
    Params = AttackParams
    ATTRIBUTES

    def reconstruct(self, view, ctx):
        targets = len(next(iter(view.weights.values())))
        images = view.shadow_pool[0][:targets]
        BODY
        return Reconstruction(candidates=images)
"""
IMAGES, DECLARED, ENDS = (
    "returns images of the victim's shape",
    "its declarations are sound",
    "ends when its budget is spent",
)
LOOP = "for step in range(9): ctx.report(step, 9)"
FLAWS: dict[str, tuple[str, str, str, str]] = {
    "asks for more": ("", "view.initial_weights", "reads what it declares", "add Knowledge.INITIAL_WEIGHTS to `needs`"),
    "declares too much": (
        "needs = frozenset({Knowledge.WEIGHTS, Knowledge.SHADOW_POOL, Knowledge.TRAINING})",
        "",
        "declares what it reads",
        "never read Knowledge.TRAINING",
    ),
    "needs what there is not": (
        "needs = frozenset({Knowledge.DATA_MEAN})",
        "",
        "needs what a victim of its setting has",
        "a victim of the informed setting has no data mean to tell",
    ),
    "one candidate too few": ("", "images = images[1:]", IMAGES, "3 candidates for 4 targets; return one each"),
    "needs two targets": ("", "images[1]", "takes a victim with one target", "IndexError"),
    "wrong shape": (
        "",
        "images = images[..., 1:]",
        IMAGES,
        "candidates are (4, 1, 8, 7); expected a tensor (m, 1, 8, 8)",
    ),
    "changes the weights": (
        "",
        "next(iter(view._facts[Knowledge.WEIGHTS].values())).zero_()",
        "leaves the victim and torch as they were",
        "it changes the weights that its view shows",
    ),
    "global randomness": (
        "",
        "import torch; images = torch.rand_like(images)",
        "gives the same for the same seed",
        "ctx.generator",
    ),
    "knows no budget": ("", LOOP, ENDS, "write `if ctx.expired(step): break`"),
    "a protocol of the other setting": ("protocol = 'buzaglo2023'", "", DECLARED, "for attacks of the other `setting`"),
    "no such setting": ("setting = 'federated'", "", DECLARED, "'federated' is none of dataset, informed"),
}
"""What is wrong: (attributes, body of `reconstruct`, the claim that does not hold, what to change)."""


def written(folder: Path, attributes: str = "", body: str = "") -> Path:
    path = folder / "own.py"
    path.write_text(GOOD.replace("ATTRIBUTES", attributes).replace("BODY", body))
    return path


@pytest.mark.parametrize("network", [True, False])
@pytest.mark.parametrize("body", ["", f"{LOOP}; ctx.expired(step)", "for target in range(4): ctx.progress(target, 4)"])
def test_nothing_is_wrong_with_a_good_attack(tmp_path: Path, body: str, network: bool) -> None:
    choosy = "" if network else "def supports(self, victim): return None if victim.kind == 'glm' else 'a network'"
    claims = list(check_file(written(tmp_path, choosy, body), {}, None))

    assert [claim.text for claim in claims if not claim.holds] == []
    assert len({claim.text for claim in claims}) == len(claims) == 13


@pytest.mark.parametrize(("attributes", "body", "text", "words"), FLAWS.values(), ids=FLAWS)
def test_a_flaw_is_found(tmp_path: Path, attributes: str, body: str, text: str, words: str) -> None:
    wrong = {claim.text: claim for claim in check_file(written(tmp_path, attributes, body), {}, None) if claim.trouble}

    assert text in wrong
    assert words in wrong[text].trouble
    assert "\n" not in wrong[text].trouble


@pytest.mark.parametrize("name", CHEAP)
def test_a_shipped_attack_is_clean(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "LIMIT_SECONDS", 120.0)
    monkeypatch.setattr(attack_check, "QUICK_SECONDS", 60.0)  # not of the attacks, but of the machine that tests them
    claims = list(check_file(ROOT / "attacks" / f"{name}.py", CHEAP[name], None))

    assert [claim for claim in claims if not claim.holds] == []
    assert len(claims) == 13


def test_every_shipped_informed_attack_is_tried() -> None:
    from bench.plan import registry

    attacks = registry.attacks()
    informed = {attacks.origins[name] for name, attack in attacks.items.items() if attack.setting == "informed"}
    assert informed == {f"attacks/{name}.py" for name in CHEAP}


def test_it_can_be_asked_for_on_the_command_line(bench: Callable[..., Any]) -> None:
    checked = bench("check", ROOT / "attacks" / "reconn_linear.py", "--set", "shadows=20")

    assert (checked.status, "✗" in checked.out) == (0, False)


def test_informed_victims_are_tried_too(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "from victims.informed.spec import *\n"
        "VICTIMS = (\n"
        "    InformedSpec(name='good', dataset='digits', n=20, targets=30),\n"
        "    InformedSpec(name='diverges', dataset='digits', n=20, training=Descent(lr=1e30)),\n"
        "    GLMSpec(name='too-many', dataset='digits', n=1790),\n"
        ")\n"
    )
    wrong = {(claim.subject, claim.text): claim.trouble for claim in check_file(path, {}, None) if claim.trouble}

    assert set(wrong) == {("diverges", "trains"), ("too-many", "its images are there")}
    assert "1 of 1 models diverged; lower its lr" in wrong["diverges", "trains"]
