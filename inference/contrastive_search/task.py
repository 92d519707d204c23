"""Contrastive search in the engine: a background task that generates an answer without the sampler.

Knows sequences, logits processors and step outputs, and what EngineCore offers to background tasks; the
search itself is an argument. Its sequence has no row and is in no model step.
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
from inference.engine.sequence import Matcher, Sequence
from inference.engine.step_output import OutputSink, StepOutput
from inference.engine.step_result import error_for
from inference.errors import BadRequest, NotImplementedHere, ServerError
from inference.types import GenerationRequest

MAX_CANDIDATES = 64  # per step: each candidate has a copy of the answer's KV cache


class TokenGenerator(Protocol):
    """Generates token ids without end: search.search with its model."""

    def __call__(
        self,
        ids: SequenceOf[int],
        encoder_ids: SequenceOf[int],
        *,
        k: int,
        alpha: float,
        process_logits: Callable[[Tensor], Tensor],
        adapter_number: int,
    ) -> Iterator[int]: ...


def start_contrastive_search(
    engine: Engine,
    generate: TokenGenerator,
    request: GenerationRequest,
    matcher: Matcher | None,
    output_sinks: SequenceOf[OutputSink],
) -> Callable[[Iterable[int]], None]:
    """Start the search for an answer that goes to every sink.

    Returns the function that aborts the answers with the given indices; the search ends when all are aborted.
    It may be called from any thread. Raises BadRequest, NotImplementedHere, Overloaded, Unavailable.
    """
    if not 2 <= request.sampling.top_k <= MAX_CANDIDATES:
        raise BadRequest(
            "top_k", f"must be from 2 to {MAX_CANDIDATES} with penalty_alpha", request.sampling.top_k
        )
    if request.prompt_logprobs is not None:
        raise NotImplementedHere("the prompt's logprobs are not supported with penalty_alpha")
    sequence = engine.create_sequence(request, output_sinks[0], matcher)
    search_task = ContrastiveSearchTask(engine.core, sequence, output_sinks, generate)
    engine.run(search_task.background_task, {sequence.id: len(sequence.request.prompt_token_ids)})
    return search_task.abort


class ContrastiveSearchTask:
    """Computes one answer and sends its outputs to every sink: the search is deterministic."""

    def __init__(
        self,
        core: EngineCore,
        sequence: Sequence,
        output_sinks: SequenceOf[OutputSink],
        generate: TokenGenerator,
    ) -> None:
        self.core = core
        self.sequence = sequence
        deadline = math.inf if sequence.deadline is None else sequence.deadline
        self.background_task = BackgroundTask(self._run(generate), self._on_done, deadline)
        self._num_answers = len(output_sinks)
        self._unfinished = dict(enumerate(output_sinks))
        self._aborted: set[int] = set()
        self._logprob_logits: Tensor | None = None

    def abort(self, indices: Iterable[int]) -> None:
        self._aborted |= set(indices)
        if len(self._aborted) == self._num_answers:
            self.background_task.future.cancel()

    def _run(self, generate: TokenGenerator) -> Work[None]:
        """Generate and send one token per step, until the answer ends."""
        sequence, sampling = self.sequence, self.sequence.request.sampling
        self.core.mark_scheduled([sequence])
        for _ in range(self._num_answers):
            self.core.count_prompt(sequence)
        generated_ids = generate(
            tuple(sequence.token_ids),
            sequence.encoder_ids,
            k=sampling.top_k,
            alpha=sampling.penalty_alpha,
            process_logits=self._process_logits,
            adapter_number=sequence.request.adapter_number,
        )
        if finish_reason := self._finish_reason():
            self._put(make_step_output(sequence, [], finish_reason))
        while not finish_reason:
            self._drop_aborted()
            token = self._append_token(next(generated_ids))
            finish_reason = self._finish_reason()
            self._put(make_step_output(sequence, [token], finish_reason))
            if not finish_reason:
                yield

    def _process_logits(self, logits: Tensor) -> Tensor:
        """The processed logits of the next token. Stores the logits from which its logprobs are computed."""
        raw = logits[:, : self.core.sampler.vocab].float()
        processed = apply_processors(raw, [self.sequence])
        if not processed.amax().isfinite():
            raise error_for(int(failure_ids(raw)))
        self._logprob_logits = processed if self.sequence.request.processed_logprobs else raw
        return processed

    def _append_token(self, token_id: int) -> SampledToken:
        sequence, num_top_logprobs = self.sequence, self.sequence.request.logprobs
        sequence.token_ids.append(token_id)
        advance_matchers([sequence], [token_id])
        if num_top_logprobs is None or self._logprob_logits is None:
            return SampledToken(token_id)
        score = self.core.sampler.prompt_logprobs(self._logprob_logits, [token_id], num_top_logprobs)[0]
        return SampledToken(token_id, score.logprob, score.top_logprobs)

    def _finish_reason(self) -> str:
        """Why the answer ends here; empty if it goes on."""
        is_late = self.background_task.deadline <= time.monotonic()
        reason = self.sequence.finish_reason(self.core.runner.context)
        return reason or ("deadline" if is_late else "")

    def _drop_aborted(self) -> None:
        """End the aborted answers."""
        for index in [index for index in self._unfinished if index in self._aborted]:
            self.core.put_output(self._unfinished.pop(index), StepOutput(finish_reason="cancelled"))

    def _put(self, output: StepOutput) -> None:
        """Send an output to the unfinished answers."""
        for output_sink in self._unfinished.values():
            self.core.put_output(output_sink, output)
        if output.finish_reason or output.error:
            self._unfinished.clear()

    def _on_done(self, future: Future[None]) -> None:
        self._drop_aborted()
        if not future.cancelled() and isinstance(error := future.exception(), ServerError):
            self._put(StepOutput(error=error))
