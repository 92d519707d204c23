"""What the HTTP front is told: keys, origins, limits, and how the dialects are to behave. Plain values."""

from dataclasses import dataclass
from typing import Literal

StreamFormat = Literal["auto", "ndjson", "sse"]


@dataclass(frozen=True, slots=True)
class AppSettings:
    """Every default is the least surprising one: open, and as the model's own limits allow.

    version         the server's own, shown by / and /version
    api_keys        any of them opens what keys.py does not leave open to all; empty: no key is asked for
    cors_origins    origins whose pages may call; "*" for any
    max_body_bytes  of one request
    stream_format   framing on routes whose clients disagree; "auto" judges by the request's headers
    model_aliases   names that mean the served model, besides its own id
    deadline_s      seconds after which an answer ends where it is; None: never
    max_tokens      of an answer whose request names none; None: as many as the context holds
    temperature     of an answer whose request names none; 1 without a strategy is greedy for Llama Stack
    max_concurrent  requests at once; one more is told to come back later
    max_best_of, max_stop_sequences, max_top_n_tokens, max_client_batch   what one request may ask for
    validation_workers  threads that run the app
    max_input_tokens  of a prompt; None: as many as leave room for one token in the context
    grammars        whether answers may be bound to a grammar
    watermark_gamma, watermark_delta   of the answers that ask for a watermark
    prefill_logprobs  whether the prompt's logprobs may be asked for
    """

    version: str = "0.1.0"
    api_keys: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    max_body_bytes: int = 32 << 20
    stream_format: StreamFormat = "auto"
    model_aliases: tuple[str, ...] = ()
    max_tokens: int | None = None
    deadline_s: float | None = None
    temperature: float = 1.0
    max_concurrent: int = 128
    max_best_of: int = 2
    max_stop_sequences: int = 4
    max_top_n_tokens: int = 5
    max_client_batch: int = 2048
    validation_workers: int = 2
    max_input_tokens: int | None = None
    grammars: bool = True
    watermark_gamma: float = 0.5
    watermark_delta: float = 2.0
    prefill_logprobs: bool = True
