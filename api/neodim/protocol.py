"""The JSON of Neodim requests and responses: the fields of the last release, and additions of this server.

Types only: validation.py and parse.py check values. Unknown fields of a request are ignored, every optional
field accepts null, and numbers may be strings. `seed`, `adapter`, `stop_reason`, `stream` and StreamLine are
additions.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

Text = str | int | float
Strings = list[str] | str


class NeodimRequest(Struct, kw_only=True):
    """A request to continue a prompt. In sampling options, 0 and null mean off.

    generated_tokens_count  tokens to generate in each sequence; 0: only process the input
    max_total_tokens        limit of the input and generated_tokens_count together
    prompt                  text to continue; its beginning is dropped if it does not fit
    preamble                text before the prompt; never truncated
    sequences_count         sequences to generate, 1 by default
    temperature             0 means 1; use top_k 1 for greedy sampling
    top_k, top_p, typical, tfs, top_a   limits on the tokens to sample from
    penalty_alpha           contrastive search with this weight among the top_k tokens
    warpers_order           names of warpers in the order of application; "*": all others
    repetition_penalty      above 1: repeated tokens become less probable
    repetition_penalty_prompt             text to penalize in place of the prompt
    repetition_penalty_include_preamble   penalize the preamble's tokens too
    repetition_penalty_include_generated  ignore or include generated tokens: expand lengthens the range by
                                          them, slide (default) moves the range, allow means expand
    repetition_penalty_range              number of last tokens to penalize; 0: all of the penalized input
    repetition_penalty_slope              0: the same penalty for all; else it grows towards the end
    repetition_penalty_truncate_to_input  limit the range to the tokens of that input
    required_server_version   version specifier (PEP 440) that version 0.13 must match
    stop_strings              strings, or patterns, that end a sequence
    stop_strings_type         string (default) or regex
    stop_strings_required_matches_count   consecutive tokens after which a stop string must match
    truncate_prompt_until     strings after one of which a truncated prompt begins
    words_whitelist           only tokens of these words are generated
    words_blacklist           words that are never generated
    words_blacklist_at_start  words whose tokens are never generated first
    no_repeat_ngram_size      no n-gram of this size occurs twice
    can_stop_early            end a sequence at the model's end token; else all have the full length
    seed                      the same seed gives the same answer; null: random, and reported
    adapter                   name of an adapter, or of a model; null: the default model
    stream                    send a line for each token, then the report
    """

    generated_tokens_count: int
    max_total_tokens: int
    prompt: Text | None = None
    preamble: Text | None = None
    sequences_count: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    typical: float | None = None
    tfs: float | None = None
    top_a: float | None = None
    penalty_alpha: float | None = None
    warpers_order: Strings | None = None
    repetition_penalty: float | None = None
    repetition_penalty_include_preamble: bool | None = None
    repetition_penalty_range: int | None = None
    repetition_penalty_slope: float | None = None
    repetition_penalty_include_generated: Literal["ignore", "allow", "expand", "slide"] | None = None
    repetition_penalty_truncate_to_input: bool | None = None
    repetition_penalty_prompt: Text | None = None
    required_server_version: str | None = None
    stop_strings: Strings | None = None
    stop_strings_type: Literal["string", "regex"] | None = None
    stop_strings_required_matches_count: int | None = None
    truncate_prompt_until: Strings | None = None
    words_whitelist: Strings | None = None
    words_blacklist: Strings | None = None
    words_blacklist_at_start: Strings | None = None
    no_repeat_ngram_size: int | None = None
    can_stop_early: bool | None = None
    seed: int | None = None
    adapter: str | None = None
    stream: bool | None = None


def to_text(value: Text | None) -> str:
    """The text of a field; null becomes ""."""
    return "" if value is None else str(value)


def to_strings(value: Strings | None) -> list[str]:
    """The strings of a field. A single string becomes a list; empty strings are dropped."""
    listed = [value] if isinstance(value, str) else value or []
    return [each for each in listed if each]


class SequenceReport(Struct):
    """One generated sequence: generated_text + stop_string_match + trimmed_tail.

    generated_text     the text before the stop string
    output_text        preamble, used prompt and everything that was generated
    stop_string        the stop string or pattern that ended the sequence; empty if none did
    stop_string_match  the text that it matched
    trimmed_tail       the text after the match
    repetition_penalty_text_at_end   the text that the penalty covered at the last token
    """

    generated_text: str
    output_text: str
    stop_string: str
    stop_string_match: str
    trimmed_tail: str
    repetition_penalty_text_at_end: str


class GpuReport(Struct):
    """The memory of a GPU in bytes: at the start and end of the request, and the extremes in between."""

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
    """The response. Counts and ranges are in tokens.

    preamble_tokens_count    includes the special tokens that the tokenizer adds
    generated_tokens_count   tokens of the longest sequence
    output_tokens_count      tokens of the input and the longest sequence
    stop_reason              timeout, if REQUEST_TIMEOUT ended a sequence
    """

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
    sequences: list[SequenceReport]
    gpus: list[GpuReport]
    seed: int
    stop_reason: str | UnsetType = UNSET


class StreamLine(Struct):
    """A token of a streamed response.

    index    index of the sequence
    stopped  the token completes a stop string, or follows one
    """

    index: int
    text: str
    stopped: bool


class NeodimErrorResponse(Struct):
    """The body of every error: "<exception name>: <message>"."""

    error: str
