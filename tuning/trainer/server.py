"""The trainer's process for training runs: run_module.py tuning.trainer.server FOLDER SOCKET

Reads FOLDER/base.json, then requests from the socket that its parent gave it, and replies to one after the
other. It loads the base model once, at the first request that needs it, and ends when the socket is closed.
SIGTERM interrupts a pass after the running micro-batch: the reply says so, and the run is as before.
"""

import json
import logging
import math
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from inference.errors import BadRequest, ServerError, named_error
from inference.model.load import loader
from inference.model.load.meta_model import build_on_meta
from inference.model.lost_device import is_device_lost
from inference.model.quantization.schemes import NONE
from inference.model.weights.mapped_model import mapped_file
from inference.process.child_program import receive_connection
from inference.process.full_disk import is_disk_full
from inference.process.memory.memory_shortage import is_memory_shortage
from tuning.trainer.data_parallel.trainer import open_trainer
from tuning.trainer.durable_files import replace_folder
from tuning.trainer.memory.memory_plan import TRAINED_FACTOR, TrainingPlan, plan_memory
from tuning.trainer.memory.trainer_memory import used_bytes
from tuning.trainer.messages import (
    Arrays,
    TrainerMessage,
    arrays_to_data,
    check_memory,
    read_message,
    write_message,
)
from tuning.trainer.micro_batches import Layout
from tuning.trainer.model.linear_layers import find_linear_names, kinds_to_names
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.model.open_base import open_base
from tuning.trainer.optimizers import AdamParams, check_params, num_steps
from tuning.trainer.run_files import BASE_FILE
from tuning.trainer.run_state import open_run_state, save_run_state
from tuning.trainer.trainer import Trainer
from tuning.trainer.whole_passes import Interruption, PassInterrupted, whole_pass
from tuning.types import Hyperparameters, JobSpec, TrainingBase, base_fields

RUN_FACTOR = 4  # a trained weight, its gradient, which is kept over requests, and two moments
LORA_ALPHA = 32.0  # whatever the rank is
OUT_OF_MEMORY = "the trainer ran out of memory: send fewer or shorter data at a time"
NO_DISK = "the disk of TUNING_DIR is full: free some of it, and send the request again"
NOT_FINITE = (
    "is not finite: the gradients are dropped, the weights are as they were; use a lower learning rate"
)
WEIGHTS_NOT_FINITE = "made weights that are not finite: load a checkpoint, and use a lower learning rate"

Header = Mapping[str, Any]
Reply = tuple[Mapping[str, Any], Arrays]

log = logging.getLogger(__name__)


def main(arguments: Sequence[str]) -> int:
    folder, connection_argument = Path(arguments[0]), arguments[1]
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    base = read_base(folder / BASE_FILE)
    server = TrainerServer(base)
    signal.signal(signal.SIGTERM, server.interruption.set)
    with receive_connection(connection_argument) as connection, connection.makefile("rwb") as stream:
        while (reply := server.reply_to_next(stream)) is not None:
            send(stream, reply, server.resident_bytes())
    return 0


def send(stream: BufferedIOBase, reply: Reply, rss: int) -> None:
    """Write the reply, or that memory is too small for it. rss: bytes that this process has."""
    header, arrays = reply
    try:
        write_message(stream, {**header, "rss": rss}, arrays)
    except MemoryError:
        log.exception("out of memory while a reply was written")
        write_message(stream, {**failure("user", OUT_OF_MEMORY)[0], "rss": rss}, {})


def read_base(path: Path) -> TrainingBase:
    raw = json.loads(path.read_text("utf-8"))
    return TrainingBase(**{**raw, "names": tuple(raw["names"])})


