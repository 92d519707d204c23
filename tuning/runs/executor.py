"""Executes one request of a run after the other: what the trainer, the disk and the backend do for it.

Belongs to one thread, which waits for the trainer. Knows no order and no promises.
"""

import dataclasses
import logging
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from inference.database import Database, StoreFailed
from inference.errors import BadRequest, Internal, NotFound, ServerError, named_error
from inference.lora.file_names import ADAPTER_FILES
from inference.process.memory.memory_shortage import TOO_LITTLE_MEMORY, is_memory_shortage
from tuning.runs.age_encryption import encrypt_files, parse_recipients
from tuning.runs.checkpoints import Checkpoints, check_ttl
from tuning.runs.counts import RunCounts
from tuning.runs.paths import CheckpointPath, check_checkpoint_name, sampler_id_of
from tuning.runs.resident_runs import ResidentRuns
from tuning.runs.store import RUN_CHECKPOINTS, RUN_INFOS, SAMPLERS, change, latest, require
from tuning.runs.trainer_process import Interrupted
from tuning.runs.types import (
    CheckpointKind,
    CreateRun,
    Failure,
    ForwardBackward,
    LoadWeights,
    OptimStep,
    PassOutput,
    RejectedRequest,
    RunCheckpoint,
    RunCreated,
    RunInfo,
    RunRequest,
    RunResult,
    SamplingSession,
    SaveForSampler,
    SaveWeights,
    StepOutcome,
    WeightsLoaded,
    WeightsSaved,
)
from tuning.trainer.messages import data_to_arrays
from tuning.trainer.run_files import OPTIMIZER_FILE

log = logging.getLogger(__name__)


