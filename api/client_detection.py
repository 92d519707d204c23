"""Detects clients that need another response format, by their request headers.

The dialects decide what to do for a detected client.
"""

from werkzeug.datastructures import Headers


def is_llama_stack(headers: Headers) -> bool:
    """Whether the client is Llama Stack's or OGX's, which parse every server-sent event as JSON."""
    agent = headers.get("User-Agent", "")
    return "LlamaStackClient" in agent or "OgxClient" in agent


def is_text_generation(headers: Headers, model: str | None) -> bool:
    """Whether the client is TGI's own, the Python package text-generation.

    It is known by its HTTP library and by the name that it gives every model.
    """
    agent = headers.get("User-Agent", "")
    return model == "tgi" and (agent.startswith("python-requests/") or " aiohttp/" in agent)


def is_generated(headers: Headers) -> bool:
    """Whether Stainless generated the client, as it does for OpenAI and Llama Stack in several languages."""
    return any(name.lower().startswith("x-stainless-") for name, _ in headers)
