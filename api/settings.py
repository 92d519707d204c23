"""What the HTTP front is told: keys, origins, limits, and how the dialects are to behave. Plain values."""

from dataclasses import dataclass
from typing import Literal

StreamFormat = Literal["auto", "ndjson", "sse"]


@dataclass(frozen=True, slots=True)
class AppSettings:
    """Every default is the least surprising one: open, and as the model's own limits allow.

    version         the server's own, shown by / and /version
    api_keys        any of them opens every route but health and version; empty: no key is asked for
    cors_origins    origins whose pages may call; "*" for any
    max_body_bytes  of one request
    stream_format   framing on routes whose clients disagree; "auto" judges by the request's headers
    model_aliases   names that mean the served model, besides its own id
    deadline_s      seconds after which an answer ends where it is; None: never
    max_tokens      of an answer whose request names none; None: as many as the context holds
    temperature     of an answer whose request names none; 1 without a strategy is greedy for Llama Stack
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
