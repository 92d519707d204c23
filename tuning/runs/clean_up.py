"""What is done once in a while: idle runs are parked, an idle trainer ends, and what nobody needs is removed.

Belongs to the thread of the executor.
"""

import shutil
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from inference.database import Database
from tuning.runs.checkpoints import Checkpoints
from tuning.runs.paths import session_of
from tuning.runs.pending_samples import PendingSamples
from tuning.runs.resident_runs import STATE_FOLDER, ResidentRuns
from tuning.runs.sessions import Sessions
from tuning.runs.store import RUN_CHECKPOINTS, RUN_INFOS, SAMPLERS, SESSIONS, latest
from tuning.runs.types import ClientSession, RunInfo, SamplingSession

SILENT_S = 300.0  # without a sign of life from its session, a run is parked
IDLE_TRAINER_S = 300.0  # without a run in its memory, the trainer ends: it has the base model
PARKED_S = 7 * 24 * 3600  # without a request, its state is removed from the disk; its checkpoints stay
FINISHED_S = 3600  # the same for a run whose session is finished: requests that were sent before may follow
UNUSED_SNAPSHOT_S = 24 * 3600.0
ABANDONED_S = 7 * 24 * 3600  # without a sign of life, a session is removed unless it has checkpoints
MAX_SILENT_SESSIONS = 10_000  # without a run; the oldest beyond it are removed earlier
REMOVE_EVERY_S = 600.0


class CleanUp:
    """Parks and removes what is not used any more, each time that it runs.

    folder: of all runs.
    """

    def __init__(
        self,
        folder: Path,
        database: Database,
        sessions: Sessions,
        residents: ResidentRuns,
        checkpoints: Checkpoints,
        pending_samples: PendingSamples,
    ) -> None:
        self._folder, self._database, self._sessions = folder, database, sessions
        self._residents, self._checkpoints = residents, checkpoints
        self._pending_samples = pending_samples
        self._next_removal = 0.0

    def run(self) -> Collection[str]:
        """Returns the ids of the sessions that were removed."""
        self._residents.park_where(lambda run_id: self._sessions.silent_s(session_of(run_id)) > SILENT_S)
        self._residents.end_idle_trainer(IDLE_TRAINER_S)
        self._checkpoints.delete_expired()
        for sampler in self._database.run(latest, SAMPLERS):
            if self._sessions.unused_s(sampler.id) > UNUSED_SNAPSHOT_S:
                self._remove_snapshot(sampler)
        if time.monotonic() < self._next_removal:
            return ()
        self._next_removal = time.monotonic() + REMOVE_EVERY_S
        self._pending_samples.remove_old()
        sessions, runs = self._database.run(latest, SESSIONS), self._database.run(latest, RUN_INFOS)
        self._remove_states(runs, {session.id for session in sessions if session.is_finished})
        return self._remove_sessions(sessions, runs)

    def close_session(self, session_id: str) -> None:
        """Park the session's runs, and remove its snapshots."""
        self._residents.park_where(lambda run_id: session_of(run_id) == session_id)
        for sampler in self._database.run(latest, SAMPLERS, session_id):
            self._remove_snapshot(sampler)

    def _remove_states(self, runs: Iterable[RunInfo], finished_ids: Collection[str]) -> None:
        for run in runs:
            idle_s = FINISHED_S if run.session_id in finished_ids else PARKED_S
            if run.state == "disk" and run.last_request < time.time() - idle_s:
                shutil.rmtree(self._folder / run.folder / STATE_FOLDER, ignore_errors=True)

    def _remove_sessions(self, sessions: Iterable[ClientSession], runs: Iterable[RunInfo]) -> Collection[str]:
        checkpoints = self._database.run(latest, RUN_CHECKPOINTS)
        with_checkpoints = {session_of(checkpoint.run_id) for checkpoint in checkpoints}
        with_runs = {run.session_id for run in runs}
        silent = [
            session
            for session in sessions
            if session.id not in with_checkpoints and self._sessions.silent_s(session.id) > SILENT_S
        ]
        abandoned_ids = {
            session.id for session in silent if last_sign_at(session) < time.time() - ABANDONED_S
        }
        empty_ids = [session.id for session in silent if session.id not in with_runs]
        removed_ids = abandoned_ids.union(empty_ids[MAX_SILENT_SESSIONS:])
        for session_id in removed_ids:
            self.close_session(session_id)
            self._sessions.remove(session_id)
        for run in [run for run in runs if run.session_id in removed_ids]:
            self._database.run(RUN_INFOS.delete, run.id)
            shutil.rmtree(self._folder / run.folder, ignore_errors=True)
        return removed_ids

    def _remove_snapshot(self, sampler: SamplingSession) -> None:
        if sampler.snapshot:
            self._sessions.remove_sampler(sampler.id)
            self._checkpoints.unload(sampler.adapter)
            shutil.rmtree(self._folder / sampler.snapshot, ignore_errors=True)


def last_sign_at(session: ClientSession) -> int:
    """The time of the last sign of life."""
    return max(session.created, session.last_sign)