class TrainerServer:
    """Calls the trainer's verbs; the replies say what went wrong, and whose fault it is."""

    def __init__(self, base: TrainingBase) -> None:
        self._base = base
        self.interruption = Interruption()

    @cached_property
    def trainer(self) -> Trainer:
        """Loads the base model."""
        base = open_base(self._base, self._base.quantize)
        self.interruption.watch(base.backbone)
        return open_trainer(base, self._base, self._base.quantize, scores_masked=True)

    def resident_bytes(self) -> int:
        """What this process has of the planned memory, without the weights that it shares with the server."""
        resident = used_bytes(self._base.device)
        if not self._base.shares_weights or "trainer" not in vars(self):  # not loaded yet
            return resident
        file = mapped_file(self.trainer.base.causal)
        return max(0, resident - file.memory.nbytes) if file else resident

    def reply_to_next(self, stream: BufferedIOBase) -> Reply | None:
        """The reply to the next message; None: the stream has ended."""
        try:
            message = read_message(stream)
        except MemoryError:
            log.exception("out of memory while a request was read")
            return failure("user", OUT_OF_MEMORY)
        return None if message is None else self.reply(message)

    def reply(self, message: TrainerMessage) -> Reply:
        header, arrays = message
        self.interruption.is_set = False
        try:
            return VERBS[header["verb"]](self, header, arrays)
        except PassInterrupted:
            return failure("interrupted", "the pass was interrupted")
        except BadRequest as error:
            return failure("user", error.message)
        except ServerError as error:
            return failure("server", error.message)
        except Exception as error:  # an architecture's own failure, or torch's
            log.exception("verb=%s failed", header["verb"])
            if is_device_lost():  # another process can use it: the next request starts one
                raise
            if is_memory_shortage(error):
                return failure("user", OUT_OF_MEMORY)
            return failure("server", NO_DISK if is_disk_full(error) else named_error(error))

    @cached_property
    def config(self) -> dict[str, Any]:
        """The model's config.json, with transformers' defaults."""
        config = loader.config_of(Path(self._base.model_folder), self._base.trust_remote_code)
        return dict(config.to_dict())

    def plan(self, header: Header, arrays: Arrays) -> Reply:
        """The memory of a run with micro-batches of so many tokens; nothing is loaded for it. 0: unknown."""
        hyperparameters = Hyperparameters(
            n_epochs=1,
            batch_size=1,
            learning_rate=0.0,
            lora_rank=header["rank"],
            lora_alpha=LORA_ALPHA,
            quantize_base=self._base.quantize != NONE,
            target_modules=kinds_to_names(find_linear_names(build_on_meta(self.config)), **header["kinds"]),
        )
        processes = {"processes": self._base.num_processes}
        try:
            plans = [plan_run(self.config, self._base, hyperparameters, count) for count in header["tokens"]]
        except Exception as error:  # an architecture's own failure: it trains all the same
            log.warning("no memory plan: %s", named_error(error))
            return {"fixed": 0, "run": 0, "steps": [0] * len(header["tokens"]), **processes}, {}
        fixed = plans[0].weights + plans[0].programs
        run = plans[0].adapter * RUN_FACTOR // TRAINED_FACTOR
        gradients = plans[0].adapter // TRAINED_FACTOR  # of a pass, before they are added to the run's
        steps = [each.step + gradients for each in plans]
        return {"fixed": fixed, "run": run, "steps": steps, **processes}, {}

    def create_run(self, header: Header, arrays: Arrays) -> Reply:
        names = kinds_to_names(self.trainer.adapters.linear_names, **header["kinds"])
        options = LoraOptions(
            rank=header["rank"], alpha=LORA_ALPHA, target_modules=names, seed=header["seed"]
        )
        return {"num_trained": self.trainer.create_run(header["run"], options)}, {}

    def open_run(self, header: Header, arrays: Arrays) -> Reply:
        """Begin a run with the state in a folder."""
        return {"num_trained": open_run_state(self.trainer, header["run"], Path(header["folder"]))}, {}

    def delete_run(self, header: Header, arrays: Arrays) -> Reply:
        self.trainer.delete_run(header["run"])
        return {}, {}

    def forward_backward(self, header: Header, arrays: Arrays) -> Reply:
        run_id, data = header["run"], arrays_to_data(arrays)
        self.trainer.layout = Layout(max_tokens=header["max_tokens"])
        verb = self.trainer.forward if header["forward_only"] else self.trainer.forward_backward
        with whole_pass(self.trainer.parameters(run_id)):
            result = verb(run_id, data, header["loss_fn"], header["config"])
            if not math.isfinite(result.loss):
                raise BadRequest("loss", NOT_FINITE, result.loss)
            logprobs = {str(index): values.numpy() for index, values in enumerate(result.logprobs)}
            check_memory(logprobs)  # a pass whose reply cannot be sent does not count
        metrics = {"loss:sum": result.loss, "tokens:sum": float(sum(map(len, data)))}
        return {"metrics": metrics}, logprobs

    def optim_step(self, header: Header, arrays: Arrays) -> Reply:
        run_id, params = header["run"], AdamParams(**header["params"])
        check_params(params)
        norm = self.trainer.optim_step(run_id, params)
        if not math.isfinite(norm):
            raise BadRequest("gradient norm", NOT_FINITE, norm)
        if not all(weight.isfinite().all() for weight in self.trainer.parameters(run_id)):
            raise BadRequest("adam_params", WEIGHTS_NOT_FINITE)
        step = num_steps(self.trainer.runs[run_id].optimizer)
        return {
            "metrics": {
                "grad_norm:mean": norm,
                "learning_rate:mean": params.learning_rate,
                "step:max": float(step),
            }
        }, {}

    def save(self, header: Header, arrays: Arrays) -> Reply:
        run_id, with_optimizer = header["run"], header["with_optimizer"]
        replace_folder(
            Path(header["folder"]),
            lambda new: self.trainer.save(run_id, new, with_optimizer=with_optimizer),
        )
        return {}, {}

    def save_state(self, header: Header, arrays: Arrays) -> Reply:
        run_id = header["run"]
        replace_folder(Path(header["folder"]), lambda new: save_run_state(self.trainer, run_id, new))
        return {}, {}

    def load(self, header: Header, arrays: Arrays) -> Reply:
        folder, with_optimizer = Path(header["folder"]), header["with_optimizer"]
        self.trainer.load(header["run"], folder, with_optimizer=with_optimizer)
        return {}, {}


def plan_run(
    config: Mapping[str, Any], base: TrainingBase, hyperparameters: Hyperparameters, num_tokens: int
) -> TrainingPlan:
    """The plan of a job with this adapter."""
    spec = JobSpec(
        job_id="",
        method="supervised",
        hyperparameters=hyperparameters,
        seed=0,
        initial_adapter="",
        training_file="",
        validation_file="",
        **base_fields(base),
    )
    return plan_memory(config, spec, num_tokens)


def failure(category: str, message: str) -> Reply:
    return {"error": message, "category": category}, {}


VERBS: Mapping[str, Callable[[TrainerServer, Header, Arrays], Reply]] = {
    "plan": TrainerServer.plan,
    "create_run": TrainerServer.create_run,
    "open_run": TrainerServer.open_run,
    "delete_run": TrainerServer.delete_run,
    "forward_backward": TrainerServer.forward_backward,
    "optim_step": TrainerServer.optim_step,
    "save": TrainerServer.save,
    "save_state": TrainerServer.save_state,
    "load": TrainerServer.load,
}
