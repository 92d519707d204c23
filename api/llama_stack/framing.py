"""How a stream is framed for the client that asked: one JSON value a line, or server-sent events.

The body says that there is a stream. No header tells all readers apart, hence rules, in order.
"""

from werkzeug.datastructures import Headers

from api.clients import is_generated, is_llama_stack
from api.llama_stack.generation import ROOT, Generation
from api.stream import NDJSON, SSE, Framing

LINE_TYPES = ("application/x-ndjson", "application/jsonl")
UNTOLD = {"auto": NDJSON, "ndjson": NDJSON, "sse": SSE}


def framing(headers: Headers, generation: Generation, stream_format: str) -> Framing:
    """`stream_format` (auto, ndjson, sse) decides where a client of the root paths does not."""
    accept = headers.get("Accept", "")
    if any(kind in accept for kind in LINE_TYPES):
        return NDJSON
    if "text/event-stream" in accept or is_llama_stack(headers) or is_generated(headers):
        return SSE  # generated clients decode nothing else, whatever they accept
    return UNTOLD[stream_format] if generation is ROOT else SSE
