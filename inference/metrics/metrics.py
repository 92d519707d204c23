"""One registry for all names: told of what happens by whoever sees it, asks for the state when read."""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest

from inference.metrics.hearth import Hearth
from inference.metrics.span import Asked, Listener, Span
from inference.metrics.state import Stats, Step
from inference.metrics.tgi import Tgi
from inference.metrics.vllm import Vllm

disable_created_metrics()  # when a figure began is nobody's question, and doubles the text


class Metrics:
    """Safe to tell from any thread. The others' names are there once an engine is watched."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self.clock = clock
        self._hearth = Hearth(self.registry)
        self._vllm: Vllm | None = None
        self._tgi: Tgi | None = None

    def watch(self, stats: Callable[[], Stats], *, model: str, context: int) -> None:
        """Ask `stats` for an engine's state whenever the figures are read; `context` counts tokens."""
        self._hearth.watch(stats)
        self._vllm = Vllm(self.registry, stats, model=model, context=context)
        self._tgi = Tgi(self.registry, stats, context=context)

    def answered(self, dialect: str, route: str, status: int) -> None:
        """A request got its response; `route` is the rule, not the path, so that the series stay few."""
        self._hearth.answered(dialect, route, status)
        if self._tgi:
            self._tgi.answered(dialect, route, status)

    def submitted(
        self, prompt_tokens: int = 0, *, max_tokens: int = 0, answers: int = 1, prepared_s: float = 0.0
    ) -> list["Span"]:
        """So many answers to one prompt are wanted: tell the span of each how it goes on.

        prepared_s: how long it took to check and tokenise the request.
        """
        listeners: list[Listener] = [each for each in (self._hearth, self._vllm, self._tgi) if each]
        asked = Asked(prompt_tokens, max_tokens, answers, prepared_s, self.clock())
        return [Span(asked, listeners, self.clock) for _ in range(answers)]

    def stepped(self, step: Step) -> None:
        """The engine has taken a step."""
        if self._vllm:
            self._vllm.stepped(step)
        if self._tgi:
            self._tgi.stepped(step)

    def remembered(self, term: str, predicted: int, actual: int) -> None:
        """Of some memory, in bytes: what was expected, and what came."""
        self._hearth.remembered(term, predicted, actual)

    def render(self) -> bytes:
        """The text format of Prometheus, version 0.0.4."""
        return generate_latest(self.registry) + (self._tgi.text() if self._tgi else b"")
