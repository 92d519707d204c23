"""The JSON that a Neodim answer is: shapes only, their fields as the Neodim Server's README has them.

`seed` is this server's addition, and so are the lines of a streamed answer.
"""

from msgspec import Struct


class Written(Struct):
    """One sequence. generated_text, stop_string_match and trimmed_tail make all that was generated."""

    generated_text: str
    output_text: str
    stop_string: str
    stop_string_match: str
    trimmed_tail: str
    repetition_penalty_text_at_end: str


class Gpu(Struct):
    """A GPU's memory in bytes, while the request ran."""

    name: str
    memory_total: int
    memory_reserved_start: int
    memory_allocated_start: int
    memory_free_start: int
    memory_reserved_end: int
    memory_allocated_end: int
    memory_free_end: int
    memory_reserved_min: int
    memory_allocated_min: int
    memory_free_min: int
    memory_reserved_max: int
    memory_allocated_max: int
    memory_free_max: int


class Report(Struct):
    """The whole answer. Counts are tokens; the preamble's include what the tokenizer puts around a text."""

    original_input_tokens_count: int
    used_input_tokens_count: int
    preamble: str
    preamble_tokens_count: int
    used_prompt: str
    original_prompt_tokens_count: int
    used_prompt_tokens_count: int
    repetition_penalty_text_at_start: str
    used_repetition_penalty_tokens_count_at_start: int
    used_repetition_penalty_range_at_start: int
    used_repetition_penalty_tokens_count_at_end: int
    used_repetition_penalty_range_at_end: int
    generated_tokens_count: int
    output_tokens_count: int
    sequences: list[Written]
    gpus: list[Gpu]
    seed: int


class Line(Struct):
    """A token of a streamed answer. `stopped`: it completes a stop string, or came behind that."""

    index: int
    text: str
    stopped: bool


class Failure(Struct):
    """Every error's body: the exception's name and its message."""

    error: str
