"""Calls a server with the installed openai package and prints all results as JSON.

Runs in its own environment: python drive_openai.py URL MODEL. It knows only the client; tests check what it
prints.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from openai import APIError, APIStatusError, OpenAI
from pydantic import BaseModel

QUESTION = "What's the capital of France?"
WEATHER = {
    "name": "get_weather",
    "description": "Get the weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TOOLS = [{"type": "function", "function": WEATHER}]
THINK = {"role": "user", "content": "think"}
WEATHER_MESSAGE = {"role": "user", "content": "What's the weather in Paris?"}


class CapitalFormat(BaseModel):
    capital: str


def main(url: str, model: str) -> None:
    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    user = {"role": "user", "content": QUESTION}

    def chat(user_message: Any = user, **options: Any) -> Any:
        return client.chat.completions.create(
            model=options.pop("model", model), messages=[user_message], temperature=0, **options
        )

    def complete(**options: Any) -> Any:
        return client.completions.create(model=model, prompt=QUESTION, temperature=0, **options)

    def respond(**options: Any) -> Any:
        return client.responses.create(model=model, temperature=0, **{"input": QUESTION, **options})

    def stream_chat(**options: Any) -> Any:
        """A stream as the client itself assembles it."""
        with client.chat.completions.stream(
            model=model, messages=[WEATHER_MESSAGE if "tools" in options else user], temperature=0, **options
        ) as stream:
            kinds = [event.type for event in stream]
            return {"kinds": kinds, "completion": stream.get_final_completion()}

    def stream_response(**options: Any) -> Any:
        with client.responses.stream(model=model, **{"input": QUESTION, **options}) as stream:
            kinds = [event.type for event in stream]
            return {"kinds": kinds, "response": stream.get_final_response()}

    tools = [{"type": "function", **WEATHER}]
    probes: dict[str, Callable[[], Any]] = {
        "chat": chat,
        "chat_stream": lambda: list(chat(stream=True, stream_options={"include_usage": True})),
        "chat_joined": stream_chat,
        "chat_twice": lambda: chat(n=2),
        "chat_twice_joined": lambda: stream_chat(n=2),
        "chat_scored": lambda: chat(logprobs=True, top_logprobs=2, max_tokens=2),
        "chat_scored_stream": lambda: list(chat(logprobs=True, top_logprobs=2, max_tokens=2, stream=True)),
        "chat_tools": lambda: chat(WEATHER_MESSAGE, tools=TOOLS),
        "chat_tools_stream": lambda: list(chat(WEATHER_MESSAGE, tools=TOOLS, stream=True)),
        "chat_tools_joined": lambda: stream_chat(tools=TOOLS),
        "chat_required": lambda: chat(WEATHER_MESSAGE, tools=TOOLS, tool_choice="required"),
        "chat_named": lambda: chat(
            WEATHER_MESSAGE,
            tools=TOOLS,
            tool_choice={"type": "function", "function": {"name": "get_weather"}},
        ),
        "chat_allowed": lambda: chat(
            WEATHER_MESSAGE,
            tools=TOOLS,
            tool_choice={
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "get_weather"}}],
                },
            },
        ),
        "chat_reasoned": lambda: chat(THINK),
        "chat_reasoned_stream": lambda: list(chat(THINK, stream=True)),
        "chat_parsed": lambda: client.chat.completions.parse(
            model=model, messages=[user], temperature=0, response_format=CapitalFormat
        ),
        "chat_object": lambda: chat(response_format={"type": "json_object"}, max_tokens=60),
        "chat_extras": lambda: chat(
            max_tokens=5, extra_body={"top_k": 5, "min_tokens": 2, "repetition_penalty": 1.1}
        ),
        "completion": lambda: complete(max_tokens=30),
        "completion_stream": lambda: list(complete(max_tokens=30, stream=True)),
        "completion_scored": lambda: complete(max_tokens=2, logprobs=2),
        "embeddings": lambda: client.embeddings.create(model=model, input=["Hello", "Hello again"]),
        "embeddings_float": lambda: client.embeddings.create(
            model=model, input=["Hello", "Hello again"], encoding_format="float"
        ),
        "response": respond,
        "response_text": lambda: respond().output_text,
        "response_stream": lambda: list(respond(stream=True)),
        "response_joined": stream_response,
        "response_reasoned": lambda: respond(input="think"),
        "response_reasoned_joined": lambda: stream_response(input="think"),
        "response_tools": lambda: respond(input="What's the weather in Paris?", tools=tools),
        "response_tools_stream": lambda: list(
            respond(input="What's the weather in Paris?", tools=tools, stream=True)
        ),
        "response_namespace_stream": lambda: list(
            respond(
                tools=[{"type": "namespace", "name": "earth", "description": "", "tools": tools}], stream=True
            )
        ),
        "response_custom_stream": lambda: list(
            respond(tools=[{"type": "custom", "name": "pick"}, {"type": "web_search"}], stream=True)
        ),
        "response_parsed": lambda: (
            client.responses.parse(
                model=model, input=QUESTION, temperature=0, text_format=CapitalFormat
            ).output_parsed
        ),
        "models": lambda: list(client.models.list()),
        "model": lambda: client.models.retrieve(model),
        "error_model": lambda: chat(model="nope"),
        "error_model_stream": lambda: chat(model="nope", stream=True),
        "error_value": lambda: chat(top_p=2),
        "error_length": lambda: chat({"role": "user", "content": "hi " * 5000}),
        "error_image": lambda: chat(
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,a"}}],
            }
        ),
        "error_busy": lambda: chat({"role": "user", "content": "busy"}),
        "error_route": lambda: client.moderations.create(input="x"),
        "error_kept": lambda: client.responses.retrieve("resp_1"),
        "broken_stream": lambda: list(chat({"role": "user", "content": "break"}, stream=True)),
        "broken_response": lambda: list(respond(input="break", stream=True)),
    }
    print(json.dumps({name: outcome(probe) for name, probe in probes.items()}))


def outcome(probe: Callable[[], Any]) -> Any:
    try:
        return plain(probe())
    except APIStatusError as error:
        return {"raised": type(error).__name__, "status": error.status_code, "body": error.body}
    except APIError as error:
        return {"raised": type(error).__name__, "message": error.message, "body": error.body}


def plain(value: Any) -> Any:
    """The client's objects as JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", warnings=False)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main(*sys.argv[1:])
