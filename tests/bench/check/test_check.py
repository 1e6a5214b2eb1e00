"""`check` finds what is wrong with an attack or a victim of one's own, and `new` writes files in which nothing is."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from bench.check import check_file, trial
from bench.check.watch import watched
from bench.plan.registry import ROOT
from victims.errors import UserError

GOOD = """
from attacks.base import Attack, AttackParams, Knowledge, Reconstruction


class Params(AttackParams):
    candidates: int = 5


class Own(Attack[Params]):
    name = "own"
    summary = "noise"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS})
    Params = Params
    ATTRIBUTES

    def reconstruct(self, view, ctx):
        import torch

        shape, weights = view.architecture.input_shape, view.weights
        images = torch.randn(self.params.candidates, *shape, generator=ctx.generator)
        labels, evals = None, 0
        BODY
        return Reconstruction(candidates=images, labels=labels, grad_evals=evals)
"""
IMAGES, DECLARED = "returns images of the victim's shape", "its declarations are sound"
SOUND, TAKES = "imports, and what it declares is sound", "says which victims it takes"
FLAWS: dict[str, tuple[str, str, str, str]] = {
    "asks for more": ("", "view.n", "reads what it declares", "add Knowledge.N to `needs`"),
    "asks for more in secret": (
        "",
        "try: view.n\n        except Exception: pass",
        "reads what it declares",
        "add Knowledge.N to `needs`",
    ),
    "declares too much": (
        "needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.LABELS})",
        "",
        "declares what it reads",
        "never read Knowledge.LABELS",
    ),
    "raises": ("", "1 / 0", "runs", "ZeroDivisionError: division by zero (line "),
    "fails on one output": (
        "",
        "view.architecture.nothing",
        "runs",
        "; this was on check-mlp (mlp 16-16-1, 1 output), and `supports` may decline such a victim",
    ),
    "leaves": ("", "raise SystemExit(3)", "runs", "SystemExit: 3"),
    "hangs": ("", "while True: pass", "runs", "it takes more than 0.5 s on a few images (line 22); try `--set`"),
    "returns a tensor": ("", "return images", "runs", "returns Tensor; return a Reconstruction"),
    "wrong shape": ("", "images = images[..., 1:]", IMAGES, "are (5, 1, 25, 24); expected a tensor (m, 1, 25, 25)"),
    "no images": ("", "images = images[:0]", IMAGES, "m > 0"),
    "bytes": ("", "images = images.byte()", IMAGES, "torch.uint8"),
    "with gradients": ("", "images = images.requires_grad_() * 1", IMAGES, "requires_grad=True; detach"),
    "not finite": ("", "images = images * float('nan')", IMAGES, "no candidate is finite"),
    "counts below 0": ("", "evals = -1", IMAGES, "grad_evals is -1; expected a whole number from 0"),
    "labels of another length": ("", "labels = torch.zeros(4)", IMAGES, "labels are (4,); expected"),
    "global randomness": ("", "images = torch.randn_like(images)", "gives the same for the same seed", "ctx.generator"),
    "numpy's randomness": (
        "",
        "import numpy; images = images * numpy.random.rand()",
        "gives the same for the same seed",
        "ctx.generator",
    ),
    "prints": ("", "print('step', 1)", "prints nothing", "it prints 'step 1'; call ctx.report"),
    "writes": ("", "open('log.txt', 'w').close()", "writes no files", "it writes log.txt"),
    "makes a folder": ("", "import os; os.makedirs('made', exist_ok=True)", "writes no files", "it writes made"),
    "changes the weights": (
        "",
        "next(iter(view._facts[Knowledge.WEIGHTS].values())).zero_()",
        "leaves the victim and torch as they were",
        "it changes the weights that its view shows",
    ),
    "changes the default dtype": (
        "",
        "torch.set_default_dtype(torch.float64)",
        "leaves the victim and torch as they were",
        "torch's default dtype",
    ),
    "knows no budget": (
        "",
        "for step in range(9): ctx.report(step, 9)",
        "ends when its budget is spent",
        "write `if ctx.expired(step): break`",
    ),
    "does not heed its budget": (
        "",
        "import time\n        for step in range(9): ctx.report(step, 9); ctx.expired(step); time.sleep(0.13)",
        "ends when its budget is spent",
        "it goes on for 1 s with a budget of one step",
    ),
    "has nothing when its budget is spent": (
        "",
        "for step in range(9):\n            ctx.report(step, 9)\n            if ctx.expired(step): images = images[:0]",
        "ends when its budget is spent",
        "candidates are (0, 1, 25, 25)",
    ),
    "needs many images": (
        "needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.N})",
        "images = images[: view.n - 2]",
        "takes a victim with one image a class",
        "candidates are (0, 1, 25, 25)",
    ),
    "declines all": (
        "def supports(self, victim): return 'only cats'",
        "",
        "takes one of the tiny victims",
        "mlp 16-16-1: only cats",
    ),
    "cannot say": ("def supports(self, victim): return victim.cats", "", TAKES, "AttributeError"),
    "says no by False": (
        "def supports(self, victim): return False",
        "",
        TAKES,
        "it returned False; return why not, as",
    ),
    "unknown protocol": ("protocol = 'mine'", "", DECLARED, "'mine' is none of"),
    "no version": ("version = 0", "", DECLARED, "`version` is 0"),
    "a variant that is none": ("variants = {'big': {'size': 3}}", "", DECLARED, "variant 'big'"),
    "needs in a list": ("needs = [Knowledge.WEIGHTS]", "", SOUND, "valid frozenset"),
    "needs of words": ("needs = frozenset({'gold'})", "", DECLARED, "`needs` must hold items of Knowledge"),
    "a name that is taken": ("name = 'kkt'", "", SOUND, "already taken by attacks/kkt.py"),
    "no Python": ("def :", "", SOUND, "SyntaxError"),
}
"""What is wrong: (attributes, body of `reconstruct`, the claim that does not hold, what to change)."""


def written(folder: Path, attributes: str = "", body: str = "") -> Path:
    path = folder / "own.py"
    path.write_text(GOOD.replace("ATTRIBUTES", attributes).replace("BODY", body))
    return path


LOOP = "for step in range(9):\n            ctx.report(step, 9)\n            if ctx.expired(step): break"


def all_hold(path: Path) -> set[str]:
    """Assert that nothing is wrong with a file, and return of what it was claimed."""
    claims = list(check_file(path, {}, None))
    assert [claim for claim in claims if not claim.holds] == []
    return {claim.subject for claim in claims}


@pytest.mark.parametrize("body", ["", LOOP])
def test_nothing_is_wrong_with_a_good_attack(tmp_path: Path, body: str) -> None:
    claims = list(check_file(written(tmp_path, body=body), {}, None))

    assert [claim.text for claim in claims if not claim.holds] == []
    assert len({claim.text for claim in claims}) == len(claims) == 13


@pytest.mark.parametrize(("attributes", "body", "text", "words"), FLAWS.values(), ids=FLAWS)
def test_a_flaw_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attributes: str, body: str, text: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if "while" in body:
        monkeypatch.setattr(trial, "LIMIT_SECONDS", 0.5)
    claims = {claim.text: claim for claim in check_file(written(tmp_path, attributes, body), {}, None)}

    assert not claims[text].holds
    assert words in claims[text].trouble
    assert "\n" not in claims[text].trouble


VICTIM = "from victims.spec import *\nVICTIMS = (VictimSpec(name='own', dataset={!r}, n={}, training={}),)\n"
POOR_VICTIMS = {
    "no data": (VICTIM.format("absent", 4, "NormalizedDescent()"), "its images are there", "no readable file"),
    "too many": (VICTIM.format("faces", 400, "NormalizedDescent()"), "its images are there", "largest possible n"),
    "diverges": (VICTIM.format("faces", 4, "GradientDescent(lr=1e300)"), "trains", "lower the learning rate"),
}


@pytest.mark.parametrize(("text", "claim", "words"), POOR_VICTIMS.values(), ids=POOR_VICTIMS)
def test_a_poor_victim_is_found(tmp_path: Path, text: str, claim: str, words: str) -> None:
    (tmp_path / "own.py").write_text(text)
    claims = {found.text: found for found in check_file(tmp_path / "own.py", {}, tmp_path)}

    assert words in claims[claim].trouble


def test_a_training_that_raises_is_not_said_to_repeat_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: object) -> None:
        raise ArithmeticError("no optimum")

    monkeypatch.setattr("bench.check.victim.train", failing)
    (tmp_path / "own.py").write_text(VICTIM.format("faces", 4, "NormalizedDescent()"))
    claims = {found.text: found for found in check_file(tmp_path / "own.py", {}, tmp_path)}

    assert claims["trains"].trouble == "ArithmeticError: no optimum"
    assert "trains the same twice" not in claims


ZEROS = """
from pathlib import Path
from torch import nn
from victims.released import released

