"""Training runs for clients with a loop of their own (Tinker's API). Entry point: TrainingRuns.

Sessions, runs, their requests and checkpoints. Every method may be called from any thread. Knows no HTTP.
"""

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from inference.database import Database
from inference.errors import BadRequest, NotFound, short
from inference.finding import join_names
from tuning.jobs.fine_tuned_models import FineTunedModels
from tuning.runs.checkpoints import Checkpoints, check_ttl
from tuning.runs.clean_up import CleanUp
from tuning.runs.counts import RunsCollector
from tuning.runs.executor import RunExecutor
from tuning.runs.memory import RunMemory
from tuning.runs.paths import MAX_NUMBER, parse_path, run_id_of, sampler_id_of, session_of
from tuning.runs.pending_samples import PendingSamples
from tuning.runs.promise import Promise
from tuning.runs.resident_runs import ResidentRuns, RunTrainer
from tuning.runs.run_queue import CREATION
from tuning.runs.scheduler import RunScheduler
from tuning.runs.sessions import Sessions
from tuning.runs.store import RUN_CHECKPOINTS, RUN_INFOS, SAMPLERS, change, latest, mark_corrupted, require
from tuning.runs.types import (
    ClientSession,
    CreateRun,
    RunCheckpoint,
    RunInfo,
    RunOptions,
    RunRequest,
    SamplingSession,
)
from tuning.types import TrainingBase

SEEDS = range(-(1 << 63), 1 << 64)  # torch's
MAX_DIGITS = len(str(MAX_NUMBER))
MAX_VERSION = 200  # characters behind the name of a base model and a colon, which are stored
QUEUES_FILE = "queues.bin"

log = logging.getLogger(__name__)


