"""The tokenizer of a server that shares it: another Hearth, or Text Generation Inference.

Both have TGI's routes, which tell the place of each token in the text. On the event loop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from inference.errors import NotImplementedHere
from inference.remote.failures import broken
from inference.remote.http_client import HttpClient
from inference.remote.upstreams.flavours import FLAVOURS
from inference.remote.upstreams.openai import is_conversation
from inference.remote.upstreams.openai_body import chat_body
from inference.remote.upstreams.upstream_api import UpstreamTokenizer
from inference.struct_types import ready
from inference.tokenized import Tokenized, TokenSpan
from inference.types import GenerationRequest
from inference.untrusted_json import decode_json
from settings.remote_model import RemoteModel

OPENAI_PREFIX = "/v1"
WITH_TOKENIZER = frozenset({"hearth", "tgi"})  # kinds of servers


class TokenEntry(msgspec.Struct):
    """A token in TGI's answers."""

    id: int
    text: str
    start: int
    stop: int


class Detokenized(msgspec.Struct):
    """vLLM's answer to /detokenize."""

    prompt: str


class ChatTokenized(msgspec.Struct):
    """TGI's answer to /chat_tokenize."""

    templated_text: str
    tokenize_response: list[TokenEntry]


T = TypeVar("T")


class RemoteTokenizer:
    """The tokenizer of one model at one server.

    upstream_name: the model's name at the server. has_detokenizer: the server turns ids into text too.
    """

    def __init__(self, model: RemoteModel, upstream_name: str, *, has_detokenizer: bool) -> None:
        self.client = open_root(model)
        self._model = model.name
        self._upstream_name = upstream_name
        self._has_detokenizer = has_detokenizer

    async def tokenize(self, request: GenerationRequest) -> Tokenized:
        """The prompt as the server reads it. Raises UpstreamFailure, or NotImplementedHere for token ids."""
        if is_conversation(request.prompt):
            chat = chat_body(request, self._upstream_name, FLAVOURS["hearth"])
            document = await fetch(self.client, "/chat_tokenize", chat, ChatTokenized)
            return tokenized(document.templated_text, document.tokenize_response)
        if not isinstance(request.prompt, str):
            raise NotImplementedHere(f"the server behind {self._model} tokenizes text only")
        body: dict[str, Any] = {"inputs": request.prompt}
        if request.add_special_tokens is not None:
            body["add_special_tokens"] = request.add_special_tokens
        return tokenized(request.prompt, await fetch(self.client, "/tokenize", body, list[TokenEntry]))

    async def encode_texts(self, texts: Sequence[str]) -> Sequence[tuple[int, ...]]:
        return await encode_one_by_one(self, texts)

    async def detokenize(self, token_ids: Sequence[int], show_special: bool) -> str:
        """Raises UpstreamFailure, or NotImplementedHere."""
        if not self._has_detokenizer:
            raise NotImplementedHere(f"the server behind {self._model} turns no token ids into text")
        body = {
            "model": self._upstream_name,
            "tokens": list(token_ids),
            "skip_special_tokens": not show_special,
        }
        return (await fetch(self.client, "/detokenize", body, Detokenized)).prompt

    async def config(self) -> Mapping[str, Any]:
        """The server's tokenizer_config.json. Raises UpstreamFailure, or NotImplementedHere."""
        if not self._has_detokenizer:
            raise NotImplementedHere(f"the server behind {self._model} does not show its tokenizer's config")
        document = await self.client.get_json(self.client.url("/tokenizer_info"))
        return document if isinstance(document, Mapping) else {}

    async def close(self) -> None:
        await self.client.close()


async def encode_one_by_one(tokenizer: UpstreamTokenizer, texts: Sequence[str]) -> list[tuple[int, ...]]:
    """UpstreamTokenizer.encode_texts for a server that takes one text in a request."""
    requests = [GenerationRequest(text, add_special_tokens=False) for text in texts]
    return [
        tuple(token.id for token in (await tokenizer.tokenize(request)).token_spans) for request in requests
    ]


def open_root(model: RemoteModel) -> HttpClient:
    """A client of the model's server, without the /v1 that the routes of tokenizers do not have."""
    root = replace(model.server, url=model.server.url.removesuffix(OPENAI_PREFIX))
    return HttpClient(replace(model, server=root))


async def fetch(client: HttpClient, path: str, body: Mapping[str, Any], answer_type: type[T]) -> T:
    """The answer to a body. Raises UpstreamFailure, also for one of another type."""
    async with client.post(path, msgspec.json.encode(body)) as response:
        document = await client.read_document(response)
    try:
        return msgspec.convert(decode_json(document), ready(answer_type))
    except ValueError:
        raise broken(client.model.name, "no tokens or text") from None


def tokenized(text: str, tokens: Sequence[TokenEntry]) -> Tokenized:
    spans = [TokenSpan(each.id, each.text, each.start, each.stop, name=each.text) for each in tokens]
    return Tokenized(text, tuple(spans))
