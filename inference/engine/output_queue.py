"""Builds step outputs, collects those of a step, and delivers them to their sinks by one call.

Knows sinks and outputs; does not know what they mean.
"""

import logging
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from functools import partial

from inference.engine.sampling.sampler import SampledToken
from inference.engine.sequence import Sequence
from inference.engine.step_output import OutputSink, StepOutput, TopLogprobs

log = logging.getLogger(__name__)

Post = Callable[[Callable[[], None]], object]


class OutputQueue:
    """`post` is called once a step, with a callback that it runs on the delivering thread."""

    def __init__(self) -> None:
        self.post: Post = lambda callback: callback()
        self._outputs: list[tuple[OutputSink, StepOutput]] = []

    def add(self, output_sink: OutputSink, output: StepOutput) -> None:
        self._outputs.append((output_sink, output))

    def send(self) -> None:
        """Deliver the collected outputs; they are lost if `post` raises because its event loop is closed."""
        if not self._outputs:
            return
        outputs, self._outputs = self._outputs, []
        try:
            self.post(partial(deliver, outputs))
        except RuntimeError as error:
            log.info("outputs lost count=%d: %s", len(outputs), error)


def deliver(outputs: SequenceOf[tuple[OutputSink, StepOutput]]) -> None:
    """Put each output into its sink; a sink that fails does not affect the others."""
    for output_sink, output in outputs:
        try:
            output_sink.put(output)
        except Exception:
            log.exception("output sink failed")


def make_step_output(
    sequence: Sequence, sampled_tokens: SequenceOf[SampledToken], finish_reason: str = ""
) -> StepOutput:
    """The output of this step for sequence, which is marked as started.

    The first output also has num_cached_tokens, queue_time_s and prompt_logprobs, and the tokens that the
    request had already.
    """
    is_first, sequence.started = not sequence.started, True
    token_ids: tuple[int, ...] = tuple([token.id for token in sampled_tokens])
    logprobs: tuple[float | None, ...] = ()
    top_logprobs: tuple[TopLogprobs, ...] = ()
    if sampled_tokens and sampled_tokens[0].logprob is not None:
        logprobs = tuple([token.logprob for token in sampled_tokens if token.logprob is not None])
        top_logprobs = tuple([token.top_logprobs for token in sampled_tokens])
    if is_first and (resumed_ids := sequence.request.output_token_ids):
        token_ids = resumed_ids + token_ids
        if sequence.request.logprobs is not None:
            logprobs = (None,) * len(resumed_ids) + logprobs
            top_logprobs = ((),) * len(resumed_ids) + top_logprobs
    embedding, embedding_norm = sequence.embedding if sequence.pooling else ((), 0.0)
    return StepOutput(
        token_ids,
        logprobs,
        top_logprobs,
        num_cached_tokens=sequence.num_cached_tokens if is_first else None,
        queue_time_s=sequence.queue_time_s if is_first else 0.0,
        prompt_logprobs=tuple(sequence.prompt_logprobs) if is_first else (),
        finish_reason=finish_reason,
        embedding=embedding,
        embedding_norm=embedding_norm,
    )
