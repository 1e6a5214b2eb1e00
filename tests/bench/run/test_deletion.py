"""Victims that release two models in the harness: what is told of them, how they are scored, up to the row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch
from attacking import CPU, context

from attacks.base import Knowledge, Reconstruction, UndeclaredKnowledgeError
from attacks.unlearning import Unlearning, UnlearningParams
from bench.plan import registry
from bench.plan.options import attack_params
from bench.run.disclosure import view_of
from bench.run.nulls.controls import NoControlError, NullControls
from bench.scoring import PROTOCOLS
from bench.scoring.evaluation import Reference, count_scores
from victims.deletion import cache
from victims.deletion.spec import Deletion, DeletionSpec
from victims.deletion.victim import DeletionVictim
from victims.errors import UserError

Bench = Callable[..., Any]
TINY = DeletionSpec(name="digits-unlearn-tiny-60", dataset="digits", n=60, targets=6, training=Deletion(records=2))
VICTIMS = {name: spec for name, spec in registry.victims().items.items() if spec.setting == "deletion"}
PLUGIN = '''
from attacks.base import Attack, AttackParams, Knowledge, Reconstruction
from victims.deletion.spec import Deletion, DeletionSpec

VICTIMS = (
    DeletionSpec(name="digits-unlearn-tiny-60", dataset="digits", n=60, targets=6, training=Deletion(records=2)),
)


class Swapped(Attack):
    """Returns the targets, those of one deletion in another order."""

    name = "swapped"
    summary = "the targets in another order"
    needs = frozenset({Knowledge.TRAINING_IMAGES})
    Params = AttackParams
    setting = "deletion"
    protocol = "balle2022"

    def reconstruct(self, view, ctx):
        return Reconstruction(candidates=view.training_images[0][-6:][[1, 0, 3, 2, 5, 4]])
'''


def trained(spec: DeletionSpec) -> DeletionVictim:
    return cache.obtain(spec, None, CPU, lambda done, models: None, lambda notice: None)


def view(victim: DeletionVictim) -> Any:
    return view_of(victim, Unlearning.needs, CPU)


def test_the_view_tells_both_releases_and_what_is_public() -> None:
    victim = trained(TINY)
    shown = view(victim)
    (earlier,) = shown.earlier_weights
    assert {name: value.shape for name, value in earlier.items()} == {
        name: value.shape[1:] for name, value in shown.weights.items()
    }
    assert all(len(value) == 3 for value in shown.weights.values())
    assert (shown.n, shown.training) == (60, TINY.training)
    assert len(shown.shadow_pool[0]) == len(victim.split.pool)


def test_nobody_but_the_oracle_sees_a_training_image() -> None:
    victim = trained(TINY)
    secret = {image.tobytes() for part in (victim.split.retained, victim.split.targets) for image in part.images}
    for item in Knowledge:
        try:
            told = view_of(victim, frozenset({item}), CPU)
        except LookupError:
            continue
        found = told._facts[item]
        shown = {np.asarray(image).tobytes() for image in found[0]} if isinstance(found, tuple) else set()
        assert secret.isdisjoint(shown) == (item is not Knowledge.TRAINING_IMAGES)


def test_the_row_counts_records_in_any_order_within_a_deletion(bench: Bench, tmp_path: Path, results: Path) -> None:
    """The null is rolled by whole deletions: by one record it would keep half of the truth."""
    (tmp_path / "swapped.py").write_text(PLUGIN)
    chosen = ("-a", "swapped", "-a", "unlearning", "-a", "glm", "-v", TINY.name)
    bench("run", *chosen, "--device", "cpu", "--plugin-dir", tmp_path, "--results-dir", results)
    rows = pd.read_csv(results / "runs.csv").set_index("attack")
    swapped = rows.loc["swapped"]
    assert (swapped["n"], swapped["n_good"], swapped["n_fixed"], swapped["protocol"]) == (6, 6, 0, "balle2022")
    assert swapped["null_shuffled"] < 3
    assert pd.isna(swapped["membership_auc"]) and swapped["mse_p50"] == 0
    assert rows.loc["unlearning", "status"] == "ok"
    assert "earlier weights" in rows.loc["unlearning", "knowledge"]
    assert rows.loc["unlearning", "family"] == "deleted between two releases, linear model"
    assert rows.loc["glm", "reason"].endswith("; here it is the records that a release has deleted")
    samples = pd.read_csv(results / "runs" / swapped["run_id"] / "per_sample.csv")
    assert samples["cosine"].tolist() == pytest.approx([1.0] * 6)
    assert (samples["cosine_public_nearest"] > samples["cosine_public_mean"]).mean() > 0.5


def test_a_single_deletion_is_scored_against_no_other() -> None:
    victim = trained(TINY.model_copy(update={"targets": 2}))
    found, unused = Reconstruction(torch.zeros(2, 1, 8, 8)), cast("Any", None)
    controls = NullControls(unused, None, twins=False)
    with pytest.raises(NoControlError, match="no other model's target"):
        controls.candidates("null_shuffled", unused, PROTOCOLS["balle2022"], found, victim)


def test_the_oracle_is_the_nearest_public_record_alone() -> None:
    victim = trained(TINY)
    reference = Reference.of(victim)
    pool, targets = torch.from_numpy(victim.split.pool.images), torch.from_numpy(victim.split.targets.images)
    nearest = (targets[:, None] - pool).square().mean((2, 3, 4)).amin(1)
    assert torch.allclose(reference.truth.nearest_known_mse, nearest, rtol=1e-5)
    scores = count_scores(PROTOCOLS["balle2022"], reference.matcher(targets))["n_good"]
    assert scores.n_good == 6


@pytest.mark.parametrize("name", VICTIMS)
def test_every_named_victim_is_what_its_name_says(name: str) -> None:
    spec = VICTIMS[name]
    assert isinstance(spec, DeletionSpec)
    assert name.startswith(f"{spec.dataset}-unlearn-") and str(spec.n) in name.split("-")
    assert DeletionSpec.model_validate_json(spec.model_dump_json()) == spec
    assert Unlearning(UnlearningParams()).supports(spec) is None


def test_no_two_named_victims_are_the_same() -> None:
    identities = [str(spec.identity()) for spec in VICTIMS.values()]
    assert len(set(identities)) == len(identities)


def test_the_attack_declares_what_it_reads_and_leaves_nothing_out() -> None:
    victim = trained(TINY)
    attack = Unlearning(UnlearningParams(evaluations=2, guesses=1))
    for item in attack.knowledge:
        with pytest.raises(UndeclaredKnowledgeError, match=item.value):
            attack.reconstruct(view_of(victim, attack.needs - {item}, CPU), context())
    found = attack.reconstruct(view(victim), context())
    again = attack.reconstruct(view(victim), context())
    assert found.candidates.shape == (6, 1, 8, 8) and found.candidates.dtype == torch.float32
    assert torch.equal(found.candidates, again.candidates)
    assert found.labels is not None and len(found.labels) == 6


def changed(victim: DeletionVictim, **fields: Any) -> DeletionVictim:
    return replace(victim, **fields)


def test_releases_that_do_not_fit_are_refused_in_one_line() -> None:
    victim = trained(TINY)
    attack = Unlearning(UnlearningParams())
    same = {name: value.expand(3, *value.shape) for name, value in victim.before.items()}
    with pytest.raises(UserError, match="are the same: no weight shows what was deleted"):
        attack.reconstruct(view(changed(victim, weights=same)), context())
    other = {name: value[..., :2] for name, value in victim.before.items()}
    with pytest.raises(UserError, match="no two of one model"):
        attack.reconstruct(view(changed(victim, before=other)), context())
    with pytest.raises(UserError, match="9999 public records are asked for, and there are 1737"):
        Unlearning(UnlearningParams(public=9999)).reconstruct(view(victim), context())
    with pytest.raises(UserError, match="set one of the two"):
        attack_params(Unlearning, "oracle", {"public": 5})


def test_a_deletion_that_changed_nothing_is_a_flag_and_few_public_records_another() -> None:
    victim = trained(TINY)
    weights = {name: value.clone() for name, value in victim.weights.items()}
    for name, value in victim.before.items():
        weights[name][1] = value
    attack = Unlearning(UnlearningParams(public=50, evaluations=2))
    found = attack.reconstruct(view(changed(victim, weights=weights)), context())
    missing = found.candidates.isnan().flatten(1).all(1)
    assert missing.tolist() == [False, False, True, True, False, False]
    assert found.flags == (
        "50 public records for 64 features: the Hessian outside their span is the penalty's",
        "1 of 3 deletions changed no weight",
    )


@pytest.mark.parametrize(
    ("name", "records", "reason"),
    [
        ("diabetes-unlearn-ridge-300", 2, "no classes tell them apart"),
        ("digits-unlearn-ridge-1000", 25, "25 records deleted at once, and a gradient of 10 rows"),
        ("digits-unlearn-mlp-1000", 25, "a gradient of 10 rows"),
    ],
)
def test_deletions_of_too_many_records_are_declined(name: str, records: int, reason: str) -> None:
    spec = VICTIMS[name]
    assert isinstance(spec, DeletionSpec)
    together = spec.model_copy(update={"training": Deletion(records=records)})
    assert reason in str(Unlearning(UnlearningParams()).supports(together))


def test_an_attack_of_the_setting_is_checked_like_any_other(bench: Bench) -> None:
    done = bench("check", "attacks/unlearning.py")
    assert done.status == 0, done.out
    assert "takes a victim with one target" in done.out


def test_a_victim_of_the_setting_is_checked_like_any_other(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "victim.py").write_text(PLUGIN.partition("class Swapped")[0])
    done = bench("check", tmp_path / "victim.py")
    assert done.status == 0, done.out
    assert "an attack takes it: unlearning" in " ".join(done.out.split())