HERE = Path(__file__).parent


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.ReLU(), nn.Linear(8, 2))


VICTIMS = (released("zeros", network=network, weights=HERE / "weights.safetensors", images=HERE / "images.npz"),)
"""


def test_a_model_of_zeros_has_learnt_nothing(tmp_path: Path) -> None:
    shapes = {"1.weight": (8, 144), "1.bias": (8,), "3.weight": (2, 8), "3.bias": (2,)}
    save_file({name: torch.zeros(shape) for name, shape in shapes.items()}, tmp_path / "weights.safetensors")
    images = np.random.default_rng(0).integers(0, 256, (8, 12, 12), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", train_images=images, train_labels=np.arange(8) % 2)
    (tmp_path / "zeros.py").write_text(ZEROS)
    claims = {claim.text: claim for claim in check_file(tmp_path / "zeros.py", {}, None)}

    learnt = claims["classifies the images that it has learnt (loss 0.693, accuracy 0.000)"]
    assert "its accuracy on them is 0.000" in learnt.trouble
    (taken,) = (text for text in claims if "take it" in text)
    assert re.fullmatch(r"\d+ attacks take it: .*kkt-general, .*", taken)
    names = taken.partition(": ")[2].split(", ")
    assert "kkt-delta" not in names, "it needs the start, which nobody gave"
    assert "kkt-delta:uniform" in names, "what an audit runs is named, though the defaults decline"


def test_weights_that_do_not_load_are_attacked_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_bytes(b"no weights")
    images = np.random.default_rng(0).integers(0, 256, (8, 12, 12), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", train_images=images, train_labels=np.arange(8) % 2)
    (tmp_path / "zeros.py").write_text(ZEROS)
    claims = {claim.text: claim for claim in check_file(tmp_path / "zeros.py", {}, None)}

    assert [text for text, claim in claims.items() if not claim.holds] == ["its weights fit its network"]
    assert not any("take" in text for text in claims)


def test_a_shipped_file_can_be_checked() -> None:
    assert "first-layer" in all_hold(ROOT / "attacks" / "first_layer.py")


@pytest.mark.parametrize("folder", [".", "plugins", "attacks/mine"])
def test_an_own_file_inside_the_checkout_can_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setattr("bench.check.ROOT", tmp_path)
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    claims = check_file(written(tmp_path / folder), {}, None)
    assert [next(claims).subject for _ in range(2)] == ["own.py", "own"]


def test_what_holds_neither_attack_nor_victim_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("")
    for path in (tmp_path / "empty.py", tmp_path / "absent.py", tmp_path, ROOT / "README.md"):
        with pytest.raises(UserError):
            list(check_file(path, {}, None))


def test_a_parameter_of_no_attack_is_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(VICTIM.format("faces", 4, "NormalizedDescent()"))
    with pytest.raises(UserError, match=r"--set is of an attack, and .*own\.py defines none; leave it out"):
        list(check_file(file, {"steps": 1}, None))


def test_watching_sees_text_and_files_and_time(tmp_path: Path) -> None:
    begun = time.monotonic()
    with watched(60) as effects:
        print("hello")  # noqa: T201
        (tmp_path / "made").mkdir()
        (tmp_path / "file").write_text("x")
        (tmp_path / "file").read_text()
        os.close(os.open(tmp_path / "low", os.O_CREAT | os.O_WRONLY))
    (tmp_path / "later").write_text("x")

    assert effects.printed == "hello\n"
    assert effects.written == [str(tmp_path / name) for name in ("made", "file", "low")]
    assert 0 < effects.seconds <= time.monotonic() - begun
    with pytest.raises(TimeoutError), watched(0.05):
        while True:
            pass
