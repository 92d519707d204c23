"""From events to the JSON of a chat completion, streamed and whole: both fold the same events."""

from typing import Any, ClassVar

from api.openai.errors import broken, failed
from api.openai.logprobs import Scores, prompt_logprobs
from api.openai.reply import Choice, Reply
from api.openai.shape import Shape
from api.openai.words import call_id, reason
from api.said import Call, Said
from inference.types import CallDelta, Event, Finished, Started, Token

OPEN = {"logprobs": None, "finish_reason": None}


class ChatWriter:
    """waits  the reason for the end of an answer that holds calls: it waits for their results"""

    waits: ClassVar[str] = "tool_calls"

    failed = staticmethod(failed)
    broken = staticmethod(broken)

    def __init__(self, shape: Shape, echo: str = "", named: bool = False) -> None:
        """echo   what every answer begins with
        named  one tool was demanded by its name: its call is not told as the reason for an answer's end
        """
        self.shape = shape
        self.echo = echo
        self.named = named
        self.reply = Reply(shape, "chat.completion", "chat.completion.chunk")

    # Streamed --------------------------------------------------------------------------------------------

    def chunk(self, event: Event) -> list[Any]:
        goes_on = isinstance(event, CallDelta) and event.number in self.reply.said[event.index].calls
        said = self.reply.add(event)
        shows = self.shape.logprobs is not None or self.shape.token_ids
        match event:
            case Started():
                return self._opening(event)
            case Token() if (event.text or shows) and not self.reply.is_full(said):
                return [self.reply.chunk(event.index, self._piece([event]) | {"finish_reason": None})]
            case CallDelta():
                pieces = [*([] if goes_on else [_named(event)]), *([_more(event)] if event.arguments else [])]
                deltas = map(self._calling, pieces)
                return [self.reply.chunk(event.index, {"delta": delta, **OPEN}) for delta in deltas]
            case Finished():
                choice = self._piece(self.reply.last(said), event.text) | self._reason(said)
                return [self.reply.chunk(event.index, choice), *self.reply.ending()]
            case _:
                return []

    def _opening(self, event: Started) -> list[Any]:
        """The role alone; then what the answer begins with."""
        first = self.reply.chunk(event.index, {"delta": _told(content=""), **OPEN})
        if self.shape.token_ids:
            first["prompt_token_ids"] = event.ids
        if not self.echo:
            return [first]
        return [first, self.reply.chunk(event.index, {"delta": self._delta(content=self.echo), **OPEN})]

    def _piece(self, tokens: list[Token], rest: str = "") -> Choice:
        text = "".join(token.text for token in tokens) + rest
        scores = self._scores(tokens) if tokens else None
        choice = {"delta": self._delta(content=text), "logprobs": scores}
        return choice | {"token_ids": [token.id for token in tokens]} if self.shape.token_ids else choice

    def _calling(self, piece: dict[str, Any]) -> dict[str, Any]:
        """A piece of a call."""
        return self._delta(content=None, tool_calls=[piece])

    def _delta(self, **said: Any) -> dict[str, Any]:
        """OpenAI's own client joins the roles of all deltas, TGI's demands one of each."""
        return _told(**said) if self.shape.roles else said

    # Whole -----------------------------------------------------------------------------------------------

    def whole(self) -> dict[str, Any]:
        begun, asked = self.reply.said[0].begun, self.shape.prompt_logprobs
        choices = enumerate(self.reply.best())
        told = self.reply.body([{"index": index, **self._choice(said)} for index, said in choices])
        told["prompt_logprobs"] = None if asked is None else prompt_logprobs(begun.prompt, asked)
        return told | {"prompt_token_ids": begun.ids} if self.shape.token_ids else told

    def _choice(self, said: Said) -> Choice:
        text = self.echo + said.text
        message = {
            "role": "assistant",
            "content": None if said.calls and not text and not self.named else text,
            **self._calls(said),
        }
        choice = {"message": message, "logprobs": self._scores(said.tokens), **self._reason(said)}
        return choice | {"token_ids": said.ids} if self.shape.token_ids else choice

    def _calls(self, said: Said) -> dict[str, Any]:
        return {"tool_calls": [whole(call) for call in said.calls.values()]}

    # Either way ------------------------------------------------------------------------------------------

    def _scores(self, tokens: list[Token]) -> dict[str, Any] | None:
        most = self.shape.logprobs
        return None if most is None else Scores(most, self.shape.as_ids).chat(tokens)

    def _reason(self, said: Said) -> dict[str, Any]:
        """An answer that came to its own end and holds calls waits for their results."""
        why = reason(said.ended)
        waits = said.calls and not self.named and why["finish_reason"] == "stop"
        return why | {"finish_reason": self.waits} if waits else why


def _told(**said: Any) -> dict[str, Any]:
    """A delta with all that any client demands of one."""
    return {"role": "assistant", "content": None, "tool_calls": None} | said


def _named(event: CallDelta) -> dict[str, Any]:
    """A call begins."""
    return {"index": event.number, **whole(Call(event.id, event.name))}


def _more(event: CallDelta) -> dict[str, Any]:
    """It goes on. Clients join what the pieces say, so neither id nor name is said again."""
    return {"index": event.number, "function": {"arguments": event.arguments}}


def whole(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call_id(call), "type": "function", "function": function}
