"""Null controls: scores of candidates that cannot have seen the training images.

A count of good images means something only beside what these get. Two of them attack a twin of the victim, which takes
as long as the attack itself: their candidates are kept in the cache, one set for all seeds.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from bench.plan.run import Run, attack_sha
from bench.run.failures import Fault, fault_of
from bench.run.nulls.kinds import TWIN_SEED, no_twin, wanted
from bench.run.session import Session
from bench.scoring import Protocol, Scores
from bench.scoring.evaluation import Reference, count_scores, counts, mean_image_scores, one_to_one_scores, together
from bench.store.good_images import encode
from bench.store.records import ABSENT, LOST, RAISED, TWINS
from bench.store.tensors import DamagedError, read_tensors, write_tensors
from bench.terminal.text import describe
from victims.base import Victim
from victims.cache import DAMAGED, cache_dir
from victims.files import exclusive, set_aside
from victims.informed.victim import AnyVictim
from victims.obtain import spare_inputs
from victims.spec import VictimSpec

if TYPE_CHECKING:
    from attacks.base import Attack, Reconstruction

SOURCE = "attack_sha"
"""The key, among a file's metadata, of the hash of the source that attacked the twin."""


class NoControlError(LookupError):
    """A victim or an attack has no such null control."""


@dataclass(frozen=True)
class NullCounts:
    """What the null controls got.

    Attributes:
        by_control: scores by count column, for each control that could be had.
        missing: why the others could not, by the flag that says so, such as `absent_null_disjoint`.
    """

    by_control: dict[str, dict[str, Scores]]
    missing: dict[str, str]

    def columns(self, n_good: int | None) -> dict[str, Any]:
        """Return the columns of runs.csv: each control's count, and the strictest null of every count."""
        counted = {name: counts(scores) for name, scores in self.by_control.items()}
        values: dict[str, Any] = {name: found["n_good"] for name, found in counted.items()}
        if counted:
            for column in next(iter(counted.values())):
                values[f"null_{column}"] = max(found[column] for found in counted.values())
            values["null_control"] = max(counted, key=lambda name: counted[name]["n_good"])
            strictest = max(map(one_to_one_scores, self.by_control.values()), key=lambda scores: scores.n_good)
            values["null_images"] = encode(strictest.good.numpy())
            if n_good is not None:
                values["gain_over_null"] = n_good - values["null_n_good"]
        return values


