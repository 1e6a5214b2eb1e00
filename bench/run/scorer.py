"""Scores stored reconstructions: after an attack, and again when metrics or protocols change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.run.session import Session
from bench.store.folders import Store, write_record
from bench.store.good_images import encode
from bench.store.records import ABSENT, LOST, MEASURES, NULLS, RAISED, SCHEMA_VERSION, RunRecord, ScoreState, Status
from bench.terminal.text import describe
from victims.errors import UserError

if TYPE_CHECKING:
    from bench.plan.run import Run
    from bench.run.nulls.controls import NullControls
    from bench.scoring import Protocol
    from victims.informed.victim import AnyVictim


def lacking(record: RunRecord, twins: bool, retry: bool = False) -> str:
    """Return in a few words what a stored run's scores lack, "" if they are complete.

    Args:
        record: the run's.
        twins: whether null controls that attack a twin are among what it must have.
        retry: whether what raised an exception counts as lacking; what was killed, or lacked memory or a disk, always
            does.
    """
    from bench.run.nulls.kinds import wanted
    from bench.scoring import METRIC_SUITE
    from bench.scoring.protocols import protocol_named

    if record.status is not Status.OK or not record.n:
        return ""
    protocol = protocol_named(record.protocol)
    if record.scores is ScoreState.FAILED:
        return "its scores failed"
    if record.n_good is None:
        return "it is not scored yet"
    if record.metric_suite != METRIC_SUITE:
        return "its scores are of another metric suite"
    if record.protocol_version != protocol.version:
        return "its scores are of another version of the protocol"
    flags = [flag.partition(":")[0] for flag in record.flags.split(";")]
    tried = (LOST, RAISED) if retry else (LOST,)
    again = [flag.removeprefix(LOST).removeprefix(RAISED) for flag in flags if flag.startswith(tried)]
    missing = [
        name
        for name in wanted(protocol, twins)
        if getattr(record, name) is None and not {RAISED + name, ABSENT + name} & set(flags)
    ]
    return f"it lacks {', '.join(dict.fromkeys([*again, *missing]))}" if again or missing else ""


class Scorer:
    """Scores stored runs.

    Args:
        store: where they are.
        session: fetches what measures LPIPS and KL.
        controls: runs the null controls.
    """

    def __init__(self, store: Store, session: Session, controls: NullControls) -> None:
        self.store, self.session, self.controls = store, session, controls

    def complete(self, record: RunRecord, retry: bool = False) -> bool:
        """Say whether a stored run's scores are complete: of this metric suite, with all null controls."""
        return not lacking(record, self.controls.twins, retry)

    def score(self, record: RunRecord, run: Run, victim: AnyVictim, protocol: str | None = None) -> RunRecord:
        """Score a stored run; store its record and return it.

        Args:
            record: the run's, of this or an older metric suite, or not scored yet.
            run: what it is a record of, for the null controls.
            victim: the victim that was attacked.
            protocol: score under this protocol instead of the record's, as a row of its own.

        Raises:
            UserError: there is no such protocol.
            UnreadableError: the stored reconstruction is missing, damaged or of another shape.
        """
        from bench.run import artifacts
        from bench.scoring import METRIC_SUITE
        from bench.scoring.evaluation import Reference, evaluate, one_to_one_scores
        from bench.scoring.protocols import protocol_named

        chosen = protocol_named(protocol or record.protocol)
        reconstruction = artifacts.read_reconstruction(self.store.folder(record.run_id))
        shape = tuple(reconstruction.candidates.shape[1:])
        if shape != victim.input_shape:
            raise artifacts.UnreadableError(
                f"{record.run_id}: its candidates are {shape}, images of another victim", "run --force"
            )
        reference = Reference.of(victim)
        learned_metrics = self.session.learned_metrics(run.victim.dataset)
        evaluation = evaluate(chosen, reconstruction.candidates, reconstruction.confidence, reference, learned_metrics)
        self.session.reporter.notice(
            f"{run.title}: {evaluation.row.n_good} of {record.n} good ({chosen.name}); now its null controls"
        )
        names = dict.fromkeys((*self.controls.of(chosen), *self._had(record, chosen)))
        nulls = self.controls.count(run, chosen, reconstruction, victim, reference, names)
        failed = {f"{RAISED}{name}": reason for name, reason in evaluation.failed.items()} | nulls.missing
        flags = [flag for flag in record.flags.split(";") if flag and not flag.startswith((ABSENT, RAISED, LOST))]
        flags += [f"{flag}: {reason.replace(';', ',')}" for flag, reason in failed.items()]
        scored = record.model_copy(
            update={
                **dict.fromkeys(MEASURES),
                "null_control": "",
                "null_images": "",
                **evaluation.columns(),
                "good_images": encode(evaluation.row.good.numpy()),
                "one_to_one_images": encode(one_to_one_scores(evaluation.by_column).good.numpy()),
                **nulls.columns(evaluation.row.n_good),
                "schema_version": SCHEMA_VERSION,
                "scores": ScoreState.SCORED,
                "scores_reason": "",
                "control": run.attack.control,
                "protocol": chosen.name,
                "protocol_version": chosen.version,
                "metric_suite": METRIC_SUITE,
                "flags": ";".join(flags),
            }
        )
        with self.store.writing(record.run_id, copied=True) as folder:
            if chosen.name == record.protocol:
                artifacts.write_scores(folder, victim, reference, evaluation, run.title, scored.null_n_good)
                write_record(folder, scored)
            else:
                write_record(folder, scored, chosen.name)
        return scored

    def _had(self, record: RunRecord, chosen: Protocol) -> list[str]:
        """Return the null controls that a run has, under its own protocol or in the row under the one chosen.

        The row is not to lose them.
        """
        if chosen.matching == "aligned":
            return []
        rows = [record]
        if chosen.name != record.protocol and (other := self.store.find(record.run_id, chosen.name)):
            rows.append(other)
        return [name for name in NULLS if any(getattr(row, name) is not None for row in rows)]

    def record_failure(self, record: RunRecord, reason: str, run: Run, victim: AnyVictim | None) -> RunRecord:
        """Store that the scoring of a stored run failed, and return its record; earlier scores stay.

        A run without scores gets the null controls that need no attack; it counts as those until it is scored.

        Args:
            record: the run's.
            reason: why the scoring failed, beginning with whose fault it was; see `scores_reason`.
            run: what it is a record of.
            victim: the victim that was attacked; None if null controls are not to be had.
        """
        columns = {} if victim is None or record.n_good is not None else self.null_columns(run, victim)
        state = {"schema_version": SCHEMA_VERSION, "scores": ScoreState.FAILED, "scores_reason": reason}
        failed = record.model_copy(update={**columns, **state})
        try:
            with self.store.writing(record.run_id, copied=True) as folder:
                write_record(folder, failed)
        except OSError as error:
            self.session.reporter.notice(f"{record.run_id}: its state cannot be stored ({describe(error)})")
        return failed

    def null_columns(self, run: Run, victim: AnyVictim) -> dict[str, Any]:
        """Return the columns of the null controls for a run that failed: those that need no attack."""
        if not run.victim.n_targets:
            return {}
        from bench.scoring.evaluation import Reference
        from bench.scoring.protocols import protocol_named

        try:
            protocol = protocol_named(run.protocol)
        except UserError:  # which is why it failed
            return {}
        return self.controls.count(run, protocol, None, victim, Reference.of(victim)).columns(None)
