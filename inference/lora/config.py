"""adapter_config.json as peft writes it: what changes the arithmetic, and the features that are refused.

The tensors show which modules were trained: target_modules may be a stranger's regular expression.
"""

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.errors import BadRequest, short
from inference.lora.file_names import ADAPTER_CONFIG
from inference.lora.name_pattern import check_count, check_pattern, matches
from inference.untrusted_json import read_json_object

MAX_CONFIG_BYTES = 1 << 20
MAX_SHOWN_CHARS = 80  # of a key in an error
# Options of training, of initialization or of file handling; or those whose effect the tensors' names show.
WITHOUT_EFFECT = frozenset(
    (
        *("auto_mapping", "base_model_name_or_path", "bias", "corda_config"),
        *("eva_config", "exclude_modules", "fan_in_fan_out", "inference_mode", "init_lora_weights"),
        *("layers_pattern", "layers_to_transform", "loftq_config", "lora_bias", "lora_dropout"),
        *("lora_ga_config", "megatron_core", "modules_to_save", "peft_type", "peft_version"),
        *("qalora_group_size", "revision", "runtime_config", "target_modules", "target_parameters"),
        *("task_type", "trainable_token_indices"),
    )
)
ARITHMETIC = frozenset(("r", "lora_alpha", "use_rslora", "use_dora", "rank_pattern", "alpha_pattern"))
# Values of init_lora_weights that change the weights of the base model.
CHANGED_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """The scale of each module: alpha / r, or alpha / √r with use_rslora.

    rank_pattern, alpha_pattern  r and alpha of modules that a pattern of names matches: the first one counts
    target_parameters            ends of the names of parameters with pairs that are no linear layer's weight
    token_ids                    trainable tokens, by the end of the embedding's name; "": of the embedding
    use_dora                     each pair has a magnitude vector
    """

    rank: int
    alpha: float
    use_rslora: bool
    rank_pattern: Mapping[str, int]
    alpha_pattern: Mapping[str, float]
    token_ids: Mapping[str, Sequence[int]]
    target_parameters: Sequence[str] = ()
    use_dora: bool = False

    def rank_of(self, module: str) -> int:
        return self.rank_pattern.get(matching_key(self.rank_pattern, module), self.rank)

    def scale_of(self, module: str) -> float:
        rank = self.rank_of(module)
        alpha = self.alpha_pattern.get(matching_key(self.alpha_pattern, module), self.alpha)
        return alpha / (math.sqrt(rank) if self.use_rslora else rank)

    def targets_parameter(self, name: str) -> bool:
        """Whether target_parameters names it, as in peft's BaseTuner._inject_parameters."""
        return any(f".{name}".endswith(f".{target}") for target in self.target_parameters)

    def token_ids_of(self, module: str) -> Sequence[int]:
        """The trainable tokens of an embedding."""
        names = (name for name in self.token_ids if f".{module}".endswith(f".{name}"))
        return self.token_ids.get(next(names, ""), ())


def matching_key(patterns: Mapping[str, Any], module: str) -> str:
    """The first pattern that matches the module, as in peft.utils.other.get_pattern_key; or empty."""
    return next((pattern for pattern in patterns if matches(pattern, module)), "")


def read_config(folder: Path, max_rank: int) -> AdapterConfig:
    """Read and check the config. Raises BadRequest with the key, its value and what to do."""
    values = read_values(folder / ADAPTER_CONFIG)
    check_features(values)
    ranks = number_pattern(values, "rank_pattern")
    return AdapterConfig(
        rank=checked_rank("r", values.get("r", 8), max_rank),
        alpha=checked_number("lora_alpha", values.get("lora_alpha", 8)),
        use_rslora=bool(values.get("use_rslora")),
        rank_pattern={
            key: checked_rank(f"rank_pattern[{short(key)}]", value, max_rank) for key, value in ranks.items()
        },
        alpha_pattern=number_pattern(values, "alpha_pattern"),
        token_ids=trainable_tokens(values.get("trainable_token_indices")),
        target_parameters=target_parameters(values.get("target_parameters")),
        use_dora=bool(values.get("use_dora")),
    )


