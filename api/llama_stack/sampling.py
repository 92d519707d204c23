"""Llama Stack's sampling parameters: what each strategy means, and what none means.

Clients since 0.1 send the strategy as an object, those before as a name with its values beside it; a
temperature alone is what this project's predecessor was sent. Ranges are checked at submission.
"""

from dataclasses import replace

from api.llama_stack.bodies import SamplingParams, Strategy
from inference.errors import BadRequest
from inference.sampling import Sampling

STRATEGIES = ("greedy", "top_p", "top_k")
TOP_P = 0.95  # of the strategy top_p, where it is not given


def sampling(params: SamplingParams, temperature: float) -> Sampling:
    """`temperature` stands in where none is given."""
    choice = _choice(*_strategy(params), temperature)
    repetition = 1.0 if params.repetition_penalty is None else params.repetition_penalty
    return replace(choice, repetition=repetition, seed=params.seed)


def _strategy(params: SamplingParams) -> tuple[str | None, Strategy | SamplingParams]:
    """The strategy's name, and what holds its values. An object's are read strictly, as the protocol is."""
    if not isinstance(params.strategy, Strategy):
        _check_name(params.strategy, "sampling_params.strategy")
        return params.strategy, params
    strategy, field = params.strategy, "sampling_params.strategy"
    _check_name(strategy.type, f"{field}.type")
    if strategy.temperature is not None and strategy.temperature <= 0:
        raise BadRequest(f"{field}.temperature", "must be more than 0 (or use greedy)", strategy.temperature)
    if strategy.type == "top_k" and (strategy.top_k is None or strategy.top_k < 1):
        raise BadRequest(f"{field}.top_k", "must be at least 1", strategy.top_k)
    return strategy.type, strategy


def _check_name(name: str | None, field: str) -> None:
    if name is not None and name not in STRATEGIES:
        raise BadRequest(field, f"must be one of {', '.join(STRATEGIES)}", name)


def _choice(name: str | None, values: Strategy | SamplingParams, default: float) -> Sampling:
    """Temperature 0 is greedy under any name: old clients send it with all their defaults. Without a strategy
    1 is greedy too, and any other temperature scales the logits and samples."""
    temperature = default if values.temperature is None else values.temperature
    top_k = values.top_k or 0
    if name == "greedy" or temperature == 0 or (name is None and temperature == 1):
        return Sampling(greedy=True)
    if name == "top_p":
        return Sampling(temperature=temperature, top_p=TOP_P if values.top_p is None else values.top_p)
    if name == "top_k":
        return Sampling(temperature=temperature, top_k=top_k)
    return Sampling(temperature=temperature, top_p=1.0 if values.top_p is None else values.top_p, top_k=top_k)
