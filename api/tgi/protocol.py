"""The JSON of TGI's requests and responses.

Types only: validation.py checks values. Unknown fields of a request are ignored, every optional field accepts
null, and UNSET fields of a response are left out.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from api.model_card import ModelState

Count = Annotated[int, Meta(ge=0)]
FinishReason = Literal["length", "eos_token", "stop_sequence"]


class JsonGrammar(Struct, tag_field="type", tag="json"):
    """A JSON schema, as an object or as text. It must have `properties`."""

    value: dict[str, Any] | str


class JsonObjectGrammar(Struct, tag_field="type", tag="json_object"):
    """Another name for `json`."""

    value: dict[str, Any] | str


class NamedSchema(Struct):
    schema: dict[str, Any]
    name: str | None = None


class SchemaGrammar(Struct, tag_field="type", tag="json_schema"):
    """A named JSON schema, in OpenAI's format."""

    value: NamedSchema


class RegexGrammar(Struct, tag_field="type", tag="regex"):
    """A regular expression that the whole text must match."""

    value: str


Grammar = JsonGrammar | JsonObjectGrammar | SchemaGrammar | RegexGrammar


class GenerateParameters(Struct, kw_only=True):
    """Parameters of the generation.

    best_of                answers to generate; the most probable one is returned; needs sampling
    temperature            above 0; default 1
    repetition_penalty     above 0; 1 is off; applies to tokens of prompt and answer
    frequency_penalty      -2 to 2; 0 is off; scales with a token's share of prompt and answer
    top_k                  sample from at most this many tokens
    top_p                  between 0 and 1: sample from the most probable tokens with this total probability
    typical_p              between 0 and 1: sample from the most typical tokens with this total probability
    do_sample              sample even if no other field requires sampling
    max_new_tokens         default: as many as the context holds
    return_full_text       return the prompt in front of the text
    stop                   strings that end the text; the text includes them
    truncate               keep only this many tokens from the end of the prompt
    watermark              bias the sampling so that a detector recognizes the text
    details                return tokens, seed and finish reason with the text
    decoder_input_details  return the prompt's tokens too; not in streams
    seed                   the same seed gives the same text; absent: a random seed, which is reported
    top_n_tokens           return this many of the most probable tokens at each step
    grammar                JSON schema or regular expression that the text must match
    adapter_id             name of an adapter, or of a model; null: the default model
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


class GenerateRequest(Struct, kw_only=True):
    """A request to continue a text. Without `parameters`, the answer is sampled.

    inputs              the prompt
    add_special_tokens  whether the tokenizer adds its special tokens to the prompt
    """

    inputs: str
    parameters: GenerateParameters | None = None
    add_special_tokens: bool | None = None


class CompatGenerateRequest(GenerateRequest, kw_only=True):
    """The body of POST / and /invocations: a GenerateRequest with the field `stream`."""

    stream: bool | None = None


class VertexRequest(Struct):
    """Each instance is a body of /generate; with `messages`, it is a body of /v1/chat/completions."""

    instances: list[dict[str, Any]]


class TgiTokenizeRequest(Struct):
    inputs: str
    add_special_tokens: bool | None = None


class PrefillToken(Struct):
    """A token of the prompt. The first token has no logprob, because no token precedes it."""

    id: int
    text: str
    logprob: float | None


class OutputToken(Struct):
    """A generated token, or an alternative to one. The text does not include `special` tokens."""

    id: int
    text: str
    logprob: float
    special: bool


class SequenceDetails(Struct, kw_only=True):
    """How an answer was generated.

    stop_reason  timeout, if REQUEST_TIMEOUT ended the answer; finish_reason is then length
    seed         null for a greedy answer
    prefill      the prompt's tokens, with decoder_input_details
    top_tokens   the most probable tokens of each step, with top_n_tokens
    """

    finish_reason: FinishReason
    stop_reason: str | UnsetType = UNSET
    generated_tokens: int
    seed: int | None
    prefill: list[PrefillToken]
    tokens: list[OutputToken]
    top_tokens: list[list[OutputToken]] | UnsetType = UNSET


class BestOfSequence(SequenceDetails, kw_only=True):
    """An answer generated for best_of, other than the most probable one."""

    generated_text: str


class Details(SequenceDetails, kw_only=True):
    best_of_sequences: list[BestOfSequence] | UnsetType = UNSET


class GenerateResponse(Struct):
    generated_text: str
    details: Details | UnsetType = UNSET


class StreamDetails(Struct, kw_only=True):
    finish_reason: FinishReason
    generated_tokens: int
    seed: int | None
    input_length: int | None
    stop_reason: str | UnsetType = UNSET


class StreamResponse(Struct, kw_only=True):
    """An event of a stream: one token. The last event also has the text and, if requested, the details."""

    index: int
    token: OutputToken
    top_tokens: list[OutputToken] | UnsetType = UNSET
    generated_text: str | None = None
    details: StreamDetails | None = None


class SimpleToken(Struct):
    """A token of a text, with the range of its characters [start, stop)."""

    id: int
    text: str
    start: int
    stop: int


class ChatTokenizeResponse(Struct):
    tokenize_response: list[SimpleToken]
    templated_text: str


class EmbedRequest(Struct):
    """Texts to embed.

    inputs                one text or several
    normalize             scale the vectors to length 1; default: true
    dimensions            size of the vectors: one that the model allows; default: its full size
    truncate              shorten a text that is longer than the model's limit; default: false
    truncation_direction  the end that is cut; default: right
    prompt_name           must be null: write the prompt in front of `inputs`
    """

    inputs: str | list[str]
    normalize: bool | None = None
    dimensions: int | None = None
    truncate: bool | None = None
    truncation_direction: Literal["left", "right", "Left", "Right"] | None = None
    prompt_name: str | None = None


class VertexResponse(Struct):
    predictions: list[str]


class InfoResponse(Struct):
    """The served model and the limits of a request. Clients of TGI before 3 read the last three fields."""

    model_id: str
    model_sha: str | None
    model_pipeline_tag: str | None
    max_concurrent_requests: int
    max_best_of: int
    max_stop_sequences: int
    max_input_tokens: int | None
    max_total_tokens: int | None
    validation_workers: int
    max_client_batch_size: int
    router: str
    version: str
    sha: str | None
    docker_label: str | None
    max_input_length: int | None
    model_dtype: str | None
    model_device_type: str | None
    models: list[ModelState]  # all models of this server; from here on: not in TGI


class TgiErrorResponse(Struct):
    """An error. `error_type` is validation, overloaded, generation or incomplete_generation, among others."""

    error: str
    error_type: str
