"""An answer whose tokens a search of its own finds, instead of the sampler: an errand that makes records.

Knows tasks, edits and records as the loop does; how tokens are found is handed in. It has no row and takes no
part in the steps.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Several
from concurrent.futures import Future
from typing import Protocol

from torch import Tensor

from inference.engine.edits import edit
from inference.engine.errand import Errand, Work
from inference.engine.loop import Loop, record
from inference.engine.sampler import BROKEN, EMPTY, Choice
from inference.engine.sequence import Outlet, Record, Sequence
from inference.engine.step import fault
from inference.errors import ServerError


class Seek(Protocol):
    """Finds ids one after the other, without end; `edit` sees the logits (1, V) before each and changes them.

    k and alpha are Sampling's top_k and contrast. What `ids` and `source` are, Sequence says.
    """

    def __call__(
        self,
        ids: Several[int],
        source: Several[int],
        *,
        k: int,
        alpha: float,
        edit: Callable[[Tensor], Tensor],
    ) -> Iterator[int]: ...


class Search:
    """The answers to one task: all alike, so found once and told to every outlet."""

    def __init__(self, loop: Loop, sequence: Sequence, outlets: Several[Outlet], seek: Seek) -> None:
        self.loop = loop
        self.sequence = sequence
        self.outlets = outlets
        self.errand = Errand(self._work(seek), self._over)
        self._left: set[int] = set()
        self._shown: Tensor | None = None

    def cancel(self, places: Iterable[int]) -> None:
        """The outlets at these places want no more; when none does, the search ends. From any thread."""
        self._left |= set(places)
        if len(self._left) == len(self.outlets):
            self.errand.future.cancel()

    def _work(self, seek: Seek) -> Work[None]:
        """Find and tell a token a step, until the answer ends."""
        sequence, sampling = self.sequence, self.sequence.task.sampling
        sequence.waited = time.monotonic() - sequence.arrived
        self.loop.counts.prompt_tokens += len(sequence.task.ids) * len(self.outlets)
        ids = tuple(sequence.tokens)
        found = seek(ids, sequence.source, k=sampling.top_k, alpha=sampling.contrast, edit=self._edit)
        if reason := self._reason():
            self._tell(None, reason)
        while not reason:
            choice = self._gain(next(found))
            reason = self._reason()
            self._tell(choice, reason)
            if not reason:
                yield

    def _edit(self, logits: Tensor) -> Tensor:
        """The logits of the next token as the request would have them; keeps those its logprobs are of."""
        raw = logits[:, : self.loop.stepper.sampler.vocab].float()
        edited = edit(raw, [self.sequence])
        if not edited.amax().isfinite():
            raise fault(EMPTY if raw.amax().isfinite() else BROKEN)
        self._shown = edited if self.sequence.task.warped else raw
        return edited

    def _gain(self, id: int) -> Choice:
        task, counts = self.sequence.task, self.loop.counts
        self.sequence.tokens.append(id)
        counts.generated_tokens += len(self.outlets)
        counts.failing = 0
        if task.matcher is not None and id not in task.ends:
            task.matcher.advance(id)
        if task.logprobs is None or self._shown is None:
            return Choice(id)
        score = self.loop.stepper.sampler.score(self._shown, [id], task.logprobs)[0]
        return Choice(id, score.logprob, score.tops)

    def _reason(self) -> str:
        """Why the answer ends here; empty where it goes on."""
        sequence, task = self.sequence, self.sequence.task
        if sequence.generated and sequence.tokens[-1] in task.ends:
            return "stop"
        if len(sequence.tokens) >= min(sequence.limit, self.loop.seating.context):
            return "length"
        return "deadline" if task.deadline is not None and task.deadline <= time.monotonic() else ""

    def _tell(self, choice: Choice | None, reason: str) -> None:
        told = record(self.sequence, [choice] if choice else [], reason)
        for outlet in self.outlets:
            self.loop.outbox.add(outlet, told)
        if reason:
            self.loop.counts.ends[reason] += len(self.outlets)

    def _over(self, future: Future[None]) -> None:
        counts = self.loop.counts
        if future.cancelled():
            counts.ends["cancelled"] += len(self.outlets)
        elif isinstance(error := future.exception(), ServerError):
            counts.ends["error"] += len(self.outlets)
            counts.failing += 1
            for outlet in self.outlets:
                self.loop.outbox.add(outlet, Record(error=error))
