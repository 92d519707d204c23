"""The replies of TGI: which fields each has, and which are left out where there is nothing to tell."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

FinishReason = Literal["length", "eos_token", "stop_sequence"]


class PrefillToken(Struct):
    """A token of the prompt; nothing came before the first, so it has no logprob."""

    id: int
    text: str
    logprob: float | None


class Token(Struct):
    """A generated token, or one that could have been; `special` ones are not part of the text."""

    id: int
    text: str
    logprob: float
    special: bool


class Sequence(Struct, kw_only=True):
    """How an answer came about; `seed` is null where chance played no part."""

    finish_reason: FinishReason
    generated_tokens: int
    seed: int | None
    prefill: list[PrefillToken]
    tokens: list[Token]
    top_tokens: list[list[Token]] | UnsetType = UNSET


class BestOfSequence(Sequence, kw_only=True):
    """An answer that another one was better than."""

    generated_text: str


class Details(Sequence, kw_only=True):
    best_of_sequences: list[BestOfSequence] | UnsetType = UNSET


class Generation(Struct):
    generated_text: str
    details: Details | UnsetType = UNSET


class StreamDetails(Struct):
    finish_reason: FinishReason
    generated_tokens: int
    seed: int | None
    input_length: int


class StreamToken(Struct, kw_only=True):
    """An event of a stream; the last has the text, and the details where they were asked for."""

    index: int
    token: Token
    top_tokens: list[Token] | UnsetType = UNSET
    generated_text: str | None = None
    details: StreamDetails | None = None


class SimpleToken(Struct):
    """A token of a text, and the characters [start, stop) that it stands for."""

    id: int
    text: str
    start: int
    stop: int


class ChatTokens(Struct):
    tokenize_response: list[SimpleToken]
    templated_text: str


class Predictions(Struct):
    predictions: list[str]


class Info(Struct):
    """What is served, and what one request may ask for; from max_input_length on, of releases before 3."""

    model_id: str
    model_sha: str | None
    model_pipeline_tag: str | None
    max_concurrent_requests: int
    max_best_of: int
    max_stop_sequences: int
    max_input_tokens: int
    max_total_tokens: int
    validation_workers: int
    max_client_batch_size: int
    router: str
    version: str
    sha: str | None
    docker_label: str | None
    max_input_length: int
    model_dtype: str | None
    model_device_type: str | None


class Failure(Struct):
    """An error; its type is `validation`, `overloaded`, `generation` or `incomplete_generation`, where it is
    one of the generation's."""

    error: str
    error_type: str
