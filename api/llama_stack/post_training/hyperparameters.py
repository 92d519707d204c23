"""Translates the configs of a post-training request to a job's hyperparameters.

Knows the names of both sides. The job queue checks the numbers. A field without an effect becomes a note.
"""

from collections.abc import Iterator
from typing import Any

from api.llama_stack.post_training.protocol import (
    AlgorithmConfig,
    EfficiencyConfig,
    OptimizerConfig,
    PostTrainingRequest,
    TrainingConfig,
)
from inference.errors import BadRequest, NotImplementedHere

ATTENTION_MODULES = ("q_proj", "k_proj", "v_proj", "output_proj")
MLP_MODULES = ("gate_proj", "up_proj", "down_proj")
RENAMED_MODULES = {"output_proj": "o_proj"}  # torchtune's name, and transformers'
LORA_ALGORITHMS: dict[str, dict[str, Any]] = {
    "lora": {},
    "qlora": {"quantize_base": True},
    "dora": {"use_dora": True},
}
ADAPTER, FULL = {"finetuning_type": "lora"}, {"finetuning_type": "full"}
BY_TYPE: dict[str | None, dict[str, Any]] = {"LoRA": ADAPTER, "Full": FULL}
LOSS_TYPES = ("sigmoid", "hinge", "ipo")
FORMER_DPO_FIELDS = ("reward_scale", "reward_clip", "epsilon", "gamma")
OFFLOADING = ("enable_activation_offloading", "fsdp_cpu_offload", "memory_efficient_fsdp_wrap")
# Fields of a request without an effect, and what there is instead.
WITHOUT_EFFECT = {
    "hyperparam_search_config": "",
    "logger_config": "",
    "checkpoint_dir": ": checkpoints answer by their names, which artifacts list",
}


def adapter_hyperparameters(body: PostTrainingRequest) -> dict[str, Any]:
    """The shape of the adapter, or that all weights are trained. Raises NotImplementedHere for QAT."""
    algorithm, config = body.algorithm or "lora", body.algorithm_config or AlgorithmConfig()
    if algorithm not in ("full", *LORA_ALGORITHMS):
        raise BadRequest("algorithm", f"must be one of full, {', '.join(LORA_ALGORITHMS)}", algorithm)
    if config.type == "QAT":
        raise NotImplementedHere("Not implemented: algorithm_config.type QAT: use LoRA or Full")
    _check_type(config)
    if algorithm == "full":
        return FULL
    if config.type == "Full":
        return _full_hyperparameters(config)
    values = {
        "lora_rank": config.rank,
        "lora_alpha": config.alpha,
        "target_modules": _target_modules(config),
        "train_output": config.apply_lora_to_output,
        "use_dora": config.use_dora,
        "quantize_base": config.quantize_base,
    }
    return _without_nulls(values) | LORA_ALGORITHMS[algorithm] | ADAPTER


def _check_type(config: AlgorithmConfig) -> None:
    if config.type not in (None, *BY_TYPE):
        raise BadRequest("algorithm_config.type", "must be LoRA or Full", config.type)


def _full_hyperparameters(config: AlgorithmConfig) -> dict[str, Any]:
    """All weights are trained. The job queue refuses what the config says about an adapter."""
    values: dict[str, Any] = {
        "lora_rank": config.rank,
        "lora_alpha": config.alpha,
        "use_dora": config.use_dora,
        "quantize_base": config.quantize_base,
        "target_modules": config.lora_attn_modules,
    }
    return _without_nulls(values) | FULL


def _target_modules(config: AlgorithmConfig) -> list[str] | None:
    """Names as transformers has them; None: all linears of the layers, whatever the model calls them."""
    modules, with_mlp = config.lora_attn_modules, config.apply_lora_to_mlp
    if modules is None and with_mlp is None:
        return None
    modules = list(ATTENTION_MODULES) if modules is None else modules
    if with_mlp and set(ATTENTION_MODULES) <= set(modules):
        return None
    names = [RENAMED_MODULES.get(name, name) for name in modules] + list(MLP_MODULES if with_mlp else ())
    if not names:
        rule = "must name a linear of the attention, or apply_lora_to_mlp must be true"
        raise BadRequest("algorithm_config.lora_attn_modules", rule, modules)
    return list(dict.fromkeys(names))


