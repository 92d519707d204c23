"""Chunks of OpenAI's streams, as servers send them."""

from typing import Any

from tests.remote.fake_upstream import Reply, event

DONE = event(b"[DONE]")


def chat_chunk(delta: dict[str, Any], index: int = 0, reason: str | None = None, **fields: Any) -> bytes:
    return event(
        {"id": "x", "choices": [{"index": index, "delta": delta, "finish_reason": reason, **fields}]}
    )


def text_chunk(text: str, index: int = 0, reason: str | None = None, **fields: Any) -> bytes:
    return event({"id": "x", "choices": [{"index": index, "text": text, "finish_reason": reason, **fields}]})


def usage_chunk(prompt: int, completion: int, cached: int = 0) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    return event({"choices": [], "usage": usage | {"prompt_tokens_details": {"cached_tokens": cached}}})


def say(*texts: str) -> list[bytes]:
    """An answer of these texts, one a chunk, with its end."""
    return [
        chat_chunk({"role": "assistant", "content": ""}),
        *(chat_chunk({"content": text}) for text in texts),
        chat_chunk({}, reason="stop"),
    ]


def whole_answer(*texts: str) -> Reply:
    return Reply([*say(*texts), usage_chunk(5, len(texts)), DONE])
