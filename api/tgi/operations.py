"""TGI's routes as the API's document tells them."""

from api.openai.bodies import ChatBody
from api.operation import Operation
from api.stream import SSE
from api.tgi.bodies import CompatibleBody, GenerateBody, TokenizeBody, VertexBody
from api.tgi.shapes import ChatTokens, Failure, Generation, Info, Predictions, SimpleToken

EVENTS = (SSE.mimetype,)
IN_BAND = """Each event is a token; the last has the text, and the details if they were asked for.
Errors are events as well, with `error` and `error_type`, and the status 200."""

GENERATE = Operation("Continue a text", "", GenerateBody, Generation, error=Failure)
GENERATE_STREAM = Operation(
    "Continue a text, token by token", IN_BAND, GenerateBody, None, EVENTS, error=Failure
)
COMPATIBLE = Operation(
    "Continue a text, whole or streamed",
    f"The answer begins with the prompt, unless return_full_text is false. With `stream`: {IN_BAND}",
    CompatibleBody,
    list[Generation],
    EVENTS,
    error=Failure,
)
VERTEX = Operation("Continue several texts or conversations", "", VertexBody, Predictions, error=Failure)
TOKENIZE = Operation("The tokens of a text", "", TokenizeBody, list[SimpleToken], error=Failure)
CHAT_TOKENIZE = Operation(
    "A conversation as the model reads it, and its tokens", "", ChatBody, ChatTokens, error=Failure
)
INFO = Operation("The model that is served, and the limits of requests", answer=Info, error=Failure)
