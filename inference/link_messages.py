"""The requests and events that two processes of this project exchange: inference/types.py as msgpack.

A frame is a length and a message: a tag and its value. Decoders are made at import, which msgspec needs
before several threads use them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar, get_type_hints

import msgspec

from inference import errors
from inference.backend_info import BackendLoad, ModelInfo
from inference.errors import BadRequest, Internal, ServerError
from inference.events import CallDelta, Embedding, Event, Finished, Started, Token
from inference.lora.adapter import AdapterCard
from inference.tokenized import Tokenized
from inference.types import GenerationRequest, Message

MEDIA_TYPE = "application/x-hearth-link"
LENGTH_BYTES = 4  # of a frame's length, big-endian
RESULT, ERROR = "result", "error"  # tags of messages that are no events
# What reading a message raises if it is none: another form, a text that is no UTF-8, an unknown tag.
MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, KeyError)

Result = TypeVar("Result")

TAGS: Mapping[type, str] = {
    Started: "started",
    Token: "token",
    CallDelta: "call",
    Finished: "finished",
}
EVENT_DECODERS: Mapping[str, msgspec.msgpack.Decoder[Event]] = {
    tag: msgspec.msgpack.Decoder(kind) for kind, tag in TAGS.items()
}
# By the kind of a prompt: msgspec does not tell two kinds of lists apart.
PROMPT_DECODERS: Mapping[str, msgspec.msgpack.Decoder[Any]] = {
    "text": msgspec.msgpack.Decoder(str),
    "token_ids": msgspec.msgpack.Decoder(tuple[int, ...]),
    "messages": msgspec.msgpack.Decoder(tuple[Message, ...]),
}
OPTION_NAMES = tuple(field.name for field in fields(GenerationRequest) if field.name != "prompt")
HINTS = get_type_hints(GenerationRequest)
Options = msgspec.defstruct("Options", [(name, HINTS[name]) for name in OPTION_NAMES])

ERROR_CLASSES = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ServerError)
}


class RequestMessage(msgspec.Struct):
    """A GenerationRequest. kind: a key of PROMPT_DECODERS."""

    kind: str
    prompt: msgspec.Raw
    options: Options  # type: ignore[valid-type]


class DetokenizeMessage(msgspec.Struct):
    """The arguments of Backend.detokenize."""

    token_ids: tuple[int, ...]
    show_special: bool


class LoadAdapterMessage(msgspec.Struct):
    """The arguments of Adapters.load."""

    name: str
    folder: str
    source: str
    replace: bool


class ErrorMessage(msgspec.Struct):
    """A ServerError. kind: its class; attributes: what its instance has."""

    kind: str
    attributes: dict[str, Any]


REQUEST_DECODER = msgspec.msgpack.Decoder(RequestMessage)
INPUTS_DECODER = msgspec.msgpack.Decoder(list[str | tuple[int, ...]])
DETOKENIZE_DECODER = msgspec.msgpack.Decoder(DetokenizeMessage)
LOAD_ADAPTER_DECODER = msgspec.msgpack.Decoder(LoadAdapterMessage)
CARD_DECODER = msgspec.msgpack.Decoder(AdapterCard)
CARDS_DECODER = msgspec.msgpack.Decoder(tuple[AdapterCard, ...])
ERROR_DECODER = msgspec.msgpack.Decoder(ErrorMessage)
MESSAGE_DECODER = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
INFO_DECODER = msgspec.msgpack.Decoder(ModelInfo)
LOAD_DECODER = msgspec.msgpack.Decoder(BackendLoad)
TOKENIZED_DECODER = msgspec.msgpack.Decoder(Tokenized)
TEXT_DECODER = msgspec.msgpack.Decoder(str)
TEXTS_DECODER = msgspec.msgpack.Decoder(list[str])
ENCODED_TEXTS_DECODER = msgspec.msgpack.Decoder(list[tuple[int, ...]])
COUNT_DECODER = msgspec.msgpack.Decoder(int)
FLAG_DECODER = msgspec.msgpack.Decoder(bool)
EMBEDDINGS_DECODER = msgspec.msgpack.Decoder(tuple[Embedding, ...])
DOCUMENT_DECODER = msgspec.msgpack.Decoder(dict[str, Any])


def encode(value: Any) -> bytes:
    """Raises BadRequest for a number or a text that msgpack does not have."""
    try:
        return msgspec.msgpack.encode(value)
    except OverflowError:
        raise BadRequest("", "the request has an integer of more than 64 bits") from None
    except UnicodeEncodeError:
        raise BadRequest("", "the request has a lone surrogate: send both halves of the pair") from None


def encode_request(request: GenerationRequest) -> bytes:
    """Raises BadRequest, as `encode`."""
    options = {name: getattr(request, name) for name in OPTION_NAMES}
    prompt = request.prompt if isinstance(request.prompt, str) else list(request.prompt)
    return encode({"kind": prompt_kind(request.prompt), "prompt": prompt, "options": options})


def decode_request(body: bytes) -> GenerationRequest:
    """Raises MALFORMED."""
    message = REQUEST_DECODER.decode(body)
    prompt = PROMPT_DECODERS[message.kind].decode(message.prompt)
    return GenerationRequest(prompt, **{name: getattr(message.options, name) for name in OPTION_NAMES})


def prompt_kind(prompt: str | Sequence[int] | Sequence[Message]) -> str:
    if isinstance(prompt, str):
        return "text"
    return "messages" if prompt and isinstance(prompt[0], Message) else "token_ids"


def frame(tag: str, value: Any) -> bytes:
    message = msgspec.msgpack.encode((tag, value), enc_hook=list)  # a range is a list
    return len(message).to_bytes(LENGTH_BYTES) + message


def event_frame(event: Event) -> bytes:
    return frame(TAGS[type(event)], event)


def error_frame(error: ServerError) -> bytes:
    """The error as the first class of errors.py that it is, with its attributes."""
    kind = next(each for each in type(error).__mro__ if each.__name__ in ERROR_CLASSES)
    attributes = {name: value for name, value in vars(error).items() if isinstance(value, str | int | float)}
    return frame(ERROR, ErrorMessage(kind.__name__, attributes))


def read_message(message: bytes, decoder: msgspec.msgpack.Decoder[Result]) -> Result:
    """The result in a message. Raises the ServerError that is in it instead, or MALFORMED."""
    tag, value = MESSAGE_DECODER.decode(message)
    if tag == ERROR:
        raise read_error(value)
    return decoder.decode(value)


def read_event(message: bytes) -> Event:
    """The event of a message. Raises the ServerError that is in it instead, or MALFORMED."""
    tag, value = MESSAGE_DECODER.decode(message)
    if tag == ERROR:
        raise read_error(value)
    return EVENT_DECODERS[tag].decode(value)


def read_error(message: bytes | msgspec.Raw) -> ServerError:
    """The error of a frame. Its __init__ is not called: it would make another message."""
    sent = ERROR_DECODER.decode(message)
    error_class = ERROR_CLASSES.get(sent.kind, Internal)
    error = error_class.__new__(error_class)
    Exception.__init__(error, sent.attributes["message"])
    vars(error).update(sent.attributes)
    return error
