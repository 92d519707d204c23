"""What is done once in a while: idle runs are parked, and what nobody needs any more is removed.

Belongs to the thread of the executor.
"""

import shutil
import time
from pathlib import Path

from inference.database import Database
from tuning.runs.checkpoints import Checkpoints
from tuning.runs.paths import session_of
from tuning.runs.resident_runs import STATE_FOLDER, ResidentRuns
from tuning.runs.sessions import Sessions
from tuning.runs.store import RUN_INFOS, SAMPLERS, latest
from tuning.runs.types import SamplingSession

SILENT_S = 300.0  # without a sign of life from its session, a run is parked
PARKED_S = 7 * 24 * 3600  # without a request, its state is removed from the disk; its checkpoints stay
UNUSED_SNAPSHOT_S = 24 * 3600.0


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
    ) -> None:
        self._folder, self._database, self._sessions = folder, database, sessions
        self._residents, self._checkpoints = residents, checkpoints

    def run(self) -> None:
        self._residents.park_where(lambda run_id: self._sessions.silent_s(session_of(run_id)) > SILENT_S)
        self._checkpoints.delete_expired()
        self._remove_states()
        for sampler in self._database.run(latest, SAMPLERS):
            if self._sessions.unused_s(sampler.id) > UNUSED_SNAPSHOT_S:
                self._remove_snapshot(sampler)

    def close_session(self, session_id: str) -> None:
        """Park the runs of a finished session, and remove its snapshots."""
        self._residents.park_where(lambda run_id: session_of(run_id) == session_id)
        for sampler in self._database.run(latest, SAMPLERS, session_id):
            self._remove_snapshot(sampler)

    def _remove_states(self) -> None:
        for run in self._database.run(latest, RUN_INFOS):
            if run.state == "disk" and run.last_request < time.time() - PARKED_S:
                shutil.rmtree(self._folder / run.folder / STATE_FOLDER, ignore_errors=True)

    def _remove_snapshot(self, sampler: SamplingSession) -> None:
        if sampler.snapshot:
            self._database.run(SAMPLERS.delete, sampler.id)
            self._checkpoints.unload(sampler.adapter)
            shutil.rmtree(self._folder / sampler.snapshot, ignore_errors=True)
