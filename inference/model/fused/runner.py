"""The fused seat: a step of a Llama-like model in one call of native code, over pages like the packed seat's.

Transformers' graph is only what it was read from. Knows addresses and shapes; the arithmetic is in
inference/native/c.
"""

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch, Clear
from inference.model.fused.bound import fill, model_of
from inference.model.fused.lists import Lists, listed
from inference.model.fused.reading import Reading
from inference.model.packed.runner import SIZE, PackedRunner
from inference.native.library import library
from inference.native.matrix import ALIGNED

KEPT = 64  # rows of logits; more have memory of their own


class FusedRunner(PackedRunner):
    """A PackedRunner whose steps are computed natively, from what was read of the model.

    The context must not be longer than the positions that were read. While a step is computed, other threads
    of Python go on.
    """

    def __init__(
        self, model: PreTrainedModel, reading: Reading, *, max_rows: int, context: int, area: int
    ) -> None:
        super().__init__(model, max_rows=max_rows, context=context, area=area, size=SIZE)
        self.reading, self.native = reading, library()
        fill(self.pool, reading)
        self.bound = model_of(reading, self.pool, torch.get_num_threads())
        self.memory = aligned(0)
        self.logits = torch.empty(0, reading.head_matrix.outputs, dtype=model.dtype)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, valid until the next call."""
        for move in batch.moves:
            assert isinstance(move, Clear), "pages are never moved"
            self.pool.clear(move.row)
        return self.run(listed(batch, self.step))

    def run(self, lists: Lists) -> torch.Tensor:
        step, held = lists.step()
        logits = self.room(len(lists.want))
        step.logits = logits.data_ptr()
        step.memory = self.workspace(self.native.step_bytes(self.bound, step))
        self.native.step_run(self.bound, step)
        del held  # not before
        return logits

    def room(self, count: int) -> torch.Tensor:
        """Where logits (count, V) are written: the same memory each time, where they are few."""
        if count > KEPT:
            return self.logits.new_empty(count, self.logits.shape[1])
        if count > len(self.logits):
            self.logits = self.logits.new_empty(count, self.logits.shape[1])
        return self.logits[:count]

    def workspace(self, size: int) -> int:
        """The address of so many bytes."""
        if size > len(self.memory):
            self.memory = aligned(size)
        return self.memory.data_ptr()


def aligned(size: int) -> torch.Tensor:
    """So many bytes, and some more, from a round address on."""
    held = torch.empty(size + ALIGNED, dtype=torch.uint8)
    return held[-held.data_ptr() % ALIGNED :]
