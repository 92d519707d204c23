"""A model folder becomes a Backend: load it, prove how it runs, start an engine. One door: open_backend.

Knows every floor below the API, and of each only its door.
"""

import logging
from pathlib import Path

from inference.backend import Backend
from inference.constrain import Compiler
from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.local import LocalBackend
from inference.metrics import Metrics
from inference.model import fit, load

log = logging.getLogger(__name__)


def open_backend(
    folder: Path,
    *,
    model_id: str,
    dtype: str,
    device: str,
    context: int,
    max_rows: int,
    kv_bytes: int,
    max_batch_tokens: int,
    max_queued_tokens: int,
    trust_remote_code: bool,
    metrics: Metrics,
) -> Backend:
    """Load the model in `folder`, prove how it can be run, and start an engine for it.

    context and kv_bytes are upper bounds, in tokens of a sequence and in bytes for all of them together. The
    engine's state and the answers' times go to `metrics`. Raises ServerError where the model cannot be loaded
    or does not fit.
    """
    loaded = load.load(folder, dtype=dtype, device=device, trust_remote_code=trust_remote_code)
    fitted = fit.choose(loaded.model, max_rows=max_rows, context=context, kv_bytes=kv_bytes)
    engine = Engine(
        fitted.runner,
        Sampler(loaded.vocab),
        max_batch_tokens=max_batch_tokens,
        max_queued_tokens=max_queued_tokens,
    )
    metrics.watch(engine.stats)
    engine.start()
    return LocalBackend(
        engine,
        loaded.tokenizer,
        model_id=model_id,
        context=fitted.runner.context,
        vocab=loaded.vocab,
        ends=loaded.ends,
        compiler=Compiler(loaded.tokenizer, loaded.vocab, loaded.ends),
        metrics=metrics,
        encodes=loaded.encodes,
    )
