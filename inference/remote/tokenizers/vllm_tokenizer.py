"""The tokenizer of a vLLM, through its routes, which tell the ids and names of tokens but not their places.

A token's place in the text is found by its name. On the event loop.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from inference.errors import NotImplementedHere
from inference.remote.failures import UpstreamFailure, broken
from inference.remote.tokenizers.remote_tokenizer import Detokenized, encode_one_by_one, fetch, open_root
from inference.remote.upstreams.flavours import FLAVOURS
from inference.remote.upstreams.openai import is_conversation
from inference.remote.upstreams.openai_body import chat_body
from inference.text.byte_alphabet import bytes_of
from inference.tokenized import Tokenized, TokenSpan
from inference.types import GenerationRequest
from settings.remote_model import RemoteModel

SPACE = "▁"  # of SentencePiece
CONTINUATION_MASK, CONTINUATION = 0xC0, 0x80  # of a byte of UTF-8 that begins no character
BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")  # of SentencePiece, for a byte of a character that has no token


class TokenIds(msgspec.Struct):
    """vLLM's answer to /tokenize. token_strs: since 0.10; None: an older one sends no names"""

    tokens: list[int]
    token_strs: list[str] | None = None


class VllmTokenizer:
    """An UpstreamTokenizer of one model at one vLLM. upstream_name: the model's name there"""

    def __init__(self, model: RemoteModel, upstream_name: str) -> None:
        self.client = open_root(model)
        self._model = model.name
        self._upstream_name = upstream_name

    async def tokenize(self, request: GenerationRequest) -> Tokenized:
        """The prompt as the server reads it. Raises UpstreamFailure, or NotImplementedHere for token ids."""
        if is_conversation(request.prompt):
            received = await self._tokens(chat_body(request, self._upstream_name, FLAVOURS["vllm"]))
            text = await self.detokenize(received.tokens, show_special=True)
        elif isinstance(request.prompt, str):
            body: dict[str, Any] = {"model": self._upstream_name, "prompt": request.prompt}
            if request.add_special_tokens is not None:
                body["add_special_tokens"] = request.add_special_tokens
            received, text = await self._tokens(body), request.prompt
        else:
            raise NotImplementedHere(f"the server behind {self._model} tokenizes text only")
        names = received.token_strs or [""] * len(received.tokens)
        return Tokenized(text, tuple(locate_names(text, received.tokens, names)))

    async def encode_texts(self, texts: Sequence[str]) -> Sequence[tuple[int, ...]]:
        return await encode_one_by_one(self, texts)

    async def detokenize(self, token_ids: Sequence[int], show_special: bool) -> str:
        """Raises UpstreamFailure, or NotImplementedHere: vLLM does not leave out special tokens."""
        if not show_special:
            fix = "set tokenizer_base_model"
            raise NotImplementedHere(f"the server behind {self._model} always shows special tokens: {fix}")
        body = {"model": self._upstream_name, "tokens": list(token_ids)}
        return (await fetch(self.client, "/detokenize", body, Detokenized)).prompt

    async def config(self) -> Mapping[str, Any]:
        raise NotImplementedHere(f"the server behind {self._model} does not show its tokenizer's config")

    async def close(self) -> None:
        await self.client.close()

    async def _tokens(self, body: Mapping[str, Any]) -> TokenIds:
        """Raises NotImplementedHere for a server without the route."""
        try:
            received = await fetch(self.client, "/tokenize", {**body, "return_token_strs": True}, TokenIds)
        except UpstreamFailure as failure:
            if failure.outcome == "refused":
                raise NotImplementedHere(
                    f"the server behind {self._model} does not share its tokenizer"
                ) from None
            raise
        if received.token_strs is not None and len(received.token_strs) != len(received.tokens):
            raise broken(self._model, "no tokens or text")
        return received


def locate_names(text: str, ids: Sequence[int], names: Sequence[str]) -> Iterator[TokenSpan]:
    """The tokens with their characters in the text. A part of a character has the whole character.

    A token whose name is not in the text has none.
    """
    data, end = text.encode(), 0
    # For each place in the data: the characters that begin before it.
    num_characters = [0, *accumulate(byte & CONTINUATION_MASK != CONTINUATION for byte in data)]
    for id, name in zip(ids, names, strict=True):
        start = end
        end = next((start + len(each) for each in spellings(name) if data.startswith(each, start)), start)
        if start == end == 0 and name.startswith(SPACE):  # SentencePiece begins texts with a space
            end = next((len(each) for each in spellings(name[1:]) if data.startswith(each)), 0)
        first = num_characters[start + 1] - 1 if start < end else num_characters[start]
        yield TokenSpan(id, text[first : num_characters[end]] or name, first, num_characters[end], name)


def spellings(name: str) -> Sequence[bytes]:
    """What a token of this name may stand for: in SentencePiece, and in a byte-level tokenizer."""
    if match := BYTE_TOKEN.fullmatch(name):
        return [bytes.fromhex(match[1]), name.encode()]
    return [name.replace(SPACE, " ").encode(), bytes_of(name)]
