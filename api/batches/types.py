"""A batch: many requests in one file, which are answered later. Plain values only.

Times are Unix times in whole seconds.
"""

import operator
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Literal

Status = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]
UNFINISHED: tuple[Status, ...] = ("validating", "in_progress", "finalizing", "cancelling")
WINDOW = "24h"  # OpenAI's only completion window
WINDOW_S = 24 * 3600
ID_PREFIX = "batch_"
ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")


@dataclass(frozen=True, slots=True)
class BatchError:
    """Why a batch failed. param: the field to blame; line_number: of the input file; None: none is."""

    code: str
    message: str
    param: str | None = None
    line_number: int | None = None


@dataclass(frozen=True, slots=True)
class RequestCounts:
    total: int = 0
    completed: int = 0
    failed: int = 0

    @property
    def num_unfinished(self) -> int:
        return self.total - self.completed - self.failed


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of the answers so far."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(*map(operator.add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrder:
    """A batch as a client orders it.

    output_expires_s  seconds after which its result files expire; None: never
    idempotency_key   a second order with this key gets the batch of the first one; None: no other order does
    creator           digest of the client's API key, as api_keys has it; empty: it sent none
    """

    endpoint: str
    input_file_id: str
    metadata: Mapping[str, str] | None = None
    output_expires_s: int | None = None
    idempotency_key: str | None = None
    creator: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A batch and its state.

    times           when it got each status
    expires         when its unfinished requests are given up
    model           that all requests name; None: they name none, or several
    output_file_id  file of the answers with status 200; None until it exists
    error_file_id   file of the other answers; None until it exists
    """

    id: str
    order: BatchOrder
    status: Status = "validating"
    created: int
    expires: int
    times: Mapping[Status, int] = field(default_factory=dict)
    model: str | None = None
    errors: tuple[BatchError, ...] = ()
    counts: RequestCounts = RequestCounts()
    usage: TokenUsage = TokenUsage()
    output_file_id: str | None = None
    error_file_id: str | None = None

    @property
    def key(self) -> str:
        """The random part of its id."""
        return self.id.removeprefix(ID_PREFIX)
