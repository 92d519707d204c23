"""The body of a Neodim request: every field of the last release, and this server's own additions.

Only the shape. Unknown fields are ignored, every optional field may be null, and a number may come as text.
"""

from typing import Literal

from msgspec import Struct

Text = str | int | float
Strings = list[str] | str


class Body(Struct, kw_only=True):
    """What the fields mean is told in the Neodim Server's README, "API request". Beyond the original:

    seed    the same one gives the same answer; drawn and reported if absent
    stream  the answer comes line by line, see writer.py
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
    stream: bool | None = None


def text(value: Text | None) -> str:
    """A text field, "" where it is absent."""
    return "" if value is None else str(value)


def strings(value: Strings | None) -> list[str]:
    """A list's strings; a string alone is a list of one, and empty ones count for nothing."""
    listed = [value] if isinstance(value, str) else value or []
    return [each for each in listed if each]
