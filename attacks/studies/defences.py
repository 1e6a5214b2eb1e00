"""What a defence takes from an attack, and what it costs in test accuracy: a few habits of training and release.

Every defence has some strengths, in the order of its curve, and all are applied to one victim, whose own row comes
first. What is done on release is made of one trained network.
"""

from __future__ import annotations

from attacks.studies.base import Cell, Plot, Study

DEFAULT, FINETUNED, FLAGSHIP = "photos-mlp-100-c10-wd1e-4", "cifar-mlp-100-c10-finetuned", "cifar-mlp-500-c10-wd1e-4"
NOISE = ("noise=0.003", "noise=0.01", "noise=0.03", "noise=0.1", "noise=0.3")
ROUNDING = ("round=float16", "round=bfloat16", "round=int8")
STATIONARY = {
    "noise": NOISE,
    "early-stop": ("early-stop=0.01", "early-stop=0.1", "early-stop=0.3", "early-stop=1"),
    "decay": ("decay=0.001", "decay=0.003", "decay=0.01", "decay=0.02"),
    "round": ROUNDING,
}
"""For networks trained to a stationary point with weight decay."""
ORDINARY = {
    "noise": ("noise=0.0001", "noise=0.001", "noise=0.01", "noise=0.1"),
    "early-stop": ("early-stop=0.5", "early-stop=1", "early-stop=1.5"),
    "decay": ("decay=0.01", "decay=0.1", "decay=1"),
    "forget-start": tuple(f"decay=0.01+forget-start={times}" for times in (10, 30)),
    "round": ROUNDING,
    "dp": ("dp=100000", "dp=1000", "dp=10"),
}
"""For a network fine-tuned by SGD from a public checkpoint."""
AS_MANY = {("kkt-span", DEFAULT): 140, ("kkt-span", FLAGSHIP): 700, ("kkt-delta", FINETUNED): 200}
"""Candidates that an attack takes without a defence. A rounded matrix, or the difference of a noised one, does not show
where the images' span ends; there the attacks would take ten times as many, so they are given this number."""
HIDDEN = {"kkt-span": ("round",), "kkt-delta": ("noise", "round", "dp")}
"""By attack, the defences under which it does not see how many images there are."""
TRADEOFF = (Plot("tradeoff", "test_accuracy", "defence", ("n_good_unique", "null_n_good_unique")),)


def cells(attack: str, victim: str, defences: dict[str, tuple[str, ...]]) -> tuple[Cell, ...]:
    """Return the cell of a victim as it is, and one for each defence in each strength."""
    plain = Cell({"defence": "none", "strength": ""}, attack, victim)
    return (plain, *(_cell(attack, victim, name, stack) for name, stacks in defences.items() for stack in stacks))


def _cell(attack: str, victim: str, defence: str, stack: str) -> Cell:
    told = {"candidates": AS_MANY[attack, victim]} if (attack, victim) in AS_MANY and defence in HIDDEN[attack] else {}
    return Cell({"defence": defence, "strength": stack.rpartition("=")[2]}, attack, f"{victim}+{stack}", told)


SMOKE = {"noise": ("noise=0.01", "noise=1"), "round": ("round=int8",)}

STUDIES: tuple[Study, ...] = (
    Study(
        name="defences",
        summary="good images over test accuracy, a curve a defence, for the default run's victim; needs no data set",
        paper="new here",
        cells=cells("kkt-span", DEFAULT, STATIONARY),
        smoke=cells("kkt-span", "photos-mlp-20-c10-wd1e-4", SMOKE),
        plots=TRADEOFF,
    ),
    Study(
        name="defences-finetuned",
        summary="the same for a network that was fine-tuned from a checkpoint which the attacker has",
        paper="new here",
        cells=cells("kkt-delta", FINETUNED, ORDINARY),
        smoke=cells("kkt-delta", "digits-mlp-20-c10-finetuned", SMOKE),
        plots=TRADEOFF,
    ),
    Study(
        name="defences-flagship",
        summary="the same as defences for the flagship victim of kkt-span, 500 images; takes long",
        paper="new here",
        cells=cells("kkt-span", FLAGSHIP, STATIONARY),
        smoke=cells("kkt-span", "photos-mlp-20-c10-wd1e-4", SMOKE),
        plots=TRADEOFF,
    ),
)
