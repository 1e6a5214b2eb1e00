"""The driver's own folders: what of them travels with a run, and where what comes back is put."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile

import ray

from bench.plan.registry import Victims
from bench.plan.run import Run
from bench.run.executors.cluster import needs
from bench.run.executors.cluster.bundles import FileBundle, pack, size, stamp, unpack
from bench.run.executors.cluster.needs import Preparation
from bench.run.executors.cluster.node_folders import SharedFile, TaskInputs
from bench.run.executors.cluster.worker import Returned
from bench.run.provenance import git_commit
from bench.run.runner import Outcome
from bench.run.session import Session
from bench.run.setup import Setup
from bench.store.folders import Store, write_record
from bench.store.records import Status
from bench.terminal.progress import Reporter
from bench.terminal.text import describe
from victims.cache import cache_dir
from victims.errors import UserError

MOST_BUNDLES = 64
"""The most trainings whose weights are kept in the object store; beyond, the oldest is dropped, and packed again if
need be."""


class FileStaging:
    """Stages files out and in: packs what travels from this machine's folders, and puts there what comes back.

    Args:
        setup: where the folders are.
        session: knows victims and data.
        victims: all that are known.
        plugins: place of the plug-ins in the source that travels.

    Attributes:
        moved: bytes of files that went into the object store, or came back.
    """

    def __init__(self, setup: Setup, session: Session, victims: Victims, plugins: str) -> None:
        self.setup, self.session, self.victims, self.plugins = setup, session, victims, plugins
        self.store, self.cache = Store(setup.results_dir), cache_dir()
        self.cache.mkdir(parents=True, exist_ok=True)
        self._token = NamedTemporaryFile(dir=self.cache, prefix=".shared-")  # noqa: SIM115 it is there while a plan runs
        self._shared_files: dict[Path, SharedFile] = {}
        self._made: dict[Preparation, ray.ObjectRef[FileBundle]] = {}
        self._commit = git_commit()
        self.moved = 0

    def close(self) -> None:
        """Remove what tells others that they share the cache."""
        self._token.close()

    def for_training(self, preparation: Preparation) -> TaskInputs:
        """Return what travels with a training: its data, and its last checkpoint."""
        files = preparation.files(self.session, self.victims)
        spec = preparation.spec(self.victims)
        data = needs.data_files(spec.dataset, self.setup.data_dir)
        inputs = self._inputs(data, [])
        return replace(inputs, own_cache=self._counted(pack(self.cache, files)), returned_cache=files)

    def for_run(self, run: Run, run_id: str, made: Iterable[Preparation]) -> TaskInputs:
        """Return what travels with a run: data, victims, and what this machine has of the run itself.

        Args:
            run: the run.
            run_id: its id.
            made: the trainings that it needs.
        """
        controls = needs.controls_of(run) if self.setup.twins else ()
        return replace(
            self._inputs(needs.data_files(run.victim.dataset, self.setup.data_dir), made),
            own=self._counted(pack(self.store.root, needs.of_run(run_id))),
            own_cache=self._counted(pack(self.cache, controls)),
            returned=needs.of_run(run_id)[:1],
            returned_cache=controls,
        )

    def _inputs(self, data: Iterable[Path], made: Iterable[Preparation]) -> TaskInputs:
        weights = Path(os.environ.get(needs.LPIPS_WEIGHTS, ""))
        return TaskInputs(
            token=Path(self._token.name),
            plugins=self.plugins,
            data=tuple(map(self._shared, data)),
            weights=self._shared(weights) if weights.is_file() else None,
            cache=tuple(map(self._bundle, made)),
        )

    def _shared(self, path: Path) -> SharedFile:
        path = path.resolve()
        if path not in self._shared_files:
            bundle = self._counted({path.name: path.read_bytes()})
            self._shared_files[path] = SharedFile(path, stamp(path), ray.put(bundle))
        return self._shared_files[path]

    def _bundle(self, preparation: Preparation) -> ray.ObjectRef[FileBundle]:
        """Return the reference of what a training left in this machine's cache, which this machine keeps in memory."""
        if preparation not in self._made:
            while len(self._made) >= MOST_BUNDLES:
                self._made.pop(next(iter(self._made)))  # what still travels, Ray keeps
            files = preparation.files(self.session, self.victims)
            self._made[preparation] = ray.put(self._counted(pack(self.cache, files)))
        return self._made[preparation]

    def forget(self) -> None:
        """Pack everything anew from now on: what was put into the object store may be lost."""
        self._made.clear()
        self._shared_files.clear()

    def trained(self, preparation: Preparation, bundle: FileBundle) -> None:
        """Keep what a training left, in this machine's cache.

        Raises:
            UserError: the cache cannot be written.
        """
        self._made.pop(preparation, None)
        try:
            unpack(self._counted(bundle), self.cache)
        except OSError as error:
            hint = "name another with BENCH_CACHE_DIR"
            raise UserError(f"the cache {self.cache} cannot be written ({error.strerror}); {hint}") from None

    def keep(self, checkpoint: FileBundle) -> None:
        """Keep the checkpoint of an unfinished run in the results folder, or of a training in the cache."""
        of_run = all(name.startswith(".work/") for name in checkpoint)
        with suppress(OSError):  # it is a help and no result
            unpack(self._counted(checkpoint), self.store.root if of_run else self.cache)

    def record(self, returned: Returned, reporter: Reporter) -> Outcome:
        """Store a run that came back, under this folder's next number, and return how it ended.

        What an attack found before stays if it found nothing now. A checkpoint stays here where the run's node kept
        its own.
        """
        with suppress(OSError):  # null controls can be made again
            unpack(self._counted(returned.cache), self.cache)
        outcome = returned.outcome
        if not outcome.stored or not returned.results:
            return outcome
        run_id = outcome.record.run_id
        try:
            with self.store.claimed(run_id, reporter.notice):
                before = self.store.find(run_id) if self.store.folder(run_id).exists() else None
                if before is not None and outcome.cached:
                    return outcome
                if before is not None and before.status is Status.OK and outcome.record.status is not Status.OK:
                    return Outcome(before, trouble=outcome.record.reason)
                record, again = outcome.record, before is None or before.started_utc != outcome.record.started_utc
                if again:  # it was attacked, and not only scored again
                    update = {"sequence": self.store.next_sequence(), "git_commit": self._commit}
                    record = record.model_copy(update=update)
                with self.store.writing(run_id, copied=not again) as folder:
                    inside = {Path(name).name: content for name, content in self._counted(returned.results).items()}
                    unpack(inside, folder)
                    write_record(folder, record)
                if not returned.unfinished:
                    self.store.checkpoint(run_id).unlink(missing_ok=True)
        except OSError as error:
            return replace(outcome, stored=False, trouble=f"it cannot be stored: {describe(error)}")
        return replace(outcome, record=record, cached=False)

    def _counted(self, bundle: FileBundle) -> FileBundle:
        self.moved += size(bundle)
        return bundle
