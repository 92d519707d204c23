"""Compares the memory plan of training jobs with the measured peak of their processes.

    python -m scripts.tuning.memory            all shapes: LoRA, QLoRA, DPO, full, rehearsal …; two models
    python -m scripts.tuning.memory --shapes lora,dpo

Each job is a process of its own, as in the server. Prints, in MB, the plan
and the peak, also without the programs, and exits with code 1 if a plan is off by more than 8 %.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import copy
from typing import Any

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from inference.process.child_program import module_command
from tuning.job_files import PROGRESS_FILE, SPEC_FILE, write_value
from tuning.types import Hyperparameters, JobSpec, Method

MAX_ERROR = 0.08
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
NUM_STEPS = 3
SMALL = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "num_attention_heads": 8}
WIDE = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 6, "num_attention_heads": 16}


@dataclass(frozen=True, slots=True)
class JobShape:
    """A job. tokens: of a row, about; rows: of a batch, pairs for DPO."""

    name: str
    model: Mapping[str, int]
    rows: int
    tokens: int
    method: Method = "supervised"
    changes: Mapping[str, Any] | None = None
    dtype: str = "float32"


FULL = {"finetuning_type": "full"}
SHAPES = (
    JobShape("lora", SMALL, 4, 256),
    JobShape("lora_512", SMALL, 4, 512),
    JobShape("lora_wide", WIDE, 4, 256),
    JobShape("qlora", WIDE, 4, 256, changes={"quantize_base": True}),
    JobShape("qlora_bf16", WIDE, 4, 256, changes={"quantize_base": True}, dtype="bfloat16"),
    JobShape("dpo", SMALL, 2, 256, method="dpo"),
    JobShape("checkpointing", SMALL, 8, 256, changes={"activation_checkpointing": True}),
    JobShape("full", SMALL, 4, 256, changes=FULL),
    JobShape("full_accum", WIDE, 2, 256, changes=FULL | {"gradient_accumulation_steps": 2}),
    JobShape("full_bf16", WIDE, 4, 256, changes=FULL, dtype="bfloat16"),
    JobShape("full_check", WIDE, 8, 256, changes=FULL | {"activation_checkpointing": True}),
    JobShape("full_dpo", SMALL, 2, 256, method="dpo", changes=FULL),
    JobShape("rehearsal", SMALL, 4, 256, changes={"rehearsal": 1.0}),
    JobShape("full_rehears", SMALL, 4, 256, changes=FULL | {"rehearsal": 1.0}),
)
ALL_NAMES = {shape.name for shape in SHAPES}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shapes", default="", help="names, with commas between; default: all")
    names = set(filter(None, parser.parse_args().shapes.split(",")))
    print(f"{'shape':14} {'plan':>8} {'peak':>8} {'error':>7}   without programs: plan, peak, error")
    errors = [run_shape(shape) for shape in SHAPES if shape.name in (names or ALL_NAMES)]
    return int(max(map(abs, errors)) > MAX_ERROR)


def run_shape(shape: JobShape) -> float:
    """Train, print a line, and return the plan's relative error."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder / "model", shape.model)
        write_rows(folder / "data.jsonl", shape)
        write_spec(folder, shape)
        command = [*module_command("tuning.trainer.job.child"), str(folder)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (folder / PROGRESS_FILE).read_text().splitlines()]
    terms = next(line["plan"] for line in lines if line["type"] == "started")
    peak, total = lines[-1]["peak_bytes"], sum(terms.values())
    programs = terms["programs"]
    error, own_error = total / peak - 1, (total - programs) / (peak - programs) - 1
    print(
        f"{shape.name:14} {total / 1e6:8.0f} {peak / 1e6:8.0f} {error:+7.1%}  "
        f"{(total - programs) / 1e6:8.0f} {(peak - programs) / 1e6:8.0f} {own_error:+7.1%}   "
        + " ".join(f"{name}={size / 1e6:.0f}" for name, size in terms.items()),
        flush=True,
    )
    return error


def save_model(folder: Path, sizes: Mapping[str, int]) -> None:
    """A random Llama with the tokenizer of models/demo."""
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(vocab_size=4096, tie_word_embeddings=True, **sizes)).save_pretrained(folder)
    for name in TOKENIZER_FILES:
        copy(Path("models/demo", name), folder / name)


def write_rows(path: Path, shape: JobShape) -> None:
    rows = [make_row(text, shape.method) for text in texts(shape)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def texts(shape: JobShape) -> Iterator[str]:
    """Texts that take the shape's tokens with the chat template."""
    tokenizer = AutoTokenizer.from_pretrained("models/demo")
    for _ in range(shape.rows * NUM_STEPS * (shape.changes or {}).get("gradient_accumulation_steps", 1)):
        ids = tokenizer.encode("one two three four five six seven " * shape.tokens, add_special_tokens=False)
        yield tokenizer.decode(ids[: shape.tokens - 20])


def make_row(text: str, method: Method) -> dict[str, Any]:
    question, answer_turn = {"role": "user", "content": "Count."}, {"role": "assistant", "content": text}
    if method == "supervised":
        return {"messages": [question, answer_turn]}
    other_turn = {"role": "assistant", "content": text[::-1][: len(text) // 2]}
    return {"prompt": [question], "chosen": [answer_turn], "rejected": [other_turn]}


def write_spec(folder: Path, shape: JobShape) -> None:
    hyperparameters = Hyperparameters(
        n_epochs=1, batch_size=shape.rows, learning_rate=1e-4, **(shape.changes or {})
    )
    spec = JobSpec(
        job_id="measured",
        method=shape.method,
        hyperparameters=hyperparameters,
        seed=0,
        model_folder=str(folder / "model"),
        dtype=shape.dtype,
        chat_template="",
        tokenizer_config_path="",
        trust_remote_code=False,
        initial_adapter="",
        training_file=str(folder / "data.jsonl"),
        validation_file="",
        threads=1,
    )
    write_value(folder / SPEC_FILE, spec)


if __name__ == "__main__":
    sys.exit(main())
