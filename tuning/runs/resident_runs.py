"""The runs that the trainer has in memory. The least used ones are parked: written to disk, and freed.

Starts the trainer with the first run. Belongs to the thread of the executor.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from inference.database import Database
from inference.errors import BadRequest, Internal, ServerError
from tuning.runs.checkpoints import link_files
from tuning.runs.memory import PASS_TOKENS, PLANNED_TOKENS, RunMemory, RunPlan, describe_shortage, to_plan
from tuning.runs.store import RUN_INFOS, change, require
from tuning.runs.trainer_process import TrainerDied
from tuning.runs.types import RunInfo, RunOptions
from tuning.trainer.durable_files import last_whole, replace_folder
from tuning.trainer.messages import Arrays, TrainerMessage
from tuning.trainer.run_files import GRADIENTS_FILE

STATE_FOLDER = "state"

log = logging.getLogger(__name__)


class RunTrainer(Protocol):
    """What trains the runs: a TrainerProcess. resident_bytes: of its memory, as of its last reply."""

    resident_bytes: int

    def call(self, verb: str, arrays: Arrays | None = None, **fields: Any) -> TrainerMessage: ...

    def interrupt(self) -> None: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class ResidentRun:
    """A run in the memory of the trainer.

    num_trained: parameters; has_gradients: of passes since the last optimizer step.
    """

    plan: RunPlan
    num_trained: int
    has_gradients: bool


class ResidentRuns:
    """The runs in the memory of the trainer, which is started for the first one.

    folder: of all runs; max_runs: in memory at a time.
    """

    def __init__(
        self,
        folder: Path,
        database: Database,
        start_trainer: Callable[[], RunTrainer],
        memory: RunMemory,
        max_runs: int,
    ) -> None:
        self._memory = memory
        self._plans: dict[str, RunPlan] = {}  # by the shape of the adapter
        self._folder, self._database, self._max_runs = folder, database, max_runs
        self._start_trainer = start_trainer
        self._trainer: RunTrainer | None = None
        self._last_call = 0.0  # time.monotonic() of it
        self._residents: OrderedDict[str, ResidentRun] = OrderedDict()  # the least used first

    def call(self, run: RunInfo, verb: str, arrays: Arrays | None = None, **fields: Any) -> TrainerMessage:
        """Call the trainer for this run, which is brought into memory. Raises as TrainerProcess.call."""
        if run.id not in self._residents:
            self.open(run)
        self._residents.move_to_end(run.id)
        return self._call(verb, arrays, run=run.id, **fields)

    def open(self, run: RunInfo) -> int:
        """Bring a run into memory; returns the number of trained parameters. Raises BadRequest."""
        plan = self._plan_of(run.options)
        self._make_room(plan)
        if run.state == "initial":
            reply = self._call("create_run", run=run.id, **adapter_fields(run.options))
            has_gradients = False
        else:
            state = last_whole(self._state_folder(run))
            if state is None:
                raise Internal(f"the state of {run.id} is missing: create a run from its last checkpoint")
            reply = self._call("open_run", run=run.id, folder=str(state))
            has_gradients = (state / GRADIENTS_FILE).exists()
        num_trained = reply.header["num_trained"]
        self._residents[run.id] = ResidentRun(plan, num_trained, has_gradients)
        return num_trained

    def num_runs(self) -> int:
        """In memory."""
        return len(self._residents)

    def pass_tokens(self, run: RunInfo, longest: int) -> int:
        """Tokens of a micro-batch. Raises BadRequest if a datum is longer than memory allows."""
        if run.id not in self._residents:
            self.open(run)
        plan = self._residents[run.id].plan
        spare_bytes = self._spare_bytes(plan)
        num_tokens = self._memory.pass_tokens(plan, spare_bytes)
        if longest > num_tokens and plan.step(longest) > spare_bytes:
            raise BadRequest("data", f"{describe_shortage(plan, spare_bytes, longest)}: send shorter data")
        return max(num_tokens, longest)

    def park(self, run_id: str) -> None:
        """Write the run's state to disk, and free its memory; does nothing for one that is not in memory."""
        if run_id not in self._residents:
            return
        run: RunInfo = self._database.run(require, RUN_INFOS, run_id)
        if run.state == "memory":
            self._call("save_state", run=run_id, folder=str(self._state_folder(run)))
            self._database.run(partial(change, state="disk"), RUN_INFOS, run_id)
        self._call("delete_run", run=run_id)
        del self._residents[run_id]
        log.info("run=%s status=parked", run_id)

    def park_where(self, is_idle: Callable[[str], bool]) -> None:
        """Park the runs for whose ids this is true. One that cannot be parked stays: the disk may be full."""
        for run_id in [run_id for run_id in self._residents if is_idle(run_id)]:
            try:
                self.park(run_id)
            except ServerError as error:
                log.error("run=%s cannot be parked: %s", run_id, error)

    def mark_changed(self, run: RunInfo, *, has_gradients: bool) -> None:
        """The run in memory is no longer as on disk."""
        if run.id in self._residents:
            self._residents[run.id].has_gradients = has_gradients
            if run.state != "memory":
                self._database.run(partial(change, state="memory"), RUN_INFOS, run.id)

    def keep_state(self, run: RunInfo, checkpoint: Path, names: tuple[str, ...]) -> None:
        """These files of a checkpoint are the whole state of the run now, unless there are gradients."""
        resident = self._residents.get(run.id)
        if resident is None or not resident.has_gradients:
            replace_folder(self._state_folder(run), lambda new: link_files(checkpoint, new, *names))
            self._database.run(partial(change, state="disk"), RUN_INFOS, run.id)

    def close(self) -> None:
        """Park all runs, and end the trainer. One that cannot be parked is lost."""
        self.park_where(lambda run_id: True)
        self._end_trainer()

    def end_idle_trainer(self, idle_s: float) -> None:
        """End the trainer if it has had no run and no call for so long: the next call starts another one."""
        if not self._residents and time.monotonic() > self._last_call + idle_s:
            self._end_trainer()

    def _end_trainer(self) -> None:
        if self._trainer is not None:
            self._trainer.close()
            self._trainer = None
            log.info("trainer status=ended")

    def interrupt(self) -> None:
        """Have a pass in progress raise Interrupted soon. From any thread."""
        if self._trainer is not None:
            self._trainer.interrupt()

    def kill(self) -> None:
        """End the trainer at once. From any thread."""
        if self._trainer is not None:
            self._trainer.kill()

    def _plan_of(self, options: RunOptions) -> RunPlan:
        fields = adapter_fields(options)
        shape = str({**fields, "seed": 0})
        if shape not in self._plans:
            self._plans[shape] = to_plan(self._call("plan", tokens=PLANNED_TOKENS, **fields).header)
        return self._plans[shape]

    def _make_room(self, plan: RunPlan) -> None:
        """Park the least used runs until one more fits. Raises BadRequest if it does not fit alone."""
        while self._residents and not self._fits(plan):
            self.park(next(iter(self._residents)))
        if not self._fits(plan):
            shortage = describe_shortage(plan, self._spare_bytes(plan) - plan.run, PASS_TOKENS[-1])
            raise BadRequest("lora_config", f"{shortage}: use a smaller rank, or free memory")

    def _fits(self, plan: RunPlan) -> bool:
        spare_bytes = self._spare_bytes(plan) - plan.run
        return len(self._residents) < self._max_runs and self._memory.pass_tokens(plan, spare_bytes) > 0

    def _spare_bytes(self, plan: RunPlan) -> int:
        """For a micro-batch, beside the runs in memory."""
        run_bytes = sum(resident.plan.run for resident in self._residents.values())
        resident_bytes = self._trainer.resident_bytes if self._trainer is not None else 0
        return self._memory.spare_bytes(plan, run_bytes, resident_bytes)

    def _call(self, verb: str, arrays: Arrays | None = None, **fields: Any) -> TrainerMessage:
        if self._trainer is None:
            self._trainer = self._start_trainer()
        self._last_call = time.monotonic()
        try:
            return self._trainer.call(verb, arrays, **fields)
        except TrainerDied:
            self._trainer = None
            self._corrupt_residents()
            raise

    def _corrupt_residents(self) -> None:
        """What the dead trainer alone had is lost."""
        for run_id in self._residents:
            run = self._database.run(RUN_INFOS.find, run_id)
            if run is not None and run.state == "memory":
                self._database.run(partial(change, is_corrupted=True), RUN_INFOS, run_id)
                log.error("run=%s status=corrupted", run_id)
        self._residents.clear()

    def _state_folder(self, run: RunInfo) -> Path:
        return self._folder / run.folder / STATE_FOLDER


def adapter_fields(options: RunOptions) -> dict[str, Any]:
    """The fields of the trainer's create_run."""
    kinds = {"attention": options.train_attn, "mlp": options.train_mlp, "output": options.train_unembed}
    return {"rank": options.rank, "seed": options.seed, "kinds": kinds}
