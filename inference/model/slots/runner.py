"""The slots seat: transformers' graph over rows × columns of memory, rows of any length in one call.

Computes a Batch: moves memory, runs the calls, picks the logits wanted. Knows a model's inputs; not sequences
nor how the next token is chosen.
"""

import inspect
from collections.abc import Container
from typing import Any

import torch
from transformers import Cache, PreTrainedModel

from inference.model import head
from inference.model.batch import Batch
from inference.model.inputs import takes
from inference.model.slots import attention, masks, quirks
from inference.model.slots.call import Call, computing
from inference.model.slots.layers import States, layers
from inference.model.slots.memory import Memory
from inference.model.slots.plan import ALONE, plan
from inference.model.start import vocab
from inference.model.unfit import Unfit

SPARE = 32  # tokens of padding that cost less than one more call of the model
STEP = 64  # columns


class SlotRunner:
    """A Runner (see batch.py) for models that keep their memory in a transformers Cache.

    together: rows share a call; else each has its own, for models that guess positions in ways not mended.
    Raises Unfit where the model cannot be driven so. Whether the logits are right is for fit.py to prove.
    """

    encodes = False
    paged = False
    overlaps = False
    step = STEP
    positions_name = "position_ids"

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        max_rows: int,
        context: int,
        area: int,
        resumes: bool,
        together: bool = True,
    ) -> None:
        self.model, self.device = model, model.device
        self.max_rows, self.context, self.area, self.resumes = max_rows, context, area, resumes
        self.start_ids: tuple[int, ...] = ()
        self.vocab = vocab(model)
        self.memory = Memory()
        kept = layers(model.config, self.memory)
        self.cache = Cache(layers=kept)
        self.states = [layer for layer in kept if isinstance(layer, States)]
        if resumes and self.states:
            raise Unfit("has recurrent states")
        accepts = inspect.signature(model.forward).parameters
        self.cache_name = cache_name(accepts)
        self.takes_positions = takes(model, self.positions_name)
        self.together = together
        self.spare = ALONE if not together else SPARE if resumes and not self.encodes else 0
        prepare(model)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, on its device, valid until the next call."""
        for move in batch.moves:
            self.memory.do(move)
        calls, order = plan(batch, self.memory.columns, self.spare, self.device)
        logits = [self.compute(call) for call in calls]
        if len(logits) == 1:
            return logits[0]
        together = torch.cat(logits)
        return together if order is None else together.index_select(0, order.to(together.device))

    def compute(self, call: Call) -> torch.Tensor:
        for layer in self.states:
            layer.show(call)
        inputs = self.inputs(call)
        if self.takes_positions:
            inputs[self.positions_name] = call.positions
        with computing(call), head.picking(call):
            logits = self.model(**inputs, use_cache=True).logits
        return head.chosen(logits, call)

    def inputs(self, call: Call) -> dict[str, Any]:
        return {"input_ids": call.ids, self.cache_name: self.cache}


def prepare(model: PreTrainedModel) -> None:
    """Make the model read the current call; outside of one it computes as before."""
    masks.install()
    attention.install()
    quirks.mend(model)
    head.install(model)


def cache_name(inputs: Container[str]) -> str:
    for name in ("past_key_values", "cache_params"):
        if name in inputs:
            return name
    raise Unfit("takes no cache")
