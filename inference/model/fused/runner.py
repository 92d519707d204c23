"""The fused seat: a step of a Llama-like model in one call of native code, over the pages of the packed seat.

Same pool, same line, same answers; transformers' graph is only what it was read from. Knows addresses and
shapes; the arithmetic is inference/native's.
"""

from array import array
from itertools import accumulate

import torch
from transformers import PreTrainedModel

from inference.model.fused.bound import fill, model_of
from inference.model.fused.reading import Reading
from inference.model.packed.line import Line
from inference.model.packed.runner import SIZE, PackedRunner
from inference.native.library import library
from inference.native.structs import Step

ALIGNED = 64  # bytes
KEPT_ROWS = 64  # wanted tokens beyond which logits have memory of their own


class FusedRunner(PackedRunner):
    """A PackedRunner whose steps are computed by the native library from what was read of the model.

    The context must not be longer than the positions that were read.
    """

    def __init__(
        self, model: PreTrainedModel, reading: Reading, *, max_rows: int, context: int, area: int
    ) -> None:
        super().__init__(model, max_rows=max_rows, context=context, area=area, size=SIZE)
        self.reading, self.native = reading, library()
        fill(self.pool, reading)
        self.bound = model_of(reading, self.pool, torch.get_num_threads())
        self.wide = reading.head_matrix.outputs
        self.memory = aligned(0)
        self.logits = torch.empty(0, self.wide, dtype=model.dtype)

    def compute(self, line: Line) -> torch.Tensor:
        """The logits wanted of a line, (W, V)."""
        spans, tokens = line.spans, line.ids.shape[1]
        wanted = torch.arange(tokens) if line.wanted is None else line.wanted
        logits = self.room(len(wanted))
        tables = [0, *accumulate(len(span.pages) for span in spans)]
        starts, lengths, firsts, pages = (
            array("q", values)
            for values in (
                [*(span.start for span in spans), tokens],
                [span.length for span in spans],
                tables[:-1],
                [page for span in spans for page in span.pages],
            )
        )
        step = Step(
            tokens=tokens,
            rows=len(spans),
            wanted=len(wanted),
            ids=line.ids.data_ptr(),
            positions=line.positions.data_ptr(),
            slots=line.slots.data_ptr(),
            starts=address(starts),
            lengths=address(lengths),
            tables=address(firsts),
            pages=address(pages),
            want=wanted.data_ptr(),
            logits=logits.data_ptr(),
        )
        step.memory = self.workspace(self.native.step_bytes(self.bound, step))
        self.native.step_run(self.bound, step)
        return logits

    def room(self, count: int) -> torch.Tensor:
        """Where logits (count, V) are written; the same memory each time, where they are few."""
        if count > KEPT_ROWS:
            return self.logits.new_empty(count, self.wide)
        if count > len(self.logits):
            self.logits = self.logits.new_empty(count, self.wide)
        return self.logits[:count]

    def workspace(self, size: int) -> int:
        """The address of so many bytes."""
        if size > len(self.memory):
            self.memory = aligned(size)
        return self.memory.data_ptr()


def aligned(size: int) -> torch.Tensor:
    """So many bytes and more."""
    held = torch.empty(size + ALIGNED, dtype=torch.uint8)
    return held[-held.data_ptr() % ALIGNED :]


def address(values: "array[int]") -> int:
    return values.buffer_info()[0]
