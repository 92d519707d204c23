"""Calls a server with the installed langchain-openai and prints all results as JSON.

Runs in its own environment: python drive_langchain.py URL MODEL. It knows only the client; tests check what
it prints.
"""

import json
import sys
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from openai import APIStatusError
from pydantic import BaseModel, Field

QUESTION = "What's the capital of France?"
WEATHER = "What's the weather in Paris?"


class CapitalAnswer(BaseModel):
    """The capital of a country."""

    capital: str


class get_weather(BaseModel):
    """Get the weather in a city"""

    city: str = Field(description="The city")


def main(url: str, model: str) -> None:
    options: dict[str, Any] = {"base_url": url, "api_key": "none", "model": model, "max_retries": 0}
    chat = ChatOpenAI(**options, temperature=0)
    armed = chat.bind_tools([get_weather])
    call = {"name": "get_weather", "args": {"city": "Paris"}, "id": "call_1"}
    history = [
        HumanMessage(WEATHER),
        AIMessage("", tool_calls=[call]),
        ToolMessage("sunny", tool_call_id="call_1"),
    ]
    probes: dict[str, Callable[[], Any]] = {
        "chat": lambda: message(chat.invoke([SystemMessage("Be brief."), HumanMessage(QUESTION)])),
        "chat_stream": lambda: message(reduce(add, chat.stream(QUESTION))),
        "chat_pieces": lambda: len(list(chat.stream(QUESTION))),
        "chat_usage": lambda: reduce(add, chat.stream(QUESTION, stream_usage=True)).usage_metadata,
        "chat_scored": lambda: chat.bind(logprobs=True).invoke(QUESTION).response_metadata["logprobs"],
        "chat_tools": lambda: message(armed.invoke(WEATHER)),
        "chat_tools_stream": lambda: message(reduce(add, armed.stream(WEATHER))),
        "chat_result": lambda: message(armed.invoke(history)),
        "chat_shaped": lambda: chat.with_structured_output(CapitalAnswer, method="json_schema").invoke(
            QUESTION
        ),
        "chat_called": lambda: chat.with_structured_output(get_weather, method="function_calling").invoke(
            WEATHER
        ),
        "responses": lambda: (
            ChatOpenAI(**options, temperature=0, use_responses_api=True).invoke(QUESTION).text
        ),
        "completion": lambda: OpenAI(**options, temperature=0, max_tokens=30).invoke(QUESTION),
        "completion_stream": lambda: "".join(
            OpenAI(**options, temperature=0, max_tokens=30).stream(QUESTION)
        ),
        "embeddings": lambda: [len(v) for v in embedder(options).embed_documents(["Hello", "Hi"])],
        "error_model": lambda: ChatOpenAI(**{**options, "model": "nope"}).invoke(QUESTION),
        "error_busy": lambda: chat.invoke("busy"),
    }
    print(json.dumps({name: outcome(probe) for name, probe in probes.items()}))


def embedder(options: dict[str, Any]) -> OpenAIEmbeddings:
    return OpenAIEmbeddings(**options, check_embedding_ctx_length=False)


def message(reply: Any) -> Any:
    return {
        "text": reply.content,
        "calls": reply.tool_calls,
        "ended": reply.response_metadata.get("finish_reason"),
    }


def outcome(probe: Callable[[], Any]) -> Any:
    try:
        got = probe()
    except APIStatusError as error:
        return {"raised": type(error).__name__, "status": error.status_code, "body": error.body}
    return got.model_dump() if isinstance(got, BaseModel) else got


if __name__ == "__main__":
    main(*sys.argv[1:])
