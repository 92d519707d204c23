"""A backend over a real engine and seat, for a model too small to make sense."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from inference.constrain import Compiler
from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.local import LocalBackend
from inference.metrics import Metrics
from inference.model.slots.runner import SlotRunner

VOCAB = 261
ENDS = frozenset([2])


@contextmanager
def running(model: Any, words: Any, *, rows: int, context: int, **more: Any) -> Iterator[LocalBackend]:
    """Stopped at the end. `more` goes to the backend."""
    runner = SlotRunner(model, max_rows=rows, context=context, area=rows * context, resumes=True)
    engine = Engine(runner, Sampler(VOCAB), max_batch_tokens=64, max_queued_tokens=10_000)
    engine.start()
    backend = LocalBackend(
        engine,
        words,
        model_id="tiny",
        context=context,
        vocab=VOCAB,
        ends=ENDS,
        metrics=Metrics(),
        compiler=Compiler(words, VOCAB, ENDS),
        **more,
    )
    yield backend
    backend.close()