class TrainingRuns:
    """The training runs of a server.

    folder         of the runs' files
    models         what serves samples of them
    start_trainer  starts what computes them; called with the first run
    max_runs       in the trainer's memory at a time
    free_bytes     memory that each process of a trainer may take beside what the server keeps
    """

    def __init__(
        self,
        folder: Path,
        database: Database,
        base: TrainingBase,
        models: FineTunedModels,
        start_trainer: Callable[[], RunTrainer],
        *,
        max_runs: int = 8,
        free_bytes: Callable[[], int] = lambda: 1 << 62,
    ) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._database, self._base = database, base
        self._sessions = Sessions(database)
        self._checkpoints = Checkpoints(folder, database, models)
        residents = ResidentRuns(folder, database, start_trainer, RunMemory(free_bytes), max_runs)
        executor = RunExecutor(folder, database, residents, self._checkpoints)
        self.pending_samples = PendingSamples(database)
        self._clean_up = CleanUp(
            folder, database, self._sessions, residents, self._checkpoints, self.pending_samples
        )
        self._residents = residents
        for run_id in database.run(mark_corrupted):
            log.warning("run=%s status=corrupted: the server was killed", run_id)
        self._scheduler = RunScheduler(executor, self.runs(), folder / QUEUES_FILE, self._clean_up.run)
        self._scheduler.execute(self._checkpoints.load_all)
        self.metrics = RunsCollector(executor.counts, residents.num_runs, self._scheduler.num_waiting)

    def close(self) -> None:
        """Park all runs: they go on after the next start."""
        self._scheduler.close()

    def create_session(
        self, user_metadata: Mapping[str, str], display_name: str | None, sdk_version: str
    ) -> str:
        """Returns the session's id."""
        return self._sessions.create(user_metadata, display_name, sdk_version)

    def heartbeat(self, session_id: str) -> None:
        """Raises NotFound, and SessionFinished once the session is finished."""
        self._sessions.heartbeat(session_id)

    def finish(self, session_id: str) -> None:
        """Close the session: its runs are parked, its snapshots removed. Raises NotFound."""
        self._sessions.finish(session_id)
        self._scheduler.execute(partial(self._clean_up.close_session, session_id))

    def sessions(self) -> list[ClientSession]:
        """Newest first."""
        return self._sessions.list()

    def session(self, session_id: str) -> ClientSession:
        """Raises NotFound."""
        return self._sessions.get(session_id)

    def create_run(self, session_id: str, model_seq_id: int, options: RunOptions) -> Promise:
        """Begin run SESSION:train:NUMBER with a new adapter; the same numbers again: the same promise.

        Raises NotFound, and BadRequest for a finished session or options that cannot be served.
        """
        self._sessions.require_open(session_id)
        self._check_base(options.base_model)
        if not 1 <= options.rank <= self._base.max_lora_rank:
            raise BadRequest("rank", f"must be 1 to {self._base.max_lora_rank}", options.rank)
        if options.seed is not None and options.seed not in SEEDS:
            raise BadRequest("seed", f"must be {SEEDS.start} to {SEEDS.stop - 1}", options.seed)
        run_id = run_id_of(session_id, model_seq_id)
        return self._scheduler.create(run_id, CreateRun(session_id=session_id, options=options))

    def create_run_from(
        self,
        session_id: str,
        model_seq_id: int,
        path: str,
        *,
        with_optimizer: bool,
        base_model: str = "",
        user_metadata: Mapping[str, str] | None = None,
    ) -> Promise:
        """As create_run, with the weights, and perhaps the optimizer's state, of a checkpoint.

        base_model  as the client calls it; empty: as the checkpoint's run called it
        """
        self._sessions.require_open(session_id)
        if base_model:
            self._check_base(base_model)
        request = CreateRun(
            session_id=session_id,
            options=RunOptions(base_model=base_model, user_metadata=user_metadata or {}),
            path=path,
            with_optimizer=with_optimizer,
        )
        return self._scheduler.create(run_id_of(session_id, model_seq_id), request)

    def submit(self, run_id: str, seq_id: int, request: RunRequest) -> Promise:
        """Queue a request; requests of a run are computed by their seq_ids, from 1, without gaps.

        A repeated seq_id gives the same promise. Once run and seq_id are known, a refusal is a
        RejectedRequest: its seq_id is used up. Raises NotFound, BadRequest for a finished session or a
        seq_id far ahead of the others, and Overloaded while too much waits.
        """
        self._sessions.require_open(session_of(run_id))
        if not CREATION < seq_id < MAX_NUMBER:
            raise BadRequest("seq_id", f"must be 1 to {MAX_NUMBER - 1}", seq_id)
        return self._scheduler.submit(run_id, seq_id, request)

    def promise(self, request_id: str) -> Promise:
        """Raises NotFound, and BadRequest once the session is finished."""
        run_id, _, number = request_id.rpartition(":")
        if not (number.isascii() and number.isdecimal()) or len(number) > MAX_DIGITS:
            raise NotFound(f"there is no request {short(request_id)}")
        self.require_unfinished(run_id)
        return self._scheduler.promise(run_id, int(number))

    def require_unfinished(self, id: str) -> None:
        """Raises BadRequest once the session of a run, a sampling session or a request is finished."""
        self._sessions.require_unfinished(session_of(id))

    def unload(self, run_id: str) -> None:
        """Free the run's memory until its next request. Raises as `open_run`."""
        self.open_run(run_id)
        self._scheduler.execute(partial(self._residents.park, run_id))

    def create_sampler(
        self,
        session_id: str,
        sampling_session_seq_id: int,
        *,
        base_model: str | None = None,
        model_path: str | None = None,
    ) -> SamplingSession:
        """What samples of the base model, or of a checkpoint, name; the same numbers again: the same.

        With both names, the checkpoint is sampled; tinker-cookbook's evaluation sends both. Raises NotFound,
        and BadRequest.
        """
        self._sessions.require_open(session_id)
        id = sampler_id_of(session_id, sampling_session_seq_id)
        return self._database.run(SAMPLERS.find, id) or self._new_sampler(id, base_model, model_path)

    def sampler(self, sampler_id: str) -> SamplingSession:
        """Raises NotFound."""
        sampler: SamplingSession = self._database.run(require, SAMPLERS, sampler_id)
        self._sessions.mark_used(sampler_id)
        return sampler

    def open_sampler(self, sampler_id: str) -> SamplingSession:
        """Raises NotFound, and BadRequest once its session is finished."""
        sampler = self.sampler(sampler_id)
        self._sessions.require_open(session_of(sampler_id))
        return sampler

    def served_model(self, base_model: str | None, model_path: str | None) -> str:
        """Under which name the backend serves a checkpoint, which is loaded; or the base model: empty.

        With both names it is the checkpoint. Raises NotFound, BadRequest, and ServerError from a load.
        """
        if base_model is None and model_path is None:
            raise BadRequest("base_model", "or model_path must be there")
        if base_model is not None:
            self._check_base(base_model)
        if model_path is not None:
            self._checkpoints.ensure_loaded(self.checkpoint(model_path))
        return model_path or ""

    def samplers(self, session_id: str) -> list[SamplingSession]:
        """Newest first."""
        return self._database.run(latest, SAMPLERS, session_id)

    def runs(self, session_id: str | None = None) -> list[RunInfo]:
        """The runs of a session, or of all sessions; newest first."""
        return self._database.run(latest, RUN_INFOS, session_id)

    def run(self, run_id: str) -> RunInfo:
        """Raises NotFound."""
        run: RunInfo = self._database.run(require, RUN_INFOS, run_id)
        return run

    def open_run(self, run_id: str) -> RunInfo:
        """Raises NotFound, and BadRequest once its session is finished."""
        run = self.run(run_id)
        self._sessions.require_open(run.session_id)
        return run

    def checkpoints(self, run_id: str | None = None) -> list[RunCheckpoint]:
        """The checkpoints of a run, or of all runs; newest first."""
        return self._database.run(latest, RUN_CHECKPOINTS, run_id)

    def checkpoint(self, path: str) -> RunCheckpoint:
        """Raises BadRequest for what is no path of a checkpoint, and NotFound."""
        return self._checkpoints.get(path)

    def checkpoint_folder(self, path: str) -> Path:
        """The folder of a checkpoint's files: adapter_config.json and others. Raises as `checkpoint`."""
        return self._checkpoints.folder_of(self.checkpoint(path))

    def delete_checkpoint(self, path: str) -> None:
        """Raises as `checkpoint`."""
        self._checkpoints.delete(path)

    def set_ttl(self, path: str, ttl_s: int | None) -> None:
        """Remove the checkpoint after so many seconds; None: never. Raises as `checkpoint`."""
        check_ttl(ttl_s)
        expires = None if ttl_s is None else int(time.time()) + ttl_s
        self._database.run(partial(change, expires=expires), RUN_CHECKPOINTS, str(parse_path(path)))

    def publish(self, path: str, is_public: bool) -> None:
        """Mark a checkpoint as public. Raises as `checkpoint`."""
        self._database.run(partial(change, is_public=is_public), RUN_CHECKPOINTS, str(parse_path(path)))

    def _check_base(self, name: str) -> None:
        """Raise BadRequest for a name that the served model does not have."""
        base, _, version = name.rpartition(":")
        if name not in self._base.names and (base not in self._base.names or len(version) > MAX_VERSION):
            raise BadRequest("base_model", f"must be one of {join_names(self._base.names)}", name)

    def _new_sampler(self, id: str, base_model: str | None, model_path: str | None) -> SamplingSession:
        adapter = self.served_model(base_model, model_path)
        if base_model is None:
            base_model = self.checkpoint(adapter).options.base_model
        sampler = SamplingSession(
            id=id,
            session_id=session_of(id),
            base_model=base_model,
            created=int(time.time()),
            model_path=model_path,
            adapter=adapter,
        )
        self._database.run(SAMPLERS.insert, sampler, sampler.session_id)
        return sampler
