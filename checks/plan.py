"""What serving a model will take, known before a byte of its weights is fetched.

Knows a Repository and what was asked for; not what this machine has.
"""

from dataclasses import dataclass
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig

from checks.finding import Finding, Refused
from checks.measure import Measure, measure, stored_dtype
from checks.repository import Repository
from inference.errors import BadRequest
from inference.model.architecture import needs_code, unserved
from inference.model.place import OPEN_ENDED, context_of, dtype_of, limit_of
from inference.model.scaling import PLAIN, Scaling


@dataclass(frozen=True, slots=True)
class Plan:
    """One model, on one device or several, with so many answers at a time.

    measure   None where the model cannot be served anyway
    context   tokens asked for; 0: as many as fit, up to `longest`
    limit     tokens the model can take at most; None: any number
    kv        bytes asked for the tokens of running answers; 0: what is left
    shards    processes that share the model; measure and kv are then of one
    places    the device of each layer; empty: all are on `device`, the first where it is a GPU
    quantise  how the weights are kept once they are loaded, "none" or one of Measure.saves
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
    shards: int = 1
    places: tuple[str, ...] = ()
    quantise: str = "none"


def plan(
    repository: Repository,
    *,
    device: str,
    dtype: str,
    bfloat16: bool,
    context: int,
    rows: int,
    kv: int,
    code: bool,
    tokens: int = 0,
    shards: int = 1,
    places: tuple[str, ...] = (),
    quantise: str = "none",
    scaling: Scaling = PLAIN,
) -> Plan:
    """`dtype` may be "auto"; `bfloat16`: the device has it; `code`: the model's own Python may run.

    `tokens`: of all running answers together; 0: no bound. The model's lengths are those that `scaling` gives
    it. Raises Refused.
    """
    raw = repository.config
    servable = not unserved(raw)

    def choose(parameters: int) -> str:
        return dtype_of(
            dtype, device=device, stored=stored_dtype(raw), parameters=parameters, bfloat16=bfloat16
        )

    config = read_config(repository, scaling) if servable and not needs_code(raw) else None
    longest = context_of(config) if config else int(raw.get("max_position_embeddings") or OPEN_ENDED)
    longest, limit = scaling.length(longest), limit_of(config) if config else None
    return Plan(
        repository=repository,
        device=device,
        measure=measure(raw, repository.weights, choose, shards) if servable else None,
        context=context,
        longest=min(longest, tokens or longest),
        limit=limit and scaling.length(limit),
        rows=rows,
        kv=kv // shards,
        code=code,
        shards=shards,
        places=places,
        quantise=quantise,
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
    except (TypeError, ValueError, KeyError, AttributeError, StrictDataclassError) as error:
        told = " ".join(str(error).split())[:200]
        mend = "correct its config.json, or choose another model"
        raise Refused(
            Finding("architecture", repository.name, f"a config.json that is wrong: {told}", False, mend)
        ) from error
