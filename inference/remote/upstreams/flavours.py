"""The kinds of OpenAI-compatible servers: which options each one supports, and how they are spelled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

GUIDED_VLLM = "vllm before 0.11"

OPENAI_OPTIONS = frozenset(
    {
        "include_stop_str_in_output",  # by this server
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "seed",
        "logprobs",
        "constraint",
        "tools",
        "tool_choice",
        "parallel_calls",
        "reasoning_effort",
    }
)
# Options of vLLM and Hearth, with vLLM's spelling of those that differ.
VLLM_SPELLINGS: Mapping[str, str] = {
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "min_tokens": "min_tokens",
    "ignore_eos": "ignore_eos",
    "bad_words": "bad_words",
    "stop_token_ids": "stop_token_ids",
    "include_stop_str_in_output": "include_stop_str_in_output",
    "truncate": "truncate_prompt_tokens",
    "add_special_tokens": "add_special_tokens",
    "allowed_token_ids": "allowed_token_ids",
    "cache_salt": "cache_salt",
    "prompt_logprobs": "prompt_logprobs",
    "arguments": "chat_template_kwargs",
}
HEARTH_SPELLINGS: Mapping[str, str] = {
    **VLLM_SPELLINGS,
    "output_token_ids": "output_token_ids",
    "deadline": "max_time",
}
# python/sglang/srt/entrypoints/openai/protocol.py: unknown fields are ignored.
SGLANG_SPELLINGS: Mapping[str, str] = {
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "min_tokens": "min_tokens",
    "ignore_eos": "ignore_eos",
    "stop_token_ids": "stop_token_ids",
    "include_stop_str_in_output": "no_stop_trim",
    "cache_salt": "cache_salt",
    "arguments": "chat_template_kwargs",
}
TEMPLATE_OPTIONS = frozenset({"add_generation_prompt", "continue_final_message"})
LLAMA_CPP_SPELLINGS: Mapping[str, str] = {
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
    "typical_p": "typical_p",
    "ignore_eos": "ignore_eos",
    "arguments": "chat_template_kwargs",
}
# kind of constraint -> the path of its field. Before 0.11, vLLM has other ones, and ignores these.
VLLM_CONSTRAINTS: Mapping[str, Sequence[str]] = {
    kind: ("structured_outputs", kind) for kind in ("regex", "choice", "grammar")
}
GUIDED_CONSTRAINTS: Mapping[str, Sequence[str]] = {kind: (f"guided_{kind}",) for kind in VLLM_CONSTRAINTS}
SGLANG_CONSTRAINTS: Mapping[str, Sequence[str]] = {"regex": ("regex",), "grammar": ("ebnf",)}
# The fields without which reasoning is apart from the text; llama.cpp has Hearth's.
HEARTH_UNSEPARATED: Mapping[str, Any] = {"reasoning_format": "none"}
SGLANG_UNSEPARATED: Mapping[str, Any] = {"separate_reasoning": False}
# `transformers serve` makes a repetition penalty of the frequency penalty; the rest has no effect.
TRANSFORMERS_IGNORED = frozenset(
    {
        "frequency_penalty",
        "presence_penalty",
        "logprobs",
        "constraint",
        "tool_choice",
        "parallel_calls",
        "reasoning_effort",
    }
)


@dataclass(frozen=True, slots=True)
class Flavour:
    """What a kind of OpenAI-compatible server supports beyond OpenAI's own options.

    spellings         option -> its name in the body
    max_stops         stop strings in a request, further ones are watched here; None: any number
    max_tokens_field  of chat completions
    has_prompt_ids    token ids as the prompt, and token ids of the answer on request
    ignored           options of OpenAI's that it accepts without an effect, or with another one
    max_answers       to one request; None: any number
    leaves_stops      the stop string stays in the text: it is cut off here
    names_tool        tool_choice may name a tool; else that tool alone is sent, and required
    constraints       kind of constraint -> the path of its field, where it has others than JSON
    min_logprobs      alternatives without which there are no logprobs
    unseparated       fields of a chat whose text shall have the reasoning too
    takes_reasoning   a message of the assistant may have its reasoning
    model             the model in messages
    """

    name: str
    spellings: Mapping[str, str]
    max_stops: int | None = None
    max_tokens_field: str = "max_tokens"
    has_prompt_ids: bool = False
    ignored: frozenset[str] = frozenset()
    max_answers: int | None = None
    leaves_stops: bool = False
    names_tool: bool = True
    constraints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    min_logprobs: int = 0
    unseparated: Mapping[str, Any] = field(default_factory=dict)
    takes_reasoning: bool = False
    model: str = ""

    @property
    def server(self) -> str:
        """The server, for messages."""
        return f"the {self.name} server behind {self.model}"

    @property
    def has_template_variables(self) -> bool:
        """Whether it passes variables on to the model's chat template."""
        return "arguments" in self.spellings

    @property
    def options(self) -> frozenset[str]:
        extended = {"show_special", *TEMPLATE_OPTIONS} if self.has_prompt_ids else set()
        return OPENAI_OPTIONS - self.ignored | self.spellings.keys() | extended


FLAVOURS: Mapping[str, Flavour] = {
    "openai": Flavour("OpenAI", {}, max_stops=4, max_tokens_field="max_completion_tokens"),
    "azure": Flavour("Azure OpenAI", {}, max_stops=4, max_tokens_field="max_completion_tokens"),
    "compatible": Flavour("OpenAI-compatible", {}),
    "vllm": Flavour(
        "vLLM", VLLM_SPELLINGS, has_prompt_ids=True, constraints=VLLM_CONSTRAINTS, takes_reasoning=True
    ),
    GUIDED_VLLM: Flavour("vLLM", VLLM_SPELLINGS, has_prompt_ids=True, constraints=GUIDED_CONSTRAINTS),
    "sglang": Flavour(
        "SGLang",
        SGLANG_SPELLINGS,
        has_prompt_ids=True,
        constraints=SGLANG_CONSTRAINTS,
        unseparated=SGLANG_UNSEPARATED,
        takes_reasoning=True,
    ),
    "hearth": Flavour(
        "Hearth",
        HEARTH_SPELLINGS,
        has_prompt_ids=True,
        constraints=VLLM_CONSTRAINTS,
        unseparated=HEARTH_UNSEPARATED,
        takes_reasoning=True,
    ),
    # tools/server/server-common.cpp: a tool_choice that is no text counts as "auto", and n_probs 0 means that
    # there are no logprobs.
    "llama.cpp": Flavour(
        "llama.cpp",
        LLAMA_CPP_SPELLINGS,
        names_tool=False,
        min_logprobs=1,
        unseparated=HEARTH_UNSEPARATED,
        takes_reasoning=True,
    ),
    "transformers": Flavour(
        "transformers", {}, ignored=TRANSFORMERS_IGNORED, max_answers=1, leaves_stops=True
    ),
}
