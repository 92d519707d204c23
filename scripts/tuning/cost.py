"""Compares the CPU time of a pass of the trainer with that of peft and transformers alone.

    python -m scripts.tuning.cost                  8 rows of 256 tokens, a random Llama in bfloat16
    python -m scripts.tuning.cost --dtype float32 --masked 0.5
    python -m scripts.tuning.cost --quantize int8        only the trainer's weights are packed

Both train the same adapter over the same weights, in turn, in one process. Prints the CPU seconds of each
round, and the ratio of the medians: above 1, the trainer is faster.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from inference.model.quantization.schemes import INT4, INT8, NONE
from scripts.tuning.memory import TOKENIZER_FILES
from settings.groups import ModelSettings
from tuning.trainer.datum import Datum
from tuning.trainer.model.base_model import load_base
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.trainer import Trainer

SIZES = {"hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14, "num_key_value_heads": 2}
RANK = 32
RUN_ID = "cost"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=256, help="of a row")
    parser.add_argument(
        "--layers", type=int, default=4, help="of the model, whose others are as Qwen 2.5 0.5 B's"
    )
    parser.add_argument("--vocab", type=int, default=32_000)
    parser.add_argument("--masked", type=float, default=0.0, help="share of each row that is no answer")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--quantize", default=NONE, choices=(NONE, INT8, INT4))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        save_model(Path(name), args.layers, args.vocab, args.dtype)
        data = make_data(args.rows, args.tokens, args.vocab, args.masked)
        passes = {"trainer": trainer_pass(Path(name), args.dtype, args.quantize, data)}
        passes["peft"] = peft_pass(Path(name), args.dtype, data)
        report(passes, args.rounds)


def save_model(folder: Path, num_layers: int, vocab_size: int, dtype: str) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocab_size, num_hidden_layers=num_layers, tie_word_embeddings=True, **SIZES
    )
    LlamaForCausalLM(config).to(getattr(torch, dtype)).save_pretrained(folder)
    for name in TOKENIZER_FILES:
        (folder / name).write_bytes(Path("models/demo", name).read_bytes())


def make_data(num_rows: int, num_tokens: int, vocab_size: int, masked: float) -> list[Datum]:
    random = Random(0)
    rows = [[random.randrange(vocab_size) for _ in range(num_tokens + 1)] for _ in range(num_rows)]
    num_masked = round(masked * num_tokens)
    weights = [0.0] * num_masked + [1.0] * (num_tokens - num_masked)
    return [Datum(row[:-1], row[1:], {"weights": weights}) for row in rows]


def trainer_pass(folder: Path, dtype: str, quantize: str, data: list[Datum]) -> Callable[[], float]:
    trainer = Trainer(load_base(folder, ModelSettings(dtype=dtype, device="cpu", quantize=quantize)))
    trainer.create_run(RUN_ID, LoraOptions(rank=RANK))

    def compute() -> float:
        return trainer.forward_backward(RUN_ID, data, "cross_entropy").loss

    return compute


def peft_pass(folder: Path, dtype: str, data: list[Datum]) -> Callable[[], float]:
    """As a training loop over peft's model has it: labels of -100 for what is no answer."""
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    config = LoraConfig(r=RANK, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    model: Any = get_peft_model(base, config)
    ids = torch.tensor([[*row.token_ids, row.target_ids[-1]] for row in data])
    weights = torch.tensor([[0.0, *row.inputs["weights"]] for row in data])
    labels = torch.where(weights == 0, -100, ids)

    def compute() -> float:
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        return loss.item() * int((labels != -100).sum())

    return compute


def report(passes: dict[str, Callable[[], float]], num_rounds: int) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for name, compute in passes.items():
        print(f"{name}: loss {compute():.1f}")  # also warms up
    for _ in range(num_rounds):
        for name, compute in passes.items():
            began = time.process_time()
            compute()
            seconds[name].append(time.process_time() - began)
        print(*(f"{name} {values[-1]:.2f} s" for name, values in seconds.items()), flush=True)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    print(f"the trainer is {medians['peft'] / medians['trainer']:.2f} times as fast as peft and transformers")


if __name__ == "__main__":
    main()
