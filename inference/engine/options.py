"""The options of an engine. Knows no runner."""

from dataclasses import dataclass

from inference.engine.scheduling.waiting_served_ratio import WaitingServedRatio
from inference.engine.speculation.draft_model import DraftModel
from inference.model.batch import Pooling


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How an engine schedules, caches and drafts.

    max_batch_tokens    token budget of a step: each decoding sequence gets one token, prompts share the rest
    max_queued_tokens   prompt tokens that may wait; submit raises Overloaded beyond that
    admission_policy    when waiting sequences join the running ones; None: at once
    prefix_caching      compute common prefixes once, if the runner supports chunked prefill
    speculate           maximum number of draft tokens per sequence and step; 0: no speculative decoding
    prefill_chunk_size  fixed size of prompt chunks, whatever else runs; disables speculative decoding.
                        0: chunks fill the token budget
    draft_model         writes the drafts; None: they are n-grams of the text
    pooling             which hidden states of a text make its embedding
    """

    max_batch_tokens: int
    max_queued_tokens: int
    admission_policy: WaitingServedRatio | None = None
    prefix_caching: bool = True
    speculate: int = 0
    prefill_chunk_size: int = 0
    draft_model: DraftModel | None = None
    pooling: Pooling = "mean"
