"""Contrastive search in the engine: a background task that generates an answer without the sampler.

Knows tasks, logits processors and step outputs, as EngineCore does; the search itself is an argument. Its
sequence has no row and is in no model step.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as SequenceOf
from concurrent.futures import Future
from typing import Protocol

from torch import Tensor

from inference.engine.background import BackgroundTask, Work
from inference.engine.core import EngineCore
from inference.engine.engine import Engine
from inference.engine.output_queue import make_step_output
from inference.engine.sampling.processors import apply_processors
from inference.engine.sampling.sampler import SampledToken, advance_matchers, failure_ids
from inference.engine.sequence import OutputSink, Sequence, StepOutput, Task
from inference.engine.step import error_for
from inference.errors import BadRequest, NotImplementedHere, ServerError

MAX_CANDIDATES = 64  # per step: each candidate has a copy of the answer's KV cache


class ContrastiveGenerator(Protocol):
    """Generates token ids without end; process_logits gets the logits (1, V) before each token is chosen.

    ids and source are a Sequence's token_ids and encoder_ids; k and alpha are Sampling's top_k and
    penalty_alpha.
    """

    def __call__(
        self,
        ids: SequenceOf[int],
        source: SequenceOf[int],
        *,
        k: int,
        alpha: float,
        process_logits: Callable[[Tensor], Tensor],
    ) -> Iterator[int]: ...


def start_contrastive_search(
    engine: Engine,
    generate: ContrastiveGenerator | None,
    task: Task,
    output_sinks: SequenceOf[OutputSink],
) -> "ContrastiveSearchTask":
    """Start the search for an answer that goes to every sink. generate: None if the model has no search.

    Raises BadRequest, NotImplementedHere, Overloaded, Unavailable.
    """
    if not 2 <= task.sampling.top_k <= MAX_CANDIDATES:
        raise BadRequest(
            "top_k", f"must be from 2 to {MAX_CANDIDATES} with penalty_alpha", task.sampling.top_k
        )
    if task.prompt_logprobs is not None:
        raise NotImplementedHere("the prompt's logprobs are not supported with penalty_alpha")
    if generate is None:
        raise NotImplementedHere("this model does not support penalty_alpha: its KV memory cannot be copied")
    sequence = engine.create_sequence(task, output_sinks[0])
    search_task = ContrastiveSearchTask(engine.core, sequence, output_sinks, generate)
    engine.run(search_task.background_task, {sequence.id: len(task.prompt_token_ids)})
    return search_task


class ContrastiveSearchTask:
    """Computes one answer and sends its outputs to every sink: the search is deterministic."""

    def __init__(
        self,
        core: EngineCore,
        sequence: Sequence,
        output_sinks: SequenceOf[OutputSink],
        generate: ContrastiveGenerator,
    ) -> None:
        self.core = core
        self.sequence = sequence
        deadline = math.inf if sequence.task.deadline is None else sequence.task.deadline
        self.background_task = BackgroundTask(self._run(generate), self._on_done, deadline)
        self._num_answers = len(output_sinks)
        self._unfinished = dict(enumerate(output_sinks))
        self._aborted: set[int] = set()
        self._logprob_logits: Tensor | None = None

    def abort(self, indices: Iterable[int]) -> None:
        """Abort the answers with these indices; the search ends when all are aborted. From any thread."""
        self._aborted |= set(indices)
        if len(self._aborted) == self._num_answers:
            self.background_task.future.cancel()

    def _run(self, generate: ContrastiveGenerator) -> Work[None]:
        """Generate and send one token per step, until the answer ends."""
        sequence, sampling = self.sequence, self.sequence.task.sampling
        self.core.admission_control.release(sequence.id)
        sequence.queue_time_s = time.monotonic() - sequence.arrival_time
        self.core.counters.prompt_tokens += len(sequence.task.prompt_token_ids) * self._num_answers
        generated_ids = generate(
            tuple(sequence.token_ids),
            sequence.encoder_ids,
            k=sampling.top_k,
            alpha=sampling.penalty_alpha,
            process_logits=self._process_logits,
        )
        if finish_reason := self._finish_reason():
            self._send(make_step_output(sequence, [], finish_reason), finish_reason)
        while not finish_reason:
            self._drop_aborted()
            token = self._append_token(next(generated_ids))
            finish_reason = self._finish_reason()
            self._send(make_step_output(sequence, [token], finish_reason), finish_reason)
            if not finish_reason:
                yield

    def _process_logits(self, logits: Tensor) -> Tensor:
        """The processed logits of the next token. Stores the logits from which its logprobs are computed."""
        raw = logits[:, : self.core.model_step.sampler.vocab].float()
        processed = apply_processors(raw, [self.sequence])
        if not processed.amax().isfinite():
            raise error_for(int(failure_ids(raw)))
        self._logprob_logits = processed if self.sequence.task.processed_logprobs else raw
        return processed

    def _append_token(self, token_id: int) -> SampledToken:
        sequence, counters = self.sequence, self.core.counters
        sequence.token_ids.append(token_id)
        counters.generated_tokens += len(self._unfinished)
        counters.consecutive_failures = 0
        advance_matchers([sequence], [token_id])
        if sequence.task.logprobs is None or self._logprob_logits is None:
            return SampledToken(token_id)
        score = self.core.model_step.sampler.prompt_logprobs(
            self._logprob_logits, [token_id], sequence.task.logprobs
        )[0]
        return SampledToken(token_id, score.logprob, score.top_logprobs)

    def _finish_reason(self) -> str:
        """Why the answer ends here; empty if it goes on."""
        is_late = self.background_task.deadline <= time.monotonic()
        reason = self.sequence.finish_reason(self.core.kv_cache_manager.context)
        return reason or ("deadline" if is_late else "")

    def _drop_aborted(self) -> None:
        """Send nothing more to the aborted answers."""
        for index in [index for index in self._unfinished if index in self._aborted]:
            del self._unfinished[index]
            self.core.counters.finished_by_reason["cancelled"] += 1

    def _send(self, output: StepOutput, finish_reason: str) -> None:
        """Send an output to the unfinished answers. If there is a finish reason, it is their last one."""
        for output_sink in self._unfinished.values():
            self.core.output_queue.add(output_sink, output)
        if finish_reason:
            self.core.counters.finished_by_reason[finish_reason] += len(self._unfinished)
            self._unfinished.clear()

    def _on_done(self, future: Future[None]) -> None:
        self.core.admission_control.release(self.sequence.id)
        self._drop_aborted()
        if not future.cancelled() and isinstance(error := future.exception(), ServerError):
            self.core.counters.consecutive_failures += error.status >= 500
            self._send(StepOutput(error=error), "error")
