"""Asks a model and an adapter with the installed client, and prints the answers as JSON.

Runs in its own environment: python drive_adapters.py CLIENT URL MODEL ADAPTER PROMPT. It knows only the
clients; tests check what it prints.
"""

import json
import sys
from collections.abc import Callable
from inspect import signature
from typing import Any

TOKENS = 8


def openai(url: str, model: str, adapter: str, prompt: str) -> dict[str, Any]:
    from openai import APIStatusError, OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def complete(name: str) -> str:
        reply = client.completions.create(model=name, prompt=prompt, max_tokens=TOKENS, temperature=0)
        assert reply.model == name
        return reply.choices[0].text

    def refused(call: Callable[[], Any]) -> Any:
        try:
            call()
        except APIStatusError as error:
            return [error.status_code, error.body]
        return None

    return {
        "model": complete(model),
        "adapter": complete(adapter),
        "unknown": refused(lambda: complete("none")),
        "names": [card.id for card in client.models.list()],
        "card": client.models.retrieve(adapter).model_dump(),
        "keeps_model": refused(lambda: client.models.delete(model)),
        "deleted": client.models.delete(adapter).model_dump(),
        "names_after": [card.id for card in client.models.list()],
    }


def llama_stack(url: str, model: str, adapter: str, prompt: str) -> dict[str, Any]:
    from llama_stack_client import APIStatusError, LlamaStackClient

    client = LlamaStackClient(base_url=url, max_retries=0)
    key = "model_id" if "model_id" in signature(client.inference.completion).parameters else "model"
    greedy = {"strategy": {"type": "greedy"}} if key == "model_id" else {"strategy": "greedy"}
    sampling = {**greedy, "max_tokens": TOKENS}

    def complete(name: str) -> Any:
        return client.inference.completion(**{key: name}, content=prompt, sampling_params=sampling).content

    try:
        unknown: Any = complete("none")
    except APIStatusError as error:
        unknown = [error.status_code]
    cards = [card.to_dict() if hasattr(card, "to_dict") else dict(card) for card in client.models.list()]
    return {
        "model": complete(model),
        "adapter": complete(adapter),
        "unknown": unknown,
        "parents": {card["identifier"]: card["metadata"].get("parent") for card in cards},
    }


def huggingface_hub(url: str, model: str, adapter: str, prompt: str) -> dict[str, Any]:
    from huggingface_hub import InferenceClient
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.inference._common import TextGenerationError

    client = InferenceClient(model=url, timeout=60)

    def complete(name: Any, **options: Any) -> Any:
        return client.text_generation(
            prompt, adapter_id=name, max_new_tokens=TOKENS, return_full_text=False, **options
        )

    try:
        unknown: Any = complete("none")
    except (TextGenerationError, HfHubHTTPError) as error:
        unknown = [type(error).__name__, str(error)]
    return {
        "model": complete(None),
        "adapter": complete(adapter),
        "adapter_stream": "".join(complete(adapter, stream=True)),
        "unknown": unknown,
    }


if __name__ == "__main__":
    client, *arguments = sys.argv[1:]
    probes = {"openai": openai, "llama_stack": llama_stack, "huggingface_hub": huggingface_hub}
    print(json.dumps(probes[client](*arguments)))
