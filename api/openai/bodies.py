"""The bodies of OpenAI's and vLLM's requests. Only shapes: what is in range is checked elsewhere.

Unknown fields are ignored, and every optional field may be null.
"""

from typing import Any

from msgspec import Struct

from api.openai.conversation import ChatMessage, Function, NamedFunction, NamedTool, ToolDef

Number = int | float
Prompt = str | list[int | str | list[int]]


class StreamOptions(Struct):
    """What a stream tells beside its choices.

    include_usage           one more chunk, at the end, with the whole usage
    continuous_usage_stats  with include_usage: every chunk tells its choice's usage so far
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class JsonSchema(Struct):
    """A JSON schema with a name; without `schema` any JSON object is meant."""

    name: str | None = None
    description: str | None = None
    schema: dict[str, Any] | bool | None = None
    strict: bool | None = None


class ResponseFormat(Struct):
    """What the answer must be.

    type         text, json_object, json_schema; TGI's json and regex
    json_schema  of the type json_schema
    value        TGI's: the schema, or a pattern; taken with json_object too, as huggingface_hub sends it
    """

    type: str
    json_schema: JsonSchema | None = None
    value: Any = None


class StructuredOutputs(Struct):
    """vLLM's constraints, of which one may be given.

    json                a JSON schema, or its text
    regex               a regular expression the whole answer matches
    choice              texts of which the answer is one
    grammar             a grammar in Lark's or llama.cpp's language
    json_object         any JSON object
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


class GeneratingBody(Struct, kw_only=True):
    """What completions and chat completions both take.

    model                          one of the served names; null: the served model
    n                              answers to each prompt
    best_of                        answers to generate, of which the n best by mean logprob are returned
    seed                           the same seed gives the same answer; null: drawn
    temperature                    0: the most probable token; null: 1
    top_p, top_k, min_p            keep only the most probable tokens; top_k 0 or -1: all
    frequency_penalty, presence_penalty, repetition_penalty   against repeated tokens
    logit_bias                     what to add to the logits of tokens, by id; a list is ignored, as by TGI
    allowed_token_ids              only these tokens may come, and an end only if it is one of them
    bad_words                      texts that never come
    stop                           strings that end the answer, of which they are no part
    stop_token_ids                 token ids that end the answer
    include_stop_str_in_output     the stop string is part of the answer
    ignore_eos                     go on behind the model's own end
    max_tokens, min_tokens         of each answer
    truncate_prompt_tokens         keep the prompt's last so many; -1: as many as leave room for the answer
    skip_special_tokens            false: special tokens are part of the text
    add_special_tokens             whether the tokenizer adds its special tokens to the prompt
    prompt_logprobs                alternatives to report with each of the prompt's tokens
    return_tokens_as_token_ids     tokens with logprobs are written token_id:123
    return_token_ids               report the ids of the prompt and the answer
    response_format, structured_outputs, guided_json, guided_regex, guided_choice, guided_grammar
                                   what the answer must be, in the spellings of OpenAI, TGI and vLLM's ages
    stream, stream_options         server-sent events
    request_id                     becomes part of the answer's id, else the header X-Request-Id does
    priority                       must be 0
    use_beam_search, logits_processors   must be unset
    user, store, metadata, length_penalty, spaces_between_special_tokens, cache_salt   ignored
    """

    model: str | None = None
    n: int | None = None
    best_of: int | None = None
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
    max_tokens: int | None = None
    min_tokens: int | None = None
    truncate_prompt_tokens: int | None = None
    skip_special_tokens: bool | None = None
    add_special_tokens: bool | None = None
    prompt_logprobs: int | None = None
    return_tokens_as_token_ids: bool | None = None
    return_token_ids: bool | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    request_id: str | None = None
    priority: int | None = None
    use_beam_search: bool | None = None
    logits_processors: list[Any] | None = None


class CompletionBody(GeneratingBody, kw_only=True):
    """A request to go on with a text.

    prompt      text, token ids, or a list of either; choice i * n + k is the k-th answer to the i-th
    max_tokens  16 where it is not given; 0 with echo only: nothing is generated
    echo        the answer begins with its prompt
    logprobs    alternatives to report with each token; 0: the chosen token's logprob alone
    suffix, prompt_embeds   must be unset
    """

    prompt: Prompt | None = None
    echo: bool | None = None
    logprobs: int | None = None
    suffix: str | None = None
    prompt_embeds: Any = None


class ChatBody(GeneratingBody, kw_only=True):
    """A request to go on with a conversation.

    messages                the conversation
    max_completion_tokens   goes before max_tokens; null: as many as the context holds
    logprobs, top_logprobs  whether to report each token's logprob, and with how many alternatives
    tools                   functions the model may call
    tool_choice             none, auto, required, or one function: by its name, or as an object
    parallel_tool_calls     false: the first call ends the answer
    functions, function_call   tools and the choice among them, as they were told before; one call at most
    reasoning_effort        told to the chat template
    add_generation_prompt   the answer is a new message
    continue_final_message  the answer goes on with the last message
    chat_template_kwargs    further values for the chat template
    documents               told to the chat template
    chat_template           must be unset
    echo                    the answer begins with the last message, where that is the assistant's
    """

    messages: list[ChatMessage]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[ToolDef] | None = None
    tool_choice: str | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    functions: list[Function] | None = None
    function_call: str | NamedFunction | None = None
    reasoning_effort: str | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[Any] | None = None
    chat_template: str | None = None
    echo: bool | None = None
