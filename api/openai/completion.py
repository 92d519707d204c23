"""From events to the JSON of a completion, streamed and whole: both fold the same events."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from api.openai.errors import broken, failed
from api.openai.logprobs import Scores, prompt_logprobs
from api.openai.reply import Choice, Reply
from api.openai.shape import Shape
from api.openai.words import reason
from api.said import Said
from inference.types import Event, Finished, PromptToken, Started, Token

KIND = "text_completion"
Prompt = str | Sequence[int]
OPEN = {"finish_reason": None, "stop_reason": None}


@dataclass(frozen=True, slots=True)
class Echo:
    """The request's prompts, where its answers begin with them; `spell` tells the text of ids."""

    prompts: Sequence[Prompt]
    truncated: bool
    spell: Callable[[Sequence[int]], str]

    def text(self, number: int, ids: Sequence[int]) -> str:
        """What the model read of the prompt `number`, whose ids are given."""
        prompt = self.prompts[number]
        return prompt if isinstance(prompt, str) and not self.truncated else self.spell(ids)


class CompletionWriter:
    failed = staticmethod(failed)
    broken = staticmethod(broken)

    def __init__(self, shape: Shape, echo: Echo | None = None) -> None:
        self.shape = shape
        self.echo = echo
        self.reply = Reply(shape, KIND, KIND)
        self.texts: dict[int, Text] = defaultdict(lambda: Text(shape))

    def chunk(self, event: Event) -> list[Any]:
        said = self.reply.add(event)
        shows = self.shape.logprobs is not None or self.shape.token_ids
        match event:
            case Started() if self.echo or self.shape.token_ids:
                return [self.reply.chunk(event.index, self._opening(said))]
            case Token() if (event.text or shows) and not self.reply.is_full(said):
                return [self.reply.chunk(event.index, self._piece(event.index, [event]) | OPEN)]
            case Finished():
                choice = self._piece(event.index, self.reply.last(said), event.text) | reason(event)
                return [self.reply.chunk(event.index, choice), *self.reply.ending()]
            case _:
                return []

    def whole(self) -> dict[str, Any]:
        choices = enumerate(self.reply.best())
        return self.reply.body([{"index": index, **self._choice(said)} for index, said in choices])

    def _opening(self, said: Said) -> Choice:
        """The prompt."""
        scores = self.texts[said.begun.index].scores(said.begun.prompt if self.echo else ())
        choice = {"text": self._echoed(said), "logprobs": scores, **OPEN}
        return choice | {"prompt_token_ids": said.begun.ids} if self.shape.token_ids else choice

    def _piece(self, index: int, tokens: list[Token], rest: str = "") -> Choice:
        text = "".join(token.text for token in tokens) + rest
        choice = {"text": text, "logprobs": self.texts[index].scores(tokens)}
        return choice | {"token_ids": [token.id for token in tokens]} if self.shape.token_ids else choice

    def _choice(self, said: Said) -> Choice:
        echoed = said.begun.prompt if self.echo else ()
        asked = self.shape.prompt_logprobs
        choice = {
            "text": self._echoed(said) + said.text,
            "logprobs": Text(self.shape).scores([*echoed, *said.tokens]),
            **reason(said.ended),
            "prompt_logprobs": None if asked is None else prompt_logprobs(said.begun.prompt, asked),
        }
        if self.shape.token_ids:
            choice |= {"prompt_token_ids": said.begun.ids, "token_ids": said.ids}
        return choice

    def _echoed(self, said: Said) -> str:
        number = said.begun.index // self.shape.answers
        return self.echo.text(number, said.begun.ids) if self.echo else ""


@dataclass(slots=True)
class Text:
    """A choice's text, as far as logprobs have been told of it: `end` is where the next token begins."""

    shape: Shape
    end: int = field(default=0)

    def scores(self, tokens: Sequence[Token | PromptToken]) -> dict[str, Any] | None:
        if self.shape.logprobs is None or not tokens:
            return None
        scores = Scores(self.shape.logprobs, self.shape.as_ids)
        begin = self.end
        self.end += sum(map(len, scores.words(tokens)))
        return scores.completion(tokens, begin)
