"""Requests of a run for a scripted trainer."""

from tuning.runs.types import ForwardBackward, OptimStep, PassOutput
from tuning.trainer.datum import Datum
from tuning.trainer.optimizers import AdamParams

DATA = [Datum([1, 2, 3, 4], [2, 3, 4, 5]), Datum([5, 6], [6, 7])]
PASS = ForwardBackward(data=DATA, loss_fn="cross_entropy")
FORWARD = ForwardBackward(data=DATA, loss_fn="cross_entropy", forward_only=True)
STEP = OptimStep(params=AdamParams(learning_rate=2e-3))


def loss(output: PassOutput) -> float:
    return output.metrics["loss:sum"]
