"""Steps of few tokens recorded once and replayed: the host then launches one thing instead of hundreds.

There is a recording for 1, 2, 4, … tokens, each token a row of its own; a step of fewer is filled up with
tokens on the page that nothing is read from. A recording is proved against the step as it is computed
without; what is wrong, or cannot be recorded, is done without. Knows lines; how one records is cuda.py's.
"""

import logging
import time
from collections.abc import Callable, Sequence
from itertools import accumulate

import torch

from inference.model.batch import Batch
from inference.model.packed.kernels.index import Index, name_on
from inference.model.packed.line import Line, Span, lined
from inference.model.packed.runner import PackedRunner

log = logging.getLogger(__name__)

MOST = 256  # tokens of a recorded step; in larger ones the host keeps ahead of the device anyway
DEPTH = 16  # tokens of a row beyond which reading its pages for each of them costs more than it saves
COMMON = 64  # token ids that every vocabulary has
PATIENCE_S = 60.0  # of recording, beyond which only what is recorded by then is replayed

Play = Callable[[], torch.Tensor]
Recorder = Callable[
    [Play], Play
]  # what computes logits → what computes the same again, at the same addresses


class Recording:
    """The step of `count` tokens, in tensors that stay where they are.

    Made in the memory that the runner has: nothing may be resized afterwards.
    """

    def __init__(self, runner: PackedRunner, count: int, recorder: Recorder) -> None:
        device, self.size, self.count = runner.device, runner.step, count
        pages = -(-runner.context // self.size)
        self.unread = Span(0, 1, 1, (runner.pool.count,))
        self.ids = torch.zeros(1, count, dtype=torch.int64, device=device)
        self.positions = torch.zeros_like(self.ids)
        self.slots = torch.zeros_like(self.ids[0])
        self.index = Index(count, pages, device, widest=1, longest=runner.context)
        self.spans: list[Span] = []
        self.place([])
        self.play = recorder(lambda: PackedRunner.compute(runner, self.line()))

    def line(self) -> Line:
        """A new one each time: what a kernel derives from it is to be recorded too."""
        derived = {name_on(self.slots.device): self.index}
        return Line(self.ids, self.positions, self.slots, None, self.spans, self.size, derived=derived)

    def place(self, spans: Sequence[Span]) -> None:
        """Have each token stand behind those of its row that come before; the rest where nothing is read."""
        tokens = [
            Span(0, 1, span.length - span.end + at + 1, span.pages)
            for span in spans
            for at in range(span.start, span.end)
        ]
        tokens += [self.unread] * (self.count - len(tokens))
        self.spans = [Span(at, at + 1, token.length, token.pages) for at, token in enumerate(tokens)]
        self.index.fill(self.spans)

    def replay(self, line: Line) -> torch.Tensor:
        """The logits of all tokens of a line of at most `count`, (T, V), valid until the next replay."""
        T = line.ids.shape[1]
        self.ids[:, :T] = line.ids
        self.positions[:, :T] = line.positions
        self.slots[:T] = line.slots
        self.slots[T:] = self.unread.pages[0] * self.size
        self.place(line.spans)
        return self.play()[:T]


class GraphRunner(PackedRunner):
    """A PackedRunner that replays the steps it has recorded, and computes the others."""

    recordings: tuple[Recording, ...] = ()  # the smallest first

    def compute(self, line: Line) -> torch.Tensor:
        recording = self.recording_for(line)
        if recording is None:
            return super().compute(line)
        logits = recording.replay(line)
        return logits if line.wanted is None else logits.index_select(0, line.wanted)

    def recording_for(self, line: Line) -> Recording | None:
        if max(span.end - span.start for span in line.spans) > DEPTH:
            return None
        return next((each for each in self.recordings if each.count >= line.ids.shape[1]), None)

    @torch.inference_mode()
    def record(self, recorder: Recorder, tolerance: float) -> None:
        """Record steps, the largest first: the others then find room in its memory.

        tolerance: by how much a logit may differ, in standard deviations of the logits. The pages that are
        used are blank before and after.
        """
        began, name = time.monotonic(), self.model.config.model_type
        found: list[Recording] = []
        with self.attention.serving():
            for count in reversed(counts(min(self.max_rows, self.pool.count))):
                try:
                    found.insert(0, self.proved(count, recorder, tolerance))
                except torch.OutOfMemoryError:
                    log.info("%s: no memory to record steps of %d tokens", name, count)
                except Exception as raised:  # code of any model; a device may refuse for reasons of its own
                    log.info("%s: steps are not recorded: %s: %s", name, type(raised).__name__, raised)
                    return
                if time.monotonic() - began > PATIENCE_S:
                    break
        self.recordings = tuple(found)
        told = ", ".join(str(recording.count) for recording in found) or "no"
        log.info("%s: recorded steps of %s tokens in %.1f s", name, told, time.monotonic() - began)

    def proved(self, count: int, recorder: Recorder, tolerance: float) -> Recording:
        """The step of `count` tokens, once replayed. Raises ArithmeticError where it is wrong."""
        began = time.monotonic()
        recording = Recording(self, count, recorder)
        behind, step = rehearsal(count, self.pool.count, min(self.step, self.context))
        try:
            PackedRunner.compute(self, lined(behind, self.step, self.device))
            line = lined(step, self.step, self.device)
            replayed = recording.replay(line).float()  # first: it is to find nothing that computing leaves
            computed = PackedRunner.compute(self, line).float()
        finally:
            for (page,) in step.tables:
                self.pool.clear(page)
        error = ((replayed - computed).abs().max() / computed.std()).item()
        if not error <= tolerance:
            raise ArithmeticError(f"a replayed step of {count} tokens has error {error:.0e}")
        log.debug("recorded tokens=%d error=%.0e seconds=%.1f", count, error, time.monotonic() - began)
        return recording


def counts(rows: int) -> list[int]:
    """Tokens of the steps to record for so many rows: powers of two, the last enough for all of them."""
    last = (min(rows, MOST) - 1).bit_length()
    return [1 << power for power in range(last + 1)]


def rehearsal(count: int, pages: int, room: int) -> tuple[Batch, Batch]:
    """A step of up to `count` tokens, one row taking several and a place left over where there is room for
    that; and before it, the step that computes what stands behind those tokens. A row, of at most `room`
    tokens, to a page."""
    several = 3 if count > 4 else 1
    rows = min(max(1, count - several), pages)
    held = [1 + (5 * row) % max(1, room - several) for row in range(rows)]
    taken = [several, *[1] * (rows - 1)]
    return batch(held, [0] * rows), batch(taken, held)


def batch(taken: Sequence[int], held: Sequence[int]) -> Batch:
    starts = list(accumulate(taken, initial=0))
    rows = range(len(taken))
    ids = [(7 * i + 3 * held[0]) % COMMON for i in range(starts[-1])]
    return Batch(ids, starts, held, rows, range(len(ids)), tables=[(row,) for row in reversed(rows)])
