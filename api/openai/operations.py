"""What each of this dialect's routes takes and gives, for the API's document."""

from api.models import Card
from api.openai.answers import (
    ChatAnswer,
    CompletionAnswer,
    DetokenizeAnswer,
    EmbeddingAnswer,
    ErrorBody,
    LoadAnswer,
    ModelsAnswer,
    ResponseAnswer,
    TokenizeAnswer,
    Unhealthy,
)
from api.openai.bodies import ChatBody, CompletionBody
from api.openai.embeddings import EmbeddingBody
from api.openai.responses.bodies import ResponsesBody
from api.openai.tokens import DetokenizeBody, TokenizeBody
from api.operation import Operation
from api.stream import SSE

STREAMED = "With `stream`, chunks come as server-sent events; `[DONE]` follows the last."
NAMED = "With `stream`, events come as server-sent events, each named by its type. Nothing is kept."
EVENTS = (SSE.mimetype,)

COMPLETE = Operation("Continue a text", STREAMED, CompletionBody, CompletionAnswer, EVENTS, error=ErrorBody)
CHAT = Operation("Answer in a conversation", STREAMED, ChatBody, ChatAnswer, EVENTS, error=ErrorBody)
RESPOND = Operation("Respond", NAMED, ResponsesBody, ResponseAnswer, EVENTS, error=ErrorBody)
EMBED = Operation("Embed texts", "", EmbeddingBody, EmbeddingAnswer, error=ErrorBody)
TOKENIZE = Operation("Tell a prompt as tokens", "", TokenizeBody, TokenizeAnswer, error=ErrorBody)
DETOKENIZE = Operation("Tell tokens as text", "", DetokenizeBody, DetokenizeAnswer, error=ErrorBody)
INVOKE = Operation(
    "Answer in a conversation, continue a text, or embed texts, as the body says",
    STREAMED,
    ChatBody | CompletionBody | EmbeddingBody,
    ChatAnswer | CompletionAnswer | EmbeddingAnswer,
    EVENTS,
    error=ErrorBody,
)
ABSENT = Operation("Answers 400: the model is of another kind", answer=None, error=ErrorBody)
FORGOTTEN = Operation("Answers 404: no response is kept", answer=None, error=ErrorBody)
MODELS = Operation("List the names of the served model", answer=ModelsAnswer, error=ErrorBody)
MODEL = Operation("Tell of the served model", answer=Card)  # some names are no path: the app says so
PING = Operation("Say whether the server is well", answer=None, error=Unhealthy)
LOAD = Operation("Count the requests that run or wait", answer=LoadAnswer, error=ErrorBody)