class NullControls:
    """Runs the null controls of a victim.

    Args:
        session: trains twins and attacks them.
        control: the attack that draws random candidates, None if there is none.
        twins: attack twins too; without, only what takes seconds.
        anew: attack a twin again if the attack's source has changed since; without, that is told.
    """

    def __init__(self, session: Session, control: type[Attack[Any]] | None, twins: bool, anew: bool = False) -> None:
        self.session, self.control, self.twins, self.anew = session, control, twins, anew

    def count(
        self,
        run: Run,
        protocol: Protocol,
        found: Reconstruction | None,
        victim: AnyVictim,
        reference: Reference,
        names: Collection[str] | None = None,
    ) -> NullCounts:
        """Return what each control gets under the protocols of a row.

        Args:
            run: the run, whose attack is made on the twins too.
            protocol: the row's.
            found: what the attack found; None if it failed, and then no twin is attacked.
            victim: the victim.
            reference: its data.
            names: the controls; None for those of a complete row.
        """
        by_control: dict[str, dict[str, Scores]] = {}
        missing: dict[str, str] = {}
        for name in self.of(protocol) if names is None else names:
            try:
                if name == "null_mean_image":
                    if len(reference.truth.images) == 1:
                        raise NoControlError("the mean of one image is that image")
                    by_control[name] = mean_image_scores(protocol, reference.truth)
                else:
                    null = self.candidates(name, run, protocol, found, victim)
                    by_control[name] = count_scores(protocol, reference.matcher(null))
            except NoControlError as error:
                missing[f"{ABSENT}{name}"] = str(error)
            except (Exception, SystemExit) as error:  # a control that cannot be had must not cost the run
                raised = fault_of(error) is Fault.METRIC
                missing[f"{RAISED if raised else LOST}{name}"] = describe(error)
        return NullCounts(by_control, missing)

    def of(self, protocol: Protocol) -> tuple[str, ...]:
        """Return the controls that a complete row under a protocol has, those of twins if they are attacked here."""
        return wanted(protocol, self.twins)

    def candidates(
        self, name: str, run: Run, protocol: Protocol, found: Reconstruction | None, victim: AnyVictim
    ) -> Tensor:
        """Return a control's candidates for a row under a protocol.

        Raises:
            NoControlError: this victim or attack has no such control.
        """
        if name == "null_shuffled":
            if found is None:
                raise NoControlError("the attack failed")
            shift = 1 if isinstance(victim, Victim) else together(victim)
            if len(found.candidates) <= shift:
                raise NoControlError("there is no other model's target")
            return found.candidates.roll(shift, 0)
        if not isinstance(victim, Victim):
            raise NoControlError(f"{name} is no control of the {victim.spec.setting} setting")
        if name == "null_random":
            if self.control is None:
                raise NoControlError("no attack is a null control")
            return self._random(self.control, run, found, victim)
        if name == "null_held_out":
            return self._held_out(protocol, found, victim)
        if found is None:
            raise NoControlError("the attack failed")
        if (reason := no_twin(run, TWINS[name])) is not None:
            raise NoControlError(reason)
        return self._twin(TWINS[name], run, found.resolved)

    def _held_out(self, protocol: Protocol, found: Reconstruction | None, victim: Victim) -> Tensor:
        """Return the held-out images, with more of the dataset where the attack has more candidates: (k, C, H, W).

        Under a protocol that asks for a candidate nearer than every held-out image no held-out image can pass. There
        the control has other images of the dataset alone.

        Raises:
            NoControlError: there are no such images.
        """
        held_out = torch.from_numpy(victim.split.test_inputs)
        if is_bar := protocol.good == "oracle":
            held_out = held_out[:0]
        lacking = (0 if found is None else len(found.candidates)) - len(held_out)
        if lacking > 0:
            held_out = torch.cat([held_out, torch.from_numpy(spare_inputs(victim, self.session.data_dir, lacking))])
        if len(held_out) == 0:
            besides = " besides those that a candidate has to beat" if is_bar else ""
            raise NoControlError(f"there are no held-out images{besides}")
        return held_out

    def _random(self, control: type[Attack[Any]], run: Run, found: Reconstruction | None, victim: AnyVictim) -> Tensor:
        """Draw as many random candidates as the attack returned, with the contrast of its median candidate."""
        settings: dict[str, Any] = {}
        if found is not None:
            settings["candidates"] = len(found.candidates)
            contrast = float(found.candidates.float().flatten(1).std(1).nanmedian())
            if 0 < contrast < torch.inf:
                settings["contrast"] = contrast
        drawn = replace(run, attack=control, params=control.Params.model_validate(settings), variant="")
        return self.session.attack(drawn, victim).reconstruction.candidates.float().cpu()

    def _twin(self, kind: Literal["untrained", "disjoint"], run: Run, resolved: dict[str, Any]) -> Tensor:
        """Return the attack's candidates on a twin of the victim, from the cache if they are there.

        The attack gets the parameters that it resolved itself on the victim, so that it has as many tries.
        """
        assert isinstance(run.victim, VictimSpec)  # others have no twin
        params = type(run.params).model_validate(run.params.model_dump() | resolved)
        attacked = replace(run, params=params, victim=run.victim.as_twin(kind), seed=TWIN_SEED)
        path = cache_dir() / "controls" / f"{self.session.run_id(attacked)}.safetensors"
        waiting = f"{run.attack.name} on {attacked.victim.name}: another process is at it; waiting"
        with exclusive(path.with_suffix(".lock"), lambda: self.session.reporter.notice(waiting)):
            if (kept := self._kept(path, attacked)) is not None:
                return kept
            victim = self.session.victim(attacked.victim)
            checkpoint = path.with_suffix(".checkpoint")
            found = self.session.attack(attacked, victim, checkpoint).reconstruction
            candidates = found.candidates.float().cpu().contiguous()
            write_tensors(path, {"candidates": candidates}, {SOURCE: attack_sha(run.attack)})
            checkpoint.unlink(missing_ok=True)
            return candidates

    def _kept(self, path: Path, attacked: Run) -> Tensor | None:
        """Return the candidates in a file of the cache, None if there are none; a damaged file is set aside."""
        today = attack_sha(attacked.attack)
        kept = _newest(path, today)
        try:
            tensors, metadata = read_tensors(kept)
            candidates = tensors["candidates"]
        except FileNotFoundError:
            return None
        except (DamagedError, KeyError) as error:
            aside = set_aside(kept, cache_dir() / DAMAGED)
            self.session.reporter.notice(f"{kept} is damaged ({error}), set aside as {aside}; attacking the twin again")
            return None
        source = metadata.get(SOURCE, kept.stem.removeprefix(path.stem).removeprefix("-"))
        if today and source not in ("", today):
            if self.anew:
                return None
            name, version = attacked.attack.name, attacked.attack.version
            changed = f"its source changed since version {version} attacked {attacked.victim.name}"
            hint = "--force attacks it again, a raised version makes new rows"
            self.session.reporter.notice(f"{name}: {changed}; {hint}")
        return candidates


def _newest(path: Path, source: str) -> Path:
    """Return the file that holds candidates on a twin.

    Older versions of this suite ended its name in the hash of the attack's source; of several such files the one of
    today's source is taken, or else the last.
    """
    older = [] if path.exists() else path.parent.glob(f"{escape(path.stem)}-*{path.suffix}")
    return max(older, key=lambda file: (file.stem.endswith(f"-{source}"), file.stat().st_mtime_ns), default=path)
