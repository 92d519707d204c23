"""A backend over a real engine and runner, for a tiny random model."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.local import BackendModel, LocalBackend
from inference.model.contiguous.runner import ContiguousRunner
from inference.structured_output import GrammarCompiler
from settings.groups import BackendSettings
from tests.local.fake_engine import model_metrics

VOCAB = 261
ENDS = frozenset([2])


@contextmanager
def running(
    model: Any, words: Any, *, rows: int, context: int, details: Mapping[str, str] | None = None
) -> Iterator[LocalBackend]:
    """Yields the backend and closes it at the end."""
    runner = ContiguousRunner(
        model, max_sequences=rows, context=context, kv_capacity=rows * context, chunked_prefill=True
    )
    engine = Engine(runner, Sampler(VOCAB), EngineOptions(max_batch_tokens=64, max_queued_tokens=10_000))
    engine.start()
    backend = LocalBackend(
        engine,
        BackendModel(
            id="tiny",
            tokenizer=words,
            context=context,
            vocab=VOCAB,
            eos_token_ids=ENDS,
            details=details or {},
        ),
        BackendSettings(),
        metrics=model_metrics(),
        compiler=GrammarCompiler(words, VOCAB, ENDS),
    )
    yield backend
    backend.close()
