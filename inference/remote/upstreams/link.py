"""A process of this project that serves one model: every request of the server reaches it as it is.

It has no dialect: api/link.py is the other end.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from inference import link_messages as messages
from inference.backend_info import ModelInfo
from inference.errors import ServerError
from inference.events import Embedding, Event, Finished, Started, Token
from inference.lora.adapter import AdapterCard
from inference.remote.event_stream import ServerSentEvent
from inference.remote.failures import RETRIED_STATUSES, UpstreamFailure, broken
from inference.remote.http_client import HttpClient
from inference.remote.upstreams.upstream_api import UpstreamCall
from inference.tokenized import Tokenized
from inference.types import GenerationRequest
from settings.remote_model import RemoteModel

GENERATE_PATH, EMBED_PATH = "/link/generate", "/link/embed"
INFO_PATH, LOAD_PATH = "/link/info", "/link/load"
TOKENIZE_PATH, DETOKENIZE_PATH = "/link/tokenize", "/link/detokenize"
ENCODE_TEXTS_PATH = "/link/encode_texts"
TOKENIZER_CONFIG_PATH = "/link/tokenizer_config"
ADAPTERS_PATH, ADAPTER_FOLDER_PATH = "/link/adapters", "/link/adapter_folder"
SLEEP_PATH, WAKE_UP_PATH = "/link/sleep", "/link/wake_up"
RECLAIMABLE_BYTES_PATH = "/link/reclaimable_bytes"
LOAD_ADAPTER_PATH, UNLOAD_ADAPTER_PATH = "/link/load_adapter", "/link/unload_adapter"

# By the status of an error that says when to try again: the queue is full; the process shuts down.
OUTCOMES = {429: "overloaded", 503: "unavailable"}

Result = TypeVar("Result")
Report = Callable[[ServerError], UpstreamFailure]


class LinkApi:
    """An UpstreamApi for a model of this project. The other end judges the request.

    has_replicas: other processes have the model too, and may answer where this one fails
    """

    can_resume = ends_at_deadline = True

    def __init__(self, model: RemoteModel, *, has_replicas: bool = False) -> None:
        self._name = model.name
        self._report = reported_by_replica if has_replicas else reported

    def calls(self, request: GenerationRequest) -> Sequence[UpstreamCall]:
        body = messages.encode_request(request)
        return [UpstreamCall(GENERATE_PATH, body, lambda: LinkReader(self._name, request.n, self._report))]

    def adapt(self, calls: Sequence[UpstreamCall], refusal: str) -> bool:
        return False

    def embedding_call(self, inputs: Sequence[str | Sequence[int]]) -> tuple[str, bytes]:
        return EMBED_PATH, messages.encode([each if isinstance(each, str) else list(each) for each in inputs])

    def read_embeddings(self, body: bytes) -> tuple[Embedding, ...]:
        return read_result(self._name, body, messages.EMBEDDINGS_DECODER)


class LinkReader:
    """An AnswerReader of frames, for the answers 0 to n - 1. report: the failure for a reported error."""

    def __init__(self, model: str, num_answers: int, report: Report) -> None:
        self._model = model
        self._report = report
        self._num_tokens: dict[int, int] = {}  # of each answer that has started
        self._unfinished = set(range(num_answers))

    @property
    def is_complete(self) -> bool:
        return not self._unfinished

    def read(self, event: ServerSentEvent) -> list[Event]:
        try:
            received = messages.read_event(event.data)
        except ServerError as error:
            raise self._report(error) from None
        except messages.MALFORMED:
            raise broken(self._model, "a message is no event") from None
        if received.index not in self._unfinished:
            raise broken(self._model, "a message is of no answer that runs")
        if isinstance(received, Started) == (received.index in self._num_tokens):
            raise broken(self._model, "an answer starts twice, or goes on before it starts")
        match received:
            case Token():
                self._num_tokens[received.index] += 1
            case Finished():
                self._unfinished.remove(received.index)
            case Started():
                self._num_tokens[received.index] = 0
        return [received]

    def read_document(self, body: bytes) -> list[Event]:
        raise broken(self._model, "it is not streamed")

    def finish(self) -> list[Event]:
        if self._unfinished:
            raise broken(self._model, "it ended before its last answer")
        return []

    def finish_at_deadline(self) -> list[Event]:
        events: list[Event] = []
        for index in sorted(self._unfinished):
            if index not in self._num_tokens:
                events.append(Started(index, None, 0))
            events.append(Finished(index, "deadline", num_tokens=self._num_tokens.get(index, 0)))
        return events


class LinkTokenizer:
    """An UpstreamTokenizer. All methods raise UpstreamFailure."""

    def __init__(self, model: RemoteModel) -> None:
        self.client = HttpClient(model)

    async def tokenize(self, request: GenerationRequest) -> Tokenized:
        return await call(
            self.client, TOKENIZE_PATH, messages.encode_request(request), messages.TOKENIZED_DECODER
        )

    async def encode_texts(self, texts: Sequence[str]) -> Sequence[tuple[int, ...]]:
        body = messages.encode(list(texts))
        return await call(self.client, ENCODE_TEXTS_PATH, body, messages.ENCODED_TEXTS_DECODER)

    async def detokenize(self, token_ids: Sequence[int], show_special: bool) -> str:
        body = messages.encode(messages.DetokenizeMessage(tuple(token_ids), show_special))
        return await call(self.client, DETOKENIZE_PATH, body, messages.TEXT_DECODER)

    async def config(self) -> Mapping[str, Any]:
        return await call(self.client, TOKENIZER_CONFIG_PATH, b"", messages.DOCUMENT_DECODER)

    async def close(self) -> None:
        await self.client.close()


class LinkAdapters:
    """The ProcessAdapters of a model. All methods raise UpstreamFailure."""

    def __init__(self, model: RemoteModel) -> None:
        self._model = model

    async def cards(self) -> Sequence[AdapterCard]:
        return await call_once(self._model, ADAPTERS_PATH, b"", messages.CARDS_DECODER)

    async def load(self, name: str, folder: Path, source: str, *, replace: bool) -> AdapterCard:
        body = messages.encode(messages.LoadAdapterMessage(name, str(folder), source, replace))
        return await call_once(self._model, LOAD_ADAPTER_PATH, body, messages.CARD_DECODER)

    async def unload(self, name: str) -> None:
        await call_once(self._model, UNLOAD_ADAPTER_PATH, messages.encode(name), messages.TEXT_DECODER)

    async def folder_of(self, name: str) -> Path:
        body = messages.encode(name)
        folder = await call_once(self._model, ADAPTER_FOLDER_PATH, body, messages.TEXT_DECODER)
        return Path(folder)


async def fetch_info(model: RemoteModel) -> ModelInfo:
    """What the model's process says of the model. Raises UpstreamFailure."""
    return await call_once(model, INFO_PATH, b"", messages.INFO_DECODER)


