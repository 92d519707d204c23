"""What serving a model will take, known before a byte of its weights is fetched.

Knows a Repository and what was asked for; not what this machine has.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import AutoConfig

from checks.finding import Finding, Refused
from checks.machine.overhead import FIRST, Overhead
from checks.measure import Measure, measure, stored_dtype
from checks.source.config import wrong
from checks.source.repository import Repository
from checks.source.tensors import dtype_in
from inference.errors import BadRequest, named
from inference.model.architecture import needs_code, unserved
from inference.model.place import OPEN_ENDED, context_of, dtype_of, limit_of
from inference.model.prequantised import QUANTISED, loading
from inference.model.scaling import PLAIN, Scaling

PACKED = "gguf"  # the dtype of weights that are unpacked as they are loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the settings ask for.

    dtype     one of torch's, "stored" or "auto"
    bfloat16  the devices that multiply it in hardware
    context   tokens of a sequence; 0: as many as fit
    rows      sequences at a time
    tokens    of all of them together; 0: no bound
    kv        bytes for them; 0: what is left
    code      the model's own Python may run
    shards    processes that share the model
    places    the device of each layer; empty: all are on `device`, the first where it is a GPU
    quantise  how the weights are kept once they are loaded, "none" or one of Measure.saves
    seat      how the engine is to run the model, "auto" or one of inference.model.fit.KINDS
    alone     as DETERMINISTIC has it: no answer depends on what is computed beside it
    scaling   how the model's positions are stretched
    batch     tokens that a step computes
    overhead  what is known of this machine's, by which memory is predicted
    tokenizer_config  a file whose chat template takes the place of the model's
    """

    device: str
    dtype: str
    bfloat16: frozenset[str]
    context: int
    rows: int
    kv: int
    code: bool
    tokens: int = 0
    shards: int = 1
    places: tuple[str, ...] = ()
    quantise: str = "none"
    seat: str = "auto"
    alone: bool = False
    scaling: Scaling = PLAIN
    batch: int = 512
    overhead: Overhead = FIRST
    tokenizer_config: Path | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One model, on one device or several, with so many answers at a time; what is not told here is as Asked.

    measure   None where the model cannot be served anyway
    longest   tokens of context, where none is asked for and they fit
    limit     tokens the model can take at most; None: any number
    kv        of one process, as measure is
    asked     what the plan was made for
    """

    repository: Repository
    device: str
    measure: Measure | None
    context: int
    longest: int
    limit: int | None
    rows: int
    kv: int
    code: bool
    asked: Asked
    shards: int = 1
    places: tuple[str, ...] = ()
    quantise: str = "none"
    batch: int = 512
    overhead: Overhead = FIRST


def plan(repository: Repository, asked: Asked) -> Plan:
    """Ask the model what it takes. Raises Refused."""
    raw = repository.config
    servable = not unserved(raw)

    def choose(parameters: int) -> str:
        return dtype(repository, asked, parameters)

    config = read_config(repository, asked.scaling) if servable and not needs_code(raw) else None
    longest = context_of(config) if config else int(raw.get("max_position_embeddings") or OPEN_ENDED)
    longest, limit = asked.scaling.length(longest), limit_of(config) if config else None
    return Plan(
        repository=repository,
        measure=measured(repository, asked, choose) if servable else None,
        longest=min(longest, asked.tokens or longest),
        limit=limit and asked.scaling.length(limit),
        asked=asked,
        **fields(asked),
    )


def measured(repository: Repository, asked: Asked, choose: Callable[[int], str]) -> Measure:
    raw, tensors = dict(repository.config), tensors_of(repository)
    if form := packing(repository, asked):
        raw[QUANTISED] = form
    made = measure(raw, repository.weights, choose, asked.shards, tensors, asked.seat, asked.alone)
    return replace(made, stored=PACKED, copied=made.weights) if repository.gguf else made


def packing(repository: Repository, asked: Asked) -> dict[str, Any]:
    """The form of weights that are in fewer bits in their files, and how they are loaded; else empty."""
    told = repository.config.get(QUANTISED)
    return loading(told, asked.places or (asked.device,)) if isinstance(told, Mapping) else {}


def replan(made: Plan, **changes: Any) -> Plan:
    """The same model for other wishes, each a field of Asked; measured again only where that changes."""
    asked, known = replace(made.asked, **changes), made.measure
    if known is None or made.shards != asked.shards:
        return plan(made.repository, asked)
    if known.dtype != dtype(made.repository, asked, known.parameters):
        return plan(made.repository, asked)
    return replace(made, asked=asked, **fields(asked))


def fields(asked: Asked) -> dict[str, Any]:
    """Those of a Plan that say what is asked for, of one process."""
    return {
        "device": asked.device,
        "context": asked.context,
        "rows": asked.rows,
        "kv": asked.kv // asked.shards,
        "code": asked.code,
        "shards": asked.shards,
        "places": asked.places,
        "quantise": asked.quantise,
        "batch": asked.batch,
        "overhead": asked.overhead,
    }


def tensors_of(repository: Repository) -> Mapping[str, Tensor] | None:
    """What its files of weights hold; None where that is not known."""
    return repository.headers.tensors if repository.headers else None


def dtype(repository: Repository, asked: Asked, parameters: int) -> str:
    """What the model is computed in. Where its files are in another dtype than config.json says, they are
    right."""
    return dtype_of(
        asked.dtype,
        device=asked.device,
        stored=dtype_in(tensors_of(repository)) or stored_dtype(repository.config),
        parameters=parameters,
        bfloat16=asked.device in asked.bfloat16,
    )


def read_config(repository: Repository, scaling: Scaling) -> Any:
    """The config as transformers understands it. Raises Refused where a value in it makes no sense."""
    try:
        config = AutoConfig.for_model(**repository.config)
        scaling.stretch(config)
        return config
    except BadRequest as error:
        have = f"{repository.config.get('model_type')}, which has none"
        raise Refused(Finding("positions", error.rule, have, False, 'ROPE_SCALING = ""')) from error
    except Exception as error:  # an architecture's own failure at a value that it did not expect
        raise wrong(repository.name, named(error)) from error
