"""POST /embed, the route of Text Embeddings Inference: where Hugging Face's clients extract features."""

from flask import Response

from api.embeddings import EmbeddingsWriter, check_size, make_vector
from api.hooks.concurrency_limit import acquire_permit
from api.openai.requests.parse import MAX_PROMPTS
from api.openapi.operation import Operation
from api.response import respond
from api.tgi.errors import InvalidInput, error_before_start
from api.tgi.info_routes import max_input_tokens
from api.tgi.parse import read_request
from api.tgi.protocol import EmbedRequest, TgiErrorResponse
from inference.backend import Backend
from inference.events import Embedding
from inference.types import GenerationRequest
from settings.groups import ServerSettings

EMBED = Operation(
    "Embed texts, one vector for each",
    "",
    EmbedRequest,
    list[tuple[float, ...]],
    error=TgiErrorResponse,
    takes_permit=True,
)


def embed(backend: Backend, settings: ServerSettings) -> Response:
    body = read_request(EmbedRequest)
    info = backend.info()
    if body.prompt_name is not None:
        raise InvalidInput("`prompt_name` must be null: write the prompt in front of `inputs`")
    check_size(body.dimensions, "dimensions", info)
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    if not all(texts) or not texts:
        raise InvalidInput("`inputs` cannot be empty")
    if len(texts) > MAX_PROMPTS:
        raise InvalidInput(f"`inputs` may hold at most {MAX_PROMPTS} texts. Given: {len(texts)}")

    def render_item(index: int, embedding: Embedding) -> tuple[float, ...]:
        return make_vector(embedding, body.dimensions, body.normalize is not False)

    limit = max_input_tokens(info, settings) if body.truncate else None
    inputs = texts if limit is None else [truncated(each, limit, body, backend) for each in texts]
    acquire_permit()
    writer = EmbeddingsWriter(render_item, lambda items, num_tokens: items, error_before_start)
    return respond(backend.embed(inputs), writer, None, len(inputs))


def truncated(text: str, limit: int, body: EmbedRequest, backend: Backend) -> list[int]:
    """The first or last `limit` token ids of the text."""
    token_ids = [token.id for token in backend.tokenize(GenerationRequest(text)).token_spans]
    if (body.truncation_direction or "right").lower() == "left":
        return token_ids[-limit:]
    return token_ids[:limit]
