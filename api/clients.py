"""Which client asks, where its habits matter and nothing in the request's body tells.

Knows what clients say of themselves in their headers; what follows from it is the dialects'.
"""

from werkzeug.datastructures import Headers

LLAMA_STACK = ("LlamaStackClient", "OgxClient")


def is_llama_stack(headers: Headers) -> bool:
    """One of Llama Stack's own clients: they read server-sent events, each as JSON, the last one too."""
    agent = headers.get("User-Agent", "")
    return any(name in agent for name in LLAMA_STACK)


def is_generated(headers: Headers) -> bool:
    """A client that Stainless generated, in any language: OpenAI's and Llama Stack's."""
    return any(name.lower().startswith("x-stainless-") for name, _ in headers)
