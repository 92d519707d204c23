"""What one answer has come to, folded from its events; the same for every dialect, streamed and whole."""

from dataclasses import dataclass, field

from inference.types import CallDelta, Event, Finished, Started, Token


@dataclass(slots=True)
class Call:
    """A tool call as far as it has come; one that is done is whole."""

    id: str
    name: str
    arguments: str = ""
    done: bool = False


@dataclass(slots=True)
class Said:
    """calls: by their numbers, the last perhaps cut short."""

    started: Started | None = None
    tokens: list[Token] = field(default_factory=list)
    calls: dict[int, Call] = field(default_factory=dict)
    end: Finished | None = None

    def add(self, event: Event) -> None:
        match event:
            case Started():
                self.started = event
            case Token():
                self.tokens.append(event)
            case CallDelta():
                call = self.calls.setdefault(event.number, Call(event.id, event.name))
                call.arguments += event.arguments
                call.done = event.done
            case Finished():
                self.end = event

    @property
    def begun(self) -> Started:
        """Of an answer that ended before its turn came, at a deadline for instance: nothing of its prompt."""
        return self.started or Started(self.ended.index, 0, 0)

    @property
    def ended(self) -> Finished:
        assert self.end, "an answer is whole when it has ended"
        return self.end

    @property
    def text(self) -> str:
        """Its tokens', and what was held back to the end."""
        return "".join((*(token.text for token in self.tokens), self.end.text if self.end else ""))

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]