def read_base_name(folder: Path) -> str:
    """The name or path of the model that the adapter in peft's form was trained over; empty if unknown."""
    return str(read_values(folder / ADAPTER_CONFIG).get("base_model_name_or_path") or "")


def read_values(path: Path) -> dict[str, Any]:
    try:
        size = os.stat(path).st_size
        if size > MAX_CONFIG_BYTES:
            raise refusal(f"has an {ADAPTER_CONFIG} of {size} bytes, at most {MAX_CONFIG_BYTES} are read")
        return read_json_object(path)
    except FileNotFoundError:
        raise refusal(f"has no {ADAPTER_CONFIG}") from None
    except (OSError, ValueError) as error:
        raise refusal(f"has an {ADAPTER_CONFIG} that cannot be read: {short(str(error), 200)}") from None


def check_features(values: Mapping[str, Any]) -> None:
    """Raise BadRequest for another kind of adapter and for features that are not served."""
    kind = values.get("peft_type")
    if kind != "LORA":
        raise refusal(f"has peft_type {short(kind)}: only LORA is served; merge it into the model")
    init = values.get("init_lora_weights")
    if isinstance(init, str) and init.lower().startswith(CHANGED_BASE):
        raise refusal(
            f"has init_lora_weights {short(init)}, which changed the base model: save it with peft's "
            "path_initial_model_for_weight_conversion"
        )
    for key, value in values.items():
        if value and key not in WITHOUT_EFFECT and key not in ARITHMETIC:
            raise refusal(
                f"has {key[:MAX_SHOWN_CHARS]} = {short(value)}, which is not served: merge it into the model"
            )


def checked_rank(key: str, value: Any, max_rank: int) -> int:
    if type(value) is not int or value < 1:
        raise refusal(f"has {key} = {short(value)}: it must be a whole number of at least 1")
    if value > max_rank:
        raise refusal(
            f"has {key} = {short(value)}: at most {max_rank} is served; "
            f"set MAX_LORA_RANK={short(value)} to serve it"
        )
    return value


def checked_number(key: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= sys.float_info.max:  # NaN is not; an int may be larger than a float
        raise refusal(f"has {key} = {short(value)}: it must be a finite number")
    return float(value)


def number_pattern(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A mapping of name patterns to numbers. Raises BadRequest for anything else."""
    patterns = values.get(key) or {}
    if not isinstance(patterns, dict):
        raise refusal(f"has {key} = {short(patterns)}: it must be an object")
    try:
        check_count(patterns)
    except ValueError as error:
        raise refusal(f"has too many names in {key}: {error}") from None
    for pattern, value in patterns.items():
        checked_number(f"{key}[{short(pattern)}]", value)
        try:
            check_pattern(pattern)
        except ValueError as error:
            raise refusal(f"has {short(pattern)} in {key}: {error}") from None
    return patterns


def trainable_tokens(value: Any) -> Mapping[str, Sequence[int]]:
    """trainable_token_indices: a list, or lists by the names of embeddings."""
    by_name = value if isinstance(value, dict) else {"": value or []}
    for token_ids in by_name.values():
        if not isinstance(token_ids, list) or not all(type(id) is int for id in token_ids):
            raise refusal(f"has trainable_token_indices {short(value)}: they must be lists of token ids")
        if len(set(token_ids)) < len(token_ids):
            raise refusal("has trainable_token_indices with a token twice")
    return by_name


def target_parameters(value: Any) -> Sequence[str]:
    names = value or []
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise refusal(f"has target_parameters {short(value)}: they must be a list of names")
    return names


def refusal(rule: str) -> BadRequest:
    """The error of an adapter that cannot be served."""
    return BadRequest("adapter", rule)
