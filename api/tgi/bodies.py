"""The bodies of TGI requests.

Only shapes: what the values may be is told in validation.py. Unknown fields are ignored, and every optional
field may be null.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0)]


class JsonGrammar(Struct, tag_field="type", tag="json"):
    """A JSON schema, or its text. It must have `properties`."""

    value: dict[str, Any] | str


class JsonObjectGrammar(Struct, tag_field="type", tag="json_object"):
    """Another name for `json`."""

    value: dict[str, Any] | str


class NamedSchema(Struct):
    schema: dict[str, Any]
    name: str | None = None


class SchemaGrammar(Struct, tag_field="type", tag="json_schema"):
    """A JSON schema with a name, as OpenAI's clients send it."""

    value: NamedSchema


class RegexGrammar(Struct, tag_field="type", tag="regex"):
    """A regular expression that the whole text matches."""

    value: str


Grammar = JsonGrammar | JsonObjectGrammar | SchemaGrammar | RegexGrammar


class Parameters(Struct, kw_only=True):
    """How to generate.

    best_of                so many answers, of which the most probable is returned; needs sampling
    temperature            above 0; 1 if absent
    repetition_penalty     above 0; 1 is none; over prompt and answer
    frequency_penalty      -2 to 2; 0 is none; by a token's share of prompt and answer
    top_k                  sample from so many tokens at most
    top_p                  between 0 and 1: sample from the most probable tokens that make up so much
    typical_p              between 0 and 1: sample from the most typical tokens that make up so much
    do_sample              sample, even where no field above asks for it
    max_new_tokens         as many as there is room for if absent
    return_full_text       begin the text with the prompt
    stop                   strings that end the text and are part of it
    truncate               keep no more than the last so many tokens of the prompt
    watermark              mark the text, so that it can be told from others'
    details                tell tokens, seed and finish reason beside the text
    decoder_input_details  tell the prompt's tokens as well; not in streams
    seed                   the same gives the same text; drawn and reported if absent
    top_n_tokens           tell so many of the most probable tokens at each step
    grammar                what the text must match
    adapter_id             no adapters are served: only null is accepted
    """

    best_of: Count | None = None
    temperature: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    typical_p: float | None = None
    do_sample: bool | None = None
    max_new_tokens: Count | None = None
    return_full_text: bool | None = None
    stop: list[str] | None = None
    truncate: Count | None = None
    watermark: bool | None = None
    details: bool | None = None
    decoder_input_details: bool | None = None
    seed: Count | None = None
    top_n_tokens: Count | None = None
    grammar: Grammar | None = None
    adapter_id: str | None = None


class GenerateBody(Struct, kw_only=True):
    """Without parameters the answer is sampled; with them, only where they ask for it."""

    inputs: str
    parameters: Parameters | None = None
    add_special_tokens: bool | None = None


class CompatibleBody(GenerateBody, kw_only=True):
    """Of POST / and /invocations, where the body says whether the answer is streamed."""

    stream: bool | None = None


class VertexBody(Struct):
    """Each instance is a body of /generate or, with `messages`, of /v1/chat/completions."""

    instances: list[dict[str, Any]]


class TokenizeBody(Struct):
    inputs: str
    add_special_tokens: bool | None = None