class RunExecutor:
    """Executes the requests of all runs, one after the other.

    folder: of all runs.
    """

    def __init__(
        self, folder: Path, database: Database, residents: ResidentRuns, checkpoints: Checkpoints
    ) -> None:
        self._folder, self._database = folder, database
        self.residents, self._checkpoints = residents, checkpoints
        self.counts = RunCounts()

    def execute(self, run_id: str, seq_id: int, request: RunRequest) -> RunResult | Failure | None:
        """Never raises: what fails is a Failure. The run is then at the next seq_id.

        None: the request was interrupted, and is to be executed again after the next start.
        """
        began = time.monotonic()
        try:
            result: RunResult | Failure = EXECUTE[type(request)](self, run_id, request)
        except Interrupted:
            return None
        except (BadRequest, NotFound) as error:
            result = Failure(message=error.message, category="user")
        except ServerError as error:
            result = Failure(message=error.message, category="server")
        except Exception as error:  # the top of the thread
            log.exception("run=%s seq_id=%d failed", run_id, seq_id)
            message = TOO_LITTLE_MEMORY if is_memory_shortage(error) else named_error(error)
            result = Failure(message=message, category="server")
        self.counts.requests += 1
        self.counts.seconds += time.monotonic() - began
        self._record_progress(run_id, seq_id)
        return result

    def _record_progress(self, run_id: str, seq_id: int) -> None:
        record = partial(change, next_seq_id=seq_id + 1, last_request=int(time.time()))
        try:
            self._database.run(record, RUN_INFOS, run_id)
        except NotFound:
            log.debug("run=%s was not created", run_id)
        except (StoreFailed, MemoryError) as error:
            log.error("run=%s seq_id=%d is not recorded: %s", run_id, seq_id, named_error(error))

    def create(self, run_id: str, request: CreateRun) -> RunCreated:
        """Nothing is left of a run that could not be created."""
        options, now = request.options, int(time.time())
        run = RunInfo(
            id=run_id,
            session_id=request.session_id,
            options=dataclasses.replace(
                options, seed=secrets.randbits(31) if options.seed is None else options.seed
            ),
            created=now,
            folder=secrets.token_hex(8),
        )
        (self._folder / run.folder).mkdir(mode=0o700, parents=True)
        self._database.run(RUN_INFOS.insert, run, request.session_id)
        try:
            if request.path:
                run = self._start_from(run, request)
            num_trained = self.residents.open(run)
        except Exception:
            self._database.run(RUN_INFOS.delete, run_id)
            shutil.rmtree(self._folder / run.folder)
            raise
        self._database.run(partial(change, num_trained=num_trained), RUN_INFOS, run_id)
        log.info("run=%s status=created rank=%d parameters=%d", run_id, run.options.rank, num_trained)
        return RunCreated(run_id=run_id, path=request.path or None)

    def forward_backward(self, run_id: str, request: ForwardBackward) -> PassOutput:
        run = self._usable_run(run_id)
        arrays = data_to_arrays(request.data)
        max_tokens = self.residents.pass_tokens(run, max(map(len, request.data), default=0))
        fields = {"loss_fn": request.loss_fn, "config": dict(request.config), "max_tokens": max_tokens}
        try:
            reply = self.residents.call(
                run, "forward_backward", arrays, forward_only=request.forward_only, **fields
            )
        finally:
            if not request.forward_only:
                self.residents.mark_changed(run, has_gradients=True)
        self.counts.tokens += sum(map(len, request.data))
        logprobs = [reply.arrays[str(index)] for index in range(len(request.data))]
        return PassOutput(logprobs=logprobs, metrics=reply.header["metrics"])

    def optim_step(self, run_id: str, request: OptimStep) -> StepOutcome:
        run = self._usable_run(run_id)
        try:
            reply = self.residents.call(run, "optim_step", params=dataclasses.asdict(request.params))
        finally:
            self.residents.mark_changed(run, has_gradients=False)
        return StepOutcome(metrics=reply.header["metrics"])

    def save_weights(self, run_id: str, request: SaveWeights) -> WeightsSaved:
        run, path = self._usable_run(run_id), CheckpointPath(run_id, request.kind, request.name)
        check_checkpoint_name(request.name)
        check_ttl(request.ttl_s)
        recipients = parse_recipients(request.encrypt_to)
        if self._checkpoints.exists(path) and not request.overwrite:
            raise BadRequest("path", "exists: choose another name, or set overwrite", str(path))
        with_optimizer = request.kind == "weights"
        folder = self._save(run, path.kind, with_optimizer=with_optimizer)
        if recipients:
            encrypt_files(folder, recipients)
        self._checkpoints.add(run, path, folder, request.ttl_s, request.user_metadata)
        if with_optimizer:
            self.residents.keep_state(run, folder, (*ADAPTER_FILES, OPTIMIZER_FILE))
        return WeightsSaved(path=str(path))

    def save_for_sampler(self, run_id: str, request: SaveForSampler) -> WeightsSaved:
        run = self._usable_run(run_id)
        if request.name is None:
            return self._save_snapshot(run, request)
        check_checkpoint_name(request.name)
        check_ttl(request.ttl_s)
        path = CheckpointPath(run_id, "sampler_weights", request.name)
        folder = self._save(run, path.kind, with_optimizer=False)
        self._checkpoints.load(str(path), folder)
        self._checkpoints.add(run, path, folder, request.ttl_s, request.user_metadata)
        return WeightsSaved(path=str(path))

    def load_weights(self, run_id: str, request: LoadWeights) -> WeightsLoaded:
        run, checkpoint = self._usable_run(run_id), self._trainable_checkpoint(request.path)
        folder = self._checkpoints.folder_of(checkpoint)
        self.residents.call(run, "load", folder=str(folder), with_optimizer=request.with_optimizer)
        self.residents.mark_changed(run, has_gradients=False)
        self.residents.keep_state(run, folder, state_files(request.with_optimizer))
        return WeightsLoaded(path=request.path, run_id=run_id)

    def reject(self, run_id: str, request: RejectedRequest) -> Failure:
        return Failure(message=request.message, category=request.category)

    def _usable_run(self, run_id: str) -> RunInfo:
        """Raises Internal for a corrupted run, naming its last checkpoint."""
        run: RunInfo = self._database.run(require, RUN_INFOS, run_id)
        if run.is_corrupted:
            raise Internal(self.describe_corruption(run_id))
        return run

    def describe_loss(self, run_id: str) -> str:
        """Why a request to this run died with an earlier server; empty: the run goes on."""
        run = self._database.run(RUN_INFOS.find, run_id)
        return self.describe_corruption(run_id) if run is not None and run.is_corrupted else ""

    def describe_corruption(self, run_id: str) -> str:
        saved = [each for each in self._checkpoints_of(run_id) if each.kind == "weights"]
        fix = f"create a run from {saved[0].id}" if saved else "create it again: it has no checkpoint"
        return f"the training state of {run_id} was lost when its trainer was killed: {fix}"

    def _checkpoints_of(self, run_id: str) -> list[RunCheckpoint]:
        return self._database.run(latest, RUN_CHECKPOINTS, run_id)

    def _trainable_checkpoint(self, path: str) -> RunCheckpoint:
        checkpoint = self._checkpoints.get(path)
        if checkpoint.kind != "weights":
            raise BadRequest("path", "must be one of save_weights: others cannot be trained on", path)
        return checkpoint

    def _start_from(self, run: RunInfo, request: CreateRun) -> RunInfo:
        """The state of the new run is that of a checkpoint; so is the shape of its adapter."""
        checkpoint = self._trainable_checkpoint(request.path)
        options = dataclasses.replace(
            checkpoint.options,
            base_model=request.options.base_model or checkpoint.options.base_model,
            user_metadata=request.options.user_metadata,
        )
        self._database.run(partial(change, options=options), RUN_INFOS, run.id)
        self.residents.keep_state(
            run, self._checkpoints.folder_of(checkpoint), state_files(request.with_optimizer)
        )
        started: RunInfo = self._database.run(require, RUN_INFOS, run.id)
        return started

    def _save(self, run: RunInfo, kind: CheckpointKind, *, with_optimizer: bool) -> Path:
        folder = self._checkpoints.new_folder(run, kind)
        self.residents.call(run, "save", folder=str(folder), with_optimizer=with_optimizer)
        return folder

    def _save_snapshot(self, run: RunInfo, request: SaveForSampler) -> WeightsSaved:
        if request.sampler_seq is None:
            raise BadRequest("path", "or sampling_session_seq_id must be there")
        id = sampler_id_of(run.session_id, request.sampler_seq)
        folder = self._save(run, "sampler_weights", with_optimizer=False)
        self._checkpoints.load(id, folder, is_listed=False)
        sampler = SamplingSession(
            id=id,
            session_id=run.session_id,
            base_model=run.options.base_model,
            created=int(time.time()),
            adapter=id,
            snapshot=f"{run.folder}/{folder.name}",
        )
        self._database.run(SAMPLERS.insert, sampler, run.session_id)
        return WeightsSaved(path=None, sampler_id=id)


def state_files(with_optimizer: bool) -> tuple[str, ...]:
    return (*ADAPTER_FILES, OPTIMIZER_FILE) if with_optimizer else ADAPTER_FILES


EXECUTE: Mapping[type[RunRequest], Callable[..., RunResult | Failure]] = {
    CreateRun: RunExecutor.create,
    ForwardBackward: RunExecutor.forward_backward,
    OptimStep: RunExecutor.optim_step,
    SaveWeights: RunExecutor.save_weights,
    SaveForSampler: RunExecutor.save_for_sampler,
    LoadWeights: RunExecutor.load_weights,
    RejectedRequest: RunExecutor.reject,
}