async def fetch_reclaimable_bytes(model: RemoteModel) -> int:
    """The bytes that the model's process gives back asleep; 0: it cannot sleep. Raises UpstreamFailure."""
    return await call_once(model, RECLAIMABLE_BYTES_PATH, b"", messages.COUNT_DECODER)


async def put_to_sleep(model: RemoteModel) -> None:
    """Let the model's process give back what it can read again. Raises UpstreamFailure."""
    await call_once(model, SLEEP_PATH, b"", messages.FLAG_DECODER)


async def wake_up(model: RemoteModel) -> None:
    """Let the model's process take requests again. Raises UpstreamFailure."""
    await call_once(model, WAKE_UP_PATH, b"", messages.FLAG_DECODER)


async def call_once(
    model: RemoteModel, path: str, body: bytes, decoder: msgspec.msgpack.Decoder[Result]
) -> Result:
    """The result of one call, on a connection of its own. Raises UpstreamFailure."""
    client = HttpClient(model)
    try:
        return await call(client, path, body, decoder)
    finally:
        await client.close()


async def call(
    client: HttpClient, path: str, body: bytes, decoder: msgspec.msgpack.Decoder[Result]
) -> Result:
    """The result of one call. Raises UpstreamFailure."""
    async with client.post(path, body) as response:
        received = await client.read_document(response)
    return read_result(client.model.name, received, decoder)


def read_result(model: str, body: bytes, decoder: msgspec.msgpack.Decoder[Result]) -> Result:
    """The result in the frame that a response consists of. Raises UpstreamFailure."""
    try:
        return messages.read_message(body[messages.LENGTH_BYTES :], decoder)
    except ServerError as error:
        raise reported(error) from None
    except messages.MALFORMED:
        raise broken(model, "no message") from None


def reported(error: ServerError) -> UpstreamFailure:
    """The failure for an error of the other end, which is passed on as it is."""
    return UpstreamFailure(error, "bad_request" if error.status < 500 else "failed")


def reported_by_replica(error: ServerError) -> UpstreamFailure:
    """As `reported`, for one of several processes: another one may answer where this one is full or fails."""
    retry_after = vars(error).get("retry_after")
    outcome = OUTCOMES.get(error.status) if retry_after else None
    is_retried = error.status in RETRIED_STATUSES
    return UpstreamFailure(
        error, outcome or reported(error).outcome, is_retried=is_retried, retry_after=retry_after
    )
