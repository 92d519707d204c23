"""The hyperparameters of a job: which values a request may set, and what "auto" becomes.

Knows numbers alone: not the model beyond its sizes, nor the rows beyond their count.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from inference.errors import BadRequest
from tuning.types import Hyperparameters, Method

AUTO = "auto"
TARGETS = "lora_target_modules"  # how requests call target_modules
DEFAULT_EPOCHS, MAX_EPOCHS, MIN_STEPS = 3, 50, 60
# A fact is learned when it was seen about 20 times: models/demo learned 87 of 96 facts in 20 epochs, 4 in
# five. Up to 96 rows are seen so often; more rows have fewer epochs, so that the job is not longer. An
# adapter that rehearses sees up to 64 rows more often: of 24 facts, the seeds 0 to 5 learned 20 to 22 in 30
# epochs, and three of them 19 or 20 in 20 epochs; it kept as much of its exam.
LEARNING_EPOCHS, REHEARSED_EPOCHS, REPEATED_ROWS = 20, 30, 1920
ROWS_PER_BATCH_ROW = 500
# A step of one row at the automatic learning rate damages what the model knew: after 24 made-up facts,
# models/demo kept 45 % of its exam with 480 steps of one row, and 63 to 83 % with 120 steps of four.
MIN_AUTO_BATCH, MAX_AUTO_BATCH = 4, 16
# Rows that are seen so often displace what the model knew; it rehearses as many texts as there are such rows.
REHEARSED_ROWS = REPEATED_ROWS // LEARNING_EPOCHS
MIN_AUTO_REHEARSAL = 0.1

# Learning rate of an adapter for a model's hidden size: Thinking Machines, "LoRA Without Regret".
RATE, REFERENCE_HIDDEN_SIZE = 5e-4, 2000
EXPONENT, EXPONENTS = 0.781, {"qwen": 0.0775}  # by the start of the model's type
PREFERENCE_SHARE = 0.1  # of that rate, for the methods that compare answers
FULL_SHARE = 0.1  # of that rate, for all weights: the same article's figure

# What shapes an adapter, or its base: it has no meaning where all weights are trained.
ADAPTER_FIELDS = (
    *("lora_rank", "lora_alpha", "target_modules", "use_dora", "use_rslora", "train_output"),
    "quantize_base",
)


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """What the defaults of a model depend on.

    model_type: as in the model's config.json; context: most tokens of a row.
    """

    hidden_size: int
    model_type: str
    context: int


class Rule(NamedTuple):
    """Which values a hyperparameter may have.

    accepts: whether a value is allowed; words: which are, to follow the name of the field.
    """

    accepts: Callable[[Any], bool]
    words: str


def whole_number(low: int, high: int) -> Rule:
    return Rule(
        lambda value: is_int(value) and low <= value <= high, f"must be a whole number, {low} to {high}"
    )


def number(low: float, high: float) -> Rule:
    def accepts(value: Any) -> bool:
        return is_number(value) and low <= value <= high

    return Rule(accepts, f"must be a number, {low:g} to {high:g}")


def positive(high: float) -> Rule:
    def accepts(value: Any) -> bool:
        return is_number(value) and 0 < value <= high

    return Rule(accepts, f"must be a number above 0, at most {high:g}")


def option(*values: str) -> Rule:
    return Rule(lambda value: value in values, f"must be {' or '.join(values)}")


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) and name for name in value)


SWITCH = Rule(lambda value: isinstance(value, bool), "must be true or false")
RULES: Mapping[str, Rule] = {
    "n_epochs": whole_number(1, MAX_EPOCHS),
    "batch_size": whole_number(1, 256),
    "learning_rate": positive(1),
    "learning_rate_multiplier": positive(1000),
    "finetuning_type": option("lora", "full"),
    "lora_rank": whole_number(1, 1024),
    "lora_alpha": positive(1e6),
    "target_modules": Rule(is_names, "must be a list of names of linear layers"),
    "max_length": whole_number(0, 1 << 20),
    "max_steps": whole_number(0, 1_000_000),
    "gradient_accumulation_steps": whole_number(1, 1024),
    "beta": positive(2),
    "loss_type": option("sigmoid", "hinge", "ipo"),
    "weight_decay": number(0, 10),
    "warmup_steps": whole_number(0, 1_000_000),
    "optimizer": option("adamw", "adam", "sgd"),
    "grad_clip": positive(1e6),
    "eval_steps": whole_number(0, 1_000_000),
    "early_stopping_patience": whole_number(0, 1000),
    "rehearsal": number(0, 4),
    **dict.fromkeys(
        (
            "use_dora",
            "use_rslora",
            "quantize_base",
            "train_output",
            "packing",
            "activation_checkpointing",
            "shuffle",
            "keep_best",
            "train_on_input",
        ),
        SWITCH,
    ),
}
assert RULES.keys() == {field.name for field in fields(Hyperparameters)}


def check_hyperparameters(values: Mapping[str, Any], max_lora_rank: int) -> None:
    """Raises BadRequest, which names the hyperparameter and its limits."""
    for name, value in values.items():
        rule = RULES.get(name)
        if rule is None:
            raise BadRequest(name, f"is not a hyperparameter: use {', '.join(map(public_name, RULES))}")
        if value != AUTO and value is not None and not rule.accepts(value):
            raise BadRequest(public_name(name), rule.words, value)
    rank: Any = values.get("lora_rank")
    if is_int(rank) and rank > max_lora_rank:
        raise BadRequest("lora_rank", f"must be at most MAX_LORA_RANK={max_lora_rank}", rank)
    if values.get("finetuning_type") == "full":
        refuse_adapter_fields(values)


def refuse_adapter_fields(values: Mapping[str, Any]) -> None:
    """Raises BadRequest for what full fine-tuning cannot obey."""
    for name in adapter_fields(values):
        rule = "is for adapters: leave it out beside finetuning_type full, which trains all weights"
        raise BadRequest(public_name(name), rule, values[name])


def public_name(name: str) -> str:
    return TARGETS if name == "target_modules" else name


def adapter_fields(values: Mapping[str, Any]) -> list[str]:
    """The names of the chosen values that ask for an adapter."""
    chosen = chosen_values(values)
    return [name for name in ADAPTER_FIELDS if chosen.get(name, False) is not False]


def resolve_hyperparameters(
    values: Mapping[str, Any], method: Method, num_examples: int, sizes: ModelSizes
) -> Hyperparameters:
    """Numbers for all hyperparameters. values: checked ones; "auto", null and absent ones are chosen."""
    chosen = chosen_values(values)
    batch_size = chosen.get("batch_size") or auto_batch_size(num_examples)
    rows_of_step = batch_size * chosen.get("gradient_accumulation_steps", 1)
    multiplier = chosen.get("learning_rate_multiplier", 1.0)
    is_full = chosen.get("finetuning_type") == "full"
    rank = chosen.get("lora_rank", Hyperparameters.__dataclass_fields__["lora_rank"].default)
    rehearses = method == "supervised" and not is_full and chosen.get("rehearsal", 1.0) > 0
    learning_epochs = REHEARSED_EPOCHS if rehearses else LEARNING_EPOCHS
    defaults = {
        "n_epochs": auto_epochs(num_examples, rows_of_step, learning_epochs),
        "batch_size": batch_size,
        "learning_rate": auto_learning_rate(method, sizes) * (FULL_SHARE if is_full else 1.0) * multiplier,
        "max_length": sizes.context,
        "lora_alpha": 2.0 * rank,
        "rehearsal": auto_rehearsal(method, num_examples),
    }
    if "target_modules" in chosen:
        chosen["target_modules"] = tuple(chosen["target_modules"])
    values = defaults | chosen
    return Hyperparameters(
        **(values | {"max_length": min(values["max_length"] or sizes.context, sizes.context)})
    )


def effective_values(hyperparameters: Hyperparameters) -> dict[str, Any]:
    """The hyperparameters by name, without those that have no meaning for the job."""
    values = asdict(hyperparameters)
    return {
        name: value
        for name, value in values.items()
        if not (hyperparameters.is_full and name in ADAPTER_FIELDS)
    }


def chosen_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without those that are "auto" or null."""
    return {name: value for name, value in values.items() if value != AUTO and value is not None}


