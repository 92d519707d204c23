"""The JSON of /v1/embeddings."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from api.openai.protocol.chat import ChatMessage
from api.openai.protocol.errors import ErrorResponse
from api.openai.protocol.generation import UsageInfo
from api.openapi.operation import Operation


class InputText(Struct, kw_only=True):
    """A text as an object; OpenAI's content parts have this form."""

    type: Literal["text", "input_text"] = "text"
    text: str


class EmbeddingRequest(Struct, kw_only=True):
    """A request to embed texts, or one conversation; exactly one of `input` and `messages` is required.

    input                   text, token ids, or a list of at most 2048 of either; a text may be {"text": …}
    messages                a conversation, which the chat template renders to one text
    encoding_format         float: a list of numbers; base64: the bytes of the numbers
    embed_dtype             type of the numbers in base64: float32 or float16; default: float32
    endianness              byte order in base64: little, big, or native, the server's; default: little
    dimensions              size of the vectors: one that the model allows; default: its full size
    normalize, use_activation   scale the vectors to length 1; default: true. Two names of one option
    truncate_prompt_tokens  keep this many of each input's tokens; -1: as many as the context holds
    truncation_side         the end that loses tokens; default: left, the last tokens are kept
    add_special_tokens      whether the tokenizer adds its special tokens; default: only for `input`
    add_generation_prompt   end the conversation with the start of an answer; default: false
    continue_final_message, chat_template_kwargs   as in a chat completion
    """

    input: str | InputText | list[int | str | list[int] | InputText] | None = None
    messages: list[ChatMessage] | None = None
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    embed_dtype: str | None = None
    endianness: str | None = None
    dimensions: int | None = None
    normalize: bool | None = None
    use_activation: bool | None = None
    truncate_prompt_tokens: int | None = None
    truncation_side: Literal["left", "right"] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class EmbeddingData(Struct, kw_only=True):
    """One vector: a list of numbers, or their bytes in base64."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: Sequence[float] | str


class EmbeddingResponse(Struct, kw_only=True):
    id: str
    object: Literal["list"] = "list"
    model: str
    data: list[EmbeddingData]
    usage: UsageInfo


EMBED = Operation(
    "Embed texts", "", EmbeddingRequest, EmbeddingResponse, error=ErrorResponse, takes_permit=True
)
