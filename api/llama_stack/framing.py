"""How a stream is framed for the client that asked: one JSON value a line, or server-sent events.

The body says that there is a stream. No header tells all readers apart, hence rules, in order.
"""

from werkzeug.datastructures import Headers

from api.llama_stack.generation import ROOT, Generation
from api.stream import NDJSON, SSE, Framing

LINE_TYPES = ("application/x-ndjson", "application/jsonl")
EVENT_READERS = ("LlamaStackClient", "OgxClient")
UNTOLD = {"auto": NDJSON, "ndjson": NDJSON, "sse": SSE}


def framing(headers: Headers, generation: Generation, stream_format: str) -> Framing:
    """`stream_format` (auto, ndjson, sse) decides where a client of the root paths does not."""
    accept = headers.get("Accept", "")
    if any(kind in accept for kind in LINE_TYPES):
        return NDJSON
    if "text/event-stream" in accept or _reads_events(headers):
        return SSE
    return UNTOLD[stream_format] if generation is ROOT else SSE


def _reads_events(headers: Headers) -> bool:
    """Whether it is a client known to decode nothing but server-sent events, whatever its Accept."""
    agent = headers.get("User-Agent", "")
    named = any(reader in agent for reader in EVENT_READERS)
    return named or any(name.lower().startswith("x-stainless-") for name, _ in headers)
