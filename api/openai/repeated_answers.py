"""Several equal answers to one prompt, of which one is generated: greedy answers do not differ."""

from dataclasses import dataclass, replace
from typing import Any

from api.response import Writer
from inference.errors import ServerError
from inference.events import Event


@dataclass(frozen=True, slots=True)
class RepeatedAnswers:
    """A Writer that gives each event to `writer` as an event of `times` answers."""

    writer: Writer
    times: int

    def chunk(self, event: Event) -> list[Any]:
        first = event.index * self.times
        return [
            value
            for index in range(first, first + self.times)
            for value in self.writer.chunk(replace(event, index=index))
        ]

    def full_response(self) -> Any:
        return self.writer.full_response()

    def error_before_start(self, error: ServerError) -> tuple[int, Any]:
        return self.writer.error_before_start(error)

    def error_in_stream(self, error: ServerError) -> list[Any]:
        return self.writer.error_in_stream(error)
