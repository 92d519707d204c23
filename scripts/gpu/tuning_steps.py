"""Training steps on one row, with an adapter on all linear layers: our trainer's, and those of peft.

peft and transformers are used as their users do: NF4 weights by bitsandbytes, or weights as they are.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from inference.model.load.device_dtype import DEFAULT_CONTEXT, config_length
from scripts.bench.models import build_model
from scripts.bench.options import BenchOptions
from tuning.trainer.datum import Datum
from tuning.trainer.model.base_model import prepare_frozen, split_model
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.optimizers import AdamParams
from tuning.trainer.trainer import Trainer

RANK, ALPHA, LEARNING_RATE, MAX_NORM = 16, 32, 1e-4, 1.0
RUN_ID = "measured"
Step = Callable[[], float]  # returns the loss


def trainer_step(options: BenchOptions, scheme: str, ids: list[int]) -> Step:
    """A step of our trainer, as a job takes it."""
    model = build_model(options.model, options.dtype, options.device)
    prepare_frozen(model, options.device, scheme)
    context = config_length(model.config) or DEFAULT_CONTEXT
    trainer = Trainer(split_model(model, None, options.vocab_size, context), checkpointing=True)
    trainer.create_run(RUN_ID, LoraOptions(rank=RANK, alpha=ALPHA))
    data = [Datum(ids[:-1], ids[1:], {"weights": [1 / (len(ids) - 1)] * (len(ids) - 1)})]

    def step() -> float:
        loss = trainer.forward_backward(RUN_ID, data, "cross_entropy").loss
        trainer.optim_step(RUN_ID, AdamParams(learning_rate=LEARNING_RATE))
        return loss

    return step


def peft_step(options: BenchOptions, quantized: bool, ids: list[int]) -> Step:
    """A step on one row. Raises ImportError without peft, or without bitsandbytes if quantized."""
    from peft import LoraConfig, get_peft_model

    base = build_model(options.model, options.dtype, options.device)
    base = prepare_quantized(base, options) if quantized else prepare(base)
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", task_type="CAUSAL_LM")
    model: Any = get_peft_model(base, config).train()
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATE, fused=True)
    rows = torch.tensor([ids], device=options.device)

    def step() -> float:
        with torch.autocast(options.device, torch.bfloat16, enabled=options.dtype == "bfloat16"):
            loss = model(input_ids=rows[:, :-1], labels=rows[:, :-1]).loss
        loss.backward()
        nn.utils.clip_grad_norm_(trained, MAX_NORM)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def prepare(model: Any) -> Any:
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.enable_input_require_grads()
    model.config.use_cache = False
    return model


def prepare_quantized(model: Any, options: BenchOptions) -> Any:
    """The model as from_pretrained loads it with BitsAndBytesConfig, prepared as peft's guide says."""
    from bitsandbytes.nn import Linear4bit, Params4bit
    from peft import prepare_model_for_kbit_training

    head = model.get_output_embeddings()
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if not isinstance(layer, nn.Linear) or layer is head:
                continue
            packed_layer = Linear4bit(
                layer.in_features,
                layer.out_features,
                bias=layer.bias is not None,
                compute_dtype=getattr(torch, options.dtype),
                quant_type="nf4",
                compress_statistics=True,
                device="meta",
            )
            packed_layer.weight = Params4bit(
                layer.weight.data, requires_grad=False, quant_type="nf4", compress_statistics=True
            )
            packed_layer.bias = layer.bias
            setattr(parent, name, packed_layer.to(options.device))
    model.is_loaded_in_4bit = model.is_quantized = True
    model.config.use_cache = False
    return prepare_model_for_kbit_training(
        model, use_gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False}
    )
