"""A model folder becomes a Backend: load it, prove how it runs, start an engine. One door: open_backend.

Knows every floor below the API, and of each only its door.
"""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from inference.backend import Backend
from inference.constrain import Compiler
from inference.engine.admission import Admission
from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.errors import Internal
from inference.local import LocalBackend
from inference.metrics import Metrics
from inference.model import fit, load
from inference.model.contrast import repeats
from inference.model.ranks.follower import Recipe
from inference.model.ranks.together import gathered
from inference.model.scaling import PLAIN, Scaling

log = logging.getLogger(__name__)


def nothing() -> None:
    """What there is to prepare, by default."""


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
    max_area: int | None = None,
    max_prompt: int | None = None,
    admission: Admission | None = None,
    reuse: bool = True,
    drafts: int = 0,
    scaling: Scaling = PLAIN,
    tokenizer_config: Path | None = None,
    tool_format: str = "auto",
    ranks: int = 1,
    prepare: Callable[[], None] = nothing,
) -> Backend:
    """Load the model in `folder`, prove how it can be run, and start an engine for it.

    context, max_prompt, kv_bytes and max_area are upper bounds: tokens of a sequence, tokens of its prompt,
    bytes and tokens for all of them together; `drafts` is of tokens guessed ahead of each. `reuse`: what
    prompts have in common is computed once. `scaling` stretches the model's positions, `tokenizer_config`
    replaces its chat template and special tokens; `tool_format` is how it writes calls of tools, "auto" or
    one of inference.text.calls.CALL_FORMATS. The engine's state and the answers' times go to `metrics`.
    `ranks`: processes that share the model, this one among them; each calls `prepare` before it loads its
    part, and has kv_bytes.
    Raises ServerError where the model cannot be loaded or does not fit.
    """
    loading = partial(
        load.load,
        folder,
        dtype=dtype,
        device=device,
        trust_remote_code=trust_remote_code,
        scaling=scaling,
        tokenizer_config=tokenizer_config,
    )
    fitting = partial(fit.choose, max_rows=max_rows, context=context, kv_bytes=kv_bytes, max_area=max_area)
    crew = gathered(Recipe(ranks, device, prepare, loading, fitting))
    loaded, fitted = crew.start()
    engine = Engine(
        crew.runner(fitted.runner),
        Sampler(loaded.vocab),
        max_batch_tokens=max_batch_tokens,
        max_queued_tokens=max_queued_tokens,
        admission=admission,
        reuse=reuse,
        drafts=drafts,
    )
    metrics.watch(engine.stats, model=model_id, context=fitted.runner.context)
    engine.watch_with(metrics.stepped)
    engine.start()
    crew.watch_with(lambda why: engine.fail(Internal(why)))
    return LocalBackend(
        engine,
        loaded.tokenizer,
        model_id=model_id,
        context=fitted.runner.context,
        vocab=loaded.vocab,
        ends=loaded.ends,
        compiler=Compiler(loaded.tokenizer, loaded.vocab, loaded.ends),
        metrics=metrics,
        max_prompt=max_prompt,
        tool_format=tool_format,
        details={"dtype": loaded.dtype, "device": loaded.device},
        encodes=loaded.encodes,
        embed=partial(crew.embed, loaded.model),
        seek=partial(crew.search, loaded.model) if fitted.seat == "slots" and repeats(loaded.model) else None,
        over=crew.close,
    )
