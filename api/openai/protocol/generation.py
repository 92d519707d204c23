"""The JSON that completions and chat completions share: request fields, usage, prompt logprobs.

Types only: requests/ checks values. Unknown fields are ignored, and every optional field accepts null.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from api.hooks.adapter_sums import AdapterScale

Number = int | float


class StreamOptions(Struct):
    """Options of a stream.

    include_usage           send a last chunk with the total usage
    continuous_usage_stats  with include_usage: every chunk has the usage of its choice so far
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class NamedJsonSchema(Struct):
    """A named JSON schema. Without `schema`, any JSON object is allowed."""

    name: str | None = None
    description: str | None = None
    schema: dict[str, Any] | bool | None = None
    strict: bool | None = None


class ResponseFormat(Struct):
    """The format of the answer.

    type         text, json_object or json_schema; from TGI: json or regex; from Fireworks: grammar
    json_schema  the schema, with type json_schema
    value        TGI's field: a schema or a regular expression; huggingface_hub sends it with json_object too
    schema       the schema, with type json_object or json_schema, as llama.cpp and Together have it
    pattern      the regular expression, with type regex, as Together has it
    grammar      the grammar, with type grammar
    """

    type: str
    json_schema: NamedJsonSchema | None = None
    value: Any = None
    schema: dict[str, Any] | str | bool | None = None
    pattern: str | None = None
    grammar: str | None = None


class StructuredOutputs(Struct):
    """vLLM's structured outputs. At most one constraint may be set; guided_* fields are then ignored.

    json                JSON schema, as an object or as text
    regex               regular expression that the whole answer must match
    choice              the answer is one of these texts
    grammar             grammar in Lark's or llama.cpp's (GBNF) format
    json_object         true: the answer is a JSON object
    structural_tag      not supported
    whitespace_pattern  ignored
    """

    json: dict[str, Any] | str | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: Any = None
    whitespace_pattern: str | None = None


class ConstraintFields(Struct, kw_only=True):
    """The fields that constrain the answer's text, apart from OpenAI's.

    structured_outputs             as vLLM has it
    guided_json, guided_regex, guided_choice, guided_grammar   the same as older vLLM has them
    grammar, json_schema, ebnf, regex   the same as llama.cpp and SGLang have them; "" sets none
    grammar_lazy, structural_tag   must be unset
    """

    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    grammar: str | None = None
    json_schema: dict[str, Any] | str | None = None
    ebnf: str | None = None
    regex: str | None = None
    grammar_lazy: bool | None = None
    structural_tag: Any = None


class SamplingFields(ConstraintFields, kw_only=True):
    """The fields that say how an answer is sampled and where it ends; also those of ConstraintFields.

    seed                           the same seed gives the same answer; null: random
    temperature                    0: greedy; null: the server's default, usually 1
    top_p, top_k, min_p            sample only from the most probable tokens; top_k 0 or -1: from all
    frequency_penalty, presence_penalty, repetition_penalty   make repeated tokens less probable
    logit_bias                     token id -> value to add to its logit, -100 to 100; a list is ignored
    allowed_token_ids              generate only these tokens; an end token only if it is one of them
    bad_words                      texts that are never generated
    stop                           strings that end the answer; the text does not include them
    stop_token_ids                 token ids that end the answer
    include_stop_str_in_output     include the stop string in the text
    ignore_eos                     continue after the model's end token
    skip_special_tokens            false: include special tokens in the text
    priority                       must be 0
    cache_salt                     the prefix cache is shared with requests of the same salt only
    generation_config              transformers' GenerationConfig, as an object or as text, for fields that
                                   are null; without do_sample the answer is greedy
    """

    seed: int | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: int | None = None
    min_p: Number | None = None
    frequency_penalty: Number | None = None
    presence_penalty: Number | None = None
    repetition_penalty: Number | None = None
    logit_bias: dict[str, float] | list[float] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    priority: int | None = None
    cache_salt: str | None = None
    generation_config: dict[str, Any] | str | None = None


class CommonRequest(SamplingFields, kw_only=True):
    """The request fields of completions and chat completions, in addition to SamplingFields.

    model                          one of the served names; null: the served model
    n                              answers per prompt; greedy ones are equal
    best_of                        answers to generate per prompt; the n best by mean logprob are returned
    max_tokens, min_tokens         limits of each answer
    truncate_prompt_tokens         keep this many of the prompt's last tokens; -1: leave room for max_tokens
    truncation_side                must be left: truncate_prompt_tokens keeps the prompt's end
    add_special_tokens             whether the tokenizer adds its special tokens to the prompt
    prompt_logprobs                alternatives to report for each token of the prompt
    return_tokens_as_token_ids     in logprobs, name tokens as token_id:123
    return_token_ids               report the token ids of prompt and answer
    output_token_ids               the answer's first tokens, as another server generated them: it goes on
                                   behind them, and has them too
    max_time                       seconds after which the answer ends; REQUEST_TIMEOUT if that is less
    response_format                format of the answer
    stream, stream_options         send server-sent events
    request_id                     part of the response's id; default: the header X-Request-Id
    use_beam_search, logits_processors, logprob_token_ids   must be unset
    lora                           scales of adapters, whose sum changes the model, as in llama.cpp
    lora_path                      name of an adapter of the model, as in SGLang
    user, length_penalty, spaces_between_special_tokens   ignored
    """

    model: str | None = None
    n: int | None = None
    best_of: int | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    truncate_prompt_tokens: int | None = None
    truncation_side: str | None = None
    add_special_tokens: bool | None = None
    prompt_logprobs: int | None = None
    return_tokens_as_token_ids: bool | None = None
    return_token_ids: bool | None = None
    output_token_ids: list[int] | None = None
    max_time: Number | None = None
    response_format: ResponseFormat | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    request_id: str | None = None
    lora: list[AdapterScale] | None = None
    lora_path: str | list[str | None] | None = None
    use_beam_search: bool | None = None
    logits_processors: list[Any] | None = None
    logprob_token_ids: list[int] | None = None


class PromptTokensDetails(Struct):
    cached_tokens: int


class CompletionTokensDetails(Struct):
    reasoning_tokens: int


class UsageInfo(Struct):
    """completion_tokens_details: of answers with reasoning"""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails | UnsetType = UNSET


class RankedToken(Struct):
    logprob: float | None
    rank: int
    decoded_token: str


RankedTokens = list[dict[str, RankedToken] | None]


class UsageChunk(Struct):
    """The last chunk of a stream with include_usage. `choices` is empty."""

    id: str
    object: str
    created: int
    model: str
    choices: list[Any]
    usage: UsageInfo
    system_fingerprint: str
