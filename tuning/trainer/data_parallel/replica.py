"""A process of data parallelism other than rank 0: run_module.py tuning.trainer.data_parallel.replica SOCKET

It loads the base model, and computes the share of each pass that rank 0 sends. It has neither optimizer steps
nor files. SIGUSR1 interrupts a pass; it ends when rank 0 closes the socket or dies.
"""

import logging
import os
import pickle
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from io import BufferedRWPair
from typing import Any, NoReturn

import torch

from inference.model import process_group
from inference.model.load.device_dtype import resolve_device
from inference.process.child_program import receive_connection
from tuning.trainer.data_parallel.collectives import copy_weights, sum_gradients
from tuning.trainer.data_parallel.messages import Call, ReplicaSetup, to_reply
from tuning.trainer.datum import Datum
from tuning.trainer.micro_batches import Layout
from tuning.trainer.model.open_base import open_base
from tuning.trainer.pass_result import PassResult
from tuning.trainer.trainer import Trainer
from tuning.trainer.whole_passes import Interruption

log = logging.getLogger(__name__)


def main(arguments: Sequence[str]) -> NoReturn:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    for number in (signal.SIGINT, signal.SIGTERM):  # rank 0 decides when a job pauses
        signal.signal(number, signal.SIG_IGN)
    interruption = Interruption()
    signal.signal(signal.SIGUSR1, interruption.set)
    with suppress(EOFError), receive_connection(arguments[0]) as connection:
        stream = connection.makefile("rwb")
        trainer = open_replica(stream, interruption)
        while True:
            call: Call = pickle.load(stream)  # from rank 0, which is our own program
            interruption.is_set = False
            reply(stream, trainer, call)
    os._exit(0)  # Python would take seconds to clean up what the system frees at once


def open_replica(stream: BufferedRWPair, interruption: Interruption) -> Trainer:
    """Load the model, say so, and join the process group. Rank 0 has loaded the same one."""
    rank, port, setup = pickle.load(stream)
    spec, device = setup.spec, resolve_device(setup.spec.device)
    if device == "cuda":
        torch.cuda.set_device(rank)
    trainer = load_trainer(setup)
    interruption.watch(trainer.base.backbone)
    send(stream, None)
    store = process_group.connect_store(port, spec.num_processes)
    # Not before the model is loaded, or transformers would load a shard of it.
    process_group.join_process_group(store, rank, spec.num_processes, device)
    return trainer


def load_trainer(setup: ReplicaSetup) -> Trainer:
    base = open_base(setup.spec, setup.quantize)
    return Trainer(base, checkpointing=setup.checkpointing, scores_masked=setup.scores_masked)


def reply(stream: BufferedRWPair, trainer: Trainer, call: Call) -> None:
    """Run the verb and send its result. An error in a collective ends this process: others wait."""
    if call.verb in COLLECTIVES:
        COLLECTIVES[call.verb](trainer, *call.arguments)
        return
    try:
        result = VERBS[call.verb](trainer, *call.arguments)
    except Exception as error:
        log.exception("verb=%s failed", call.verb)
        result = to_reply(error)
    send(stream, result)


def send(stream: BufferedRWPair, message: Any) -> None:
    pickle.dump(message, stream)
    stream.flush()


def compute_share(
    trainer: Trainer,
    layout: Layout,
    with_gradients: bool,
    run_id: str,
    data: Sequence[Datum],
    loss_fn: str,
    config: Mapping[str, float],
) -> PassResult:
    trainer.layout = layout
    trainer.drop_gradients(run_id)  # those of a pass that failed elsewhere
    with torch.set_grad_enabled(with_gradients):
        return trainer.compute(run_id, data, loss_fn, config)


def discard_run(trainer: Trainer, run_id: str) -> None:
    """Delete a run that this process may have been unable to create."""
    if run_id in trainer.runs:
        trainer.delete_run(run_id)


def give_gradients(trainer: Trainer, run_id: str) -> None:
    """Add this process's gradients to those of rank 0, which keeps them."""
    sum_gradients(trainer.parameters(run_id))
    trainer.drop_gradients(run_id)


def take_weights(trainer: Trainer, run_id: str) -> None:
    """Compute with rank 0's weights from here on."""
    copy_weights(trainer.parameters(run_id))
    trainer.runs[run_id].weights.apply_step()


VERBS: Mapping[str, Callable[..., Any]] = {
    "add_adapter": Trainer.add_adapter,
    "create_full_run": Trainer.create_full_run,
    "delete_run": Trainer.delete_run,
    "discard_run": discard_run,
    "compute_share": compute_share,
}
COLLECTIVES: Mapping[str, Callable[..., None]] = {
    "give_gradients": give_gradients,
    "take_weights": take_weights,
}