def auto_batch_size(num_examples: int) -> int:
    """A row for each ROWS_PER_BATCH_ROW, within limits, and not more than there are."""
    rows = round(num_examples / ROWS_PER_BATCH_ROW)
    return min(MAX_AUTO_BATCH, max(MIN_AUTO_BATCH, rows), num_examples)


def auto_epochs(num_examples: int, rows_of_step: int, learning_epochs: int) -> int:
    """DEFAULT_EPOCHS; more for few rows: up to learning_epochs, and for MIN_STEPS steps up to MAX_EPOCHS."""
    to_learn = min(learning_epochs, math.ceil(REPEATED_ROWS / num_examples))
    to_step = math.ceil(MIN_STEPS * rows_of_step / num_examples)
    return min(MAX_EPOCHS, max(DEFAULT_EPOCHS, to_learn, to_step))


def auto_learning_rate(method: Method, sizes: ModelSizes) -> float:
    exponents = (value for start, value in EXPONENTS.items() if sizes.model_type.startswith(start))
    rate = RATE * (REFERENCE_HIDDEN_SIZE / sizes.hidden_size) ** next(exponents, EXPONENT)
    return rate if method == "supervised" else rate * PREFERENCE_SHARE


def auto_rehearsal(method: Method, num_examples: int) -> float:
    """1 for few rows, less for more, none for many; none for the methods that compare answers."""
    share = min(1.0, REHEARSED_ROWS / num_examples)
    return share if method == "supervised" and share >= MIN_AUTO_REHEARSAL else 0.0
