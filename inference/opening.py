"""A model folder becomes a Backend: load it, prove how it runs, make an engine; then serve with it.

Knows every floor below the API, and of each only its door.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from inference.backend import Backend
from inference.constrain import Compiler
from inference.engine.admission import Admission
from inference.engine.engine import Engine
from inference.engine.errand import Errand
from inference.engine.lone import LoneSampler
from inference.engine.pieces import PIECE
from inference.engine.sampler import Sampler
from inference.engine.worker import Worker
from inference.errors import Internal
from inference.heap import give_back
from inference.local import LocalBackend
from inference.metrics import Metrics
from inference.model import fit, load
from inference.model.contrast import repeats
from inference.model.formats import home
from inference.model.held import Held
from inference.model.ranks.follower import Recipe
from inference.model.ranks.together import Alone, Together, gathered
from inference.model.scaling import PLAIN, Scaling
from inference.model.seats import STEADY


def nothing() -> None:
    """What there is to prepare, by default."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A model that is loaded and proved, and an engine for it that is not started yet.

    folder  where its files are
    crew    the processes that share the model; whoever does not serve it closes them
    worker  the thread on which it was loaded, and must compute
    steady  no answer depends on what is computed beside it, to the last bit
    """

    loaded: load.Loaded
    fitted: fit.Fitted
    engine: Engine
    crew: Alone | Together
    worker: Worker
    folder: Path
    steady: bool = False

    def held(self, gpus: Sequence[int], afresh: bool = False) -> list[Held]:
        """What each process that has a part of the model holds of memory, this one first, as in held.held.

        Waits for the thread that computes; of an engine that is not started, what it was asked is done first.
        Raises ServerError once the engine takes no more.
        """
        work = self.crew.held(self.loaded.model, self.fitted.runner, gpus, afresh)
        found = self.engine.run(Errand(work))
        if not self.engine.started:
            self.worker.do(self.engine.finish)
        return found.result()


def open_engine(
    folder: Path,
    *,
    dtype: str,
    device: str,
    context: int,
    max_rows: int,
    kv_bytes: int,
    max_batch_tokens: int,
    max_queued_tokens: int,
    trust_remote_code: bool,
    layers: Sequence[str] = (),
    quantise: str = "none",
    max_area: int | None = None,
    admission: Admission | None = None,
    reuse: bool = True,
    drafts: int = 0,
    seat: str = "auto",
    deterministic: bool = False,
    scaling: Scaling = PLAIN,
    tokenizer_config: Path | None = None,
    ranks: int = 1,
    allow_pickle: bool = False,
    prepare: Callable[[], None] = nothing,
) -> Opened:
    """Load the model in `folder`, or the GGUF file of that path, prove how it can be run, and make an engine.

    `layers`: the device of each layer, where they are not all on `device`. context, kv_bytes and max_area are
    upper bounds: tokens of a sequence, bytes and tokens for all of them together; `drafts` is of tokens
    guessed ahead of each. `reuse`: what prompts have in common is computed once. `seat`: one of fit.KINDS, or
    "auto" for the fastest. `deterministic`: no answer depends on what is computed beside it, and nothing is
    guessed ahead. `scaling` stretches the model's positions, `tokenizer_config` replaces its chat template
    and special tokens, `allow_pickle` lets weights be read that can run code. `ranks`: processes that share
    the model, this one among them; each calls `prepare` before it loads its part, and has kv_bytes.
    Raises ServerError where the model cannot be loaded or does not fit.
    """
    loading = partial(
        load.load,
        folder,
        dtype=dtype,
        device=device,
        layers=layers,
        trust_remote_code=trust_remote_code,
        scaling=scaling,
        tokenizer_config=tokenizer_config,
        allow_pickle=allow_pickle,
    )
    fitting = partial(
        fit.choose,
        max_rows=max_rows,
        context=context,
        kv_bytes=kv_bytes,
        max_area=max_area,
        quantise=quantise,
        alone=deterministic,
        kinds=fit.KINDS if seat == "auto" else (seat,),
        timed=ranks == 1,
    )
    crew = gathered(Recipe(ranks, device, prepare, loading, fitting))
    worker = Worker("engine")
    loaded, fitted = worker.do(crew.start)
    worker.do(give_back)  # what trying the seats has left there
    engine = Engine(
        crew.runner(fitted.runner),
        (LoneSampler if deterministic else Sampler)(loaded.vocab),
        max_batch_tokens=max_batch_tokens,
        max_queued_tokens=max_queued_tokens,
        admission=admission,
        reuse=reuse,
        drafts=0 if deterministic else drafts,
        piece=PIECE if deterministic and fitted.seat not in STEADY else 0,
    )
    return Opened(loaded, fitted, engine, crew, worker, home(folder), steady=deterministic)


def open_backend(
    opened: Opened,
    *,
    model_id: str,
    metrics: Metrics,
    max_prompt: int | None = None,
    tool_format: str = "auto",
) -> Backend:
    """Start the engine and serve with it.

    max_prompt is an upper bound, in tokens; `tool_format` is how the model writes calls of tools, "auto" or
    one of inference.text.calls.CALL_FORMATS. The engine's state and the answers' times go to `metrics`.
    """
    loaded, fitted, engine, crew = opened.loaded, opened.fitted, opened.engine, opened.crew
    context = fitted.runner.context
    metrics.watch(engine.stats, model=model_id, context=context)
    engine.watch_with(metrics.stepped)
    engine.start(opened.worker)
    crew.watch_with(lambda why: engine.fail(Internal(why)))
    return LocalBackend(
        engine,
        loaded.tokenizer,
        model_id=model_id,
        context=context,
        vocab=loaded.vocab,
        ends=loaded.ends,
        compiler=Compiler(loaded.tokenizer, loaded.vocab, loaded.ends),
        metrics=metrics,
        max_prompt=max_prompt,
        tool_format=tool_format,
        details={"dtype": loaded.dtype, "device": loaded.device},
        encodes=loaded.encodes,
        embed=partial(crew.embed, loaded.model),
        seek=partial(crew.search, loaded.model) if fitted.seat != "solo" and repeats(loaded.model) else None,
        over=crew.close,
    )