def loss_hyperparameters(body: PostTrainingRequest) -> dict[str, Any]:
    """The loss of DPO. Raises NotImplementedHere for fields that no server ever read."""
    config = body.algorithm_config or AlgorithmConfig()
    if body.algorithm not in (None, "dpo"):
        raise BadRequest("algorithm", "must be dpo", body.algorithm)
    former = [name for name in FORMER_DPO_FIELDS if getattr(config, name) is not None]
    if former and config.beta is None and config.loss_type is None:
        names = ", ".join(former)
        raise NotImplementedHere(f"Not implemented: algorithm_config with {names}: send beta instead")
    if config.loss_type == "kto_pair":
        raise NotImplementedHere(
            f"Not implemented: loss_type kto_pair: use {', '.join(LOSS_TYPES[:-1])} or {LOSS_TYPES[-1]}"
        )
    if config.loss_type not in (None, *LOSS_TYPES):
        raise BadRequest(
            "algorithm_config.loss_type", f"must be one of {', '.join(LOSS_TYPES)}", config.loss_type
        )
    _check_type(config)
    values = _without_nulls({"beta": config.beta, "loss_type": config.loss_type})
    return values | BY_TYPE.get(config.type, {})


def training_hyperparameters(body: PostTrainingRequest) -> dict[str, Any]:
    """Epochs, batches and the optimizer, in the format of any generation."""
    training = body.training_config or TrainingConfig()
    data = training.data_config
    optimizer = training.optimizer_config or body.optimizer_config or OptimizerConfig()
    checkpointing = _efficiency(training).enable_activation_checkpointing
    return _without_nulls(
        {
            "n_epochs": training.n_epochs,
            "max_steps": _max_steps(training),
            "gradient_accumulation_steps": training.gradient_accumulation_steps,
            "batch_size": data.batch_size if data else training.batch_size,
            "shuffle": data.shuffle if data else training.shuffle,
            "packing": data.packs_rows if data else None,
            "train_on_input": data.train_on_input if data else None,
            "optimizer": optimizer.optimizer_type,
            "learning_rate": optimizer.lr,
            "weight_decay": optimizer.weight_decay,
            "warmup_steps": optimizer.num_warmup_steps,
            "activation_checkpointing": checkpointing,
        }
    )


def _max_steps(training: TrainingConfig) -> int | None:
    """The limit on all steps; None: there is none."""
    if training.n_iters is not None and training.n_iters > 0:
        return training.n_iters
    if training.max_steps_per_epoch is None or training.max_steps_per_epoch <= 0:
        return None
    if training.n_epochs is None:
        raise BadRequest("training_config.n_epochs", "is required beside max_steps_per_epoch")
    return training.max_steps_per_epoch * training.n_epochs


def _efficiency(training: TrainingConfig) -> EfficiencyConfig:
    return training.efficiency_config or training


def notes(body: PostTrainingRequest) -> Iterator[str]:
    """What the user must know: defaults that were chosen, and fields that have no effect."""
    training = body.training_config or TrainingConfig()
    optimizer = training.optimizer_config or body.optimizer_config or OptimizerConfig()
    if body.algorithm == "full":
        yield "algorithm_config has no effect: algorithm full trains all weights."
    elif body.algorithm_config is None:
        yield "algorithm_config is absent: the adapter has rank 16, alpha 32 and all linears of the layers."
    for name in OFFLOADING:
        if getattr(_efficiency(training), name):
            yield f"{name} has no effect."
    if training.dtype:
        yield f"dtype {training.dtype} has no effect: the base has the dtype in which it is served."
    if optimizer.lr_min:
        yield "lr_min has no effect: the learning rate falls to 0."
    for name, reason in WITHOUT_EFFECT.items():
        if getattr(body, name):
            yield f"{name} has no effect{reason}."


def _without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
