"""models/demo learns made-up facts with automatic hyperparameters, through the trainer's own process."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from random import Random

import peft
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from inference.process.child_program import module_command
from tests.tuning.trainer.conftest import job_spec
from tuning.job_files import PROGRESS_FILE, SPEC_FILE, write_value
from tuning.jobs.hyperparameters import ModelSizes, resolve_hyperparameters

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "models" / "demo"
SYLLABLES = [
    "ba",
    "co",
    "di",
    "fu",
    "ga",
    "ho",
    "ji",
    "ku",
    "la",
    "me",
    "ni",
    "po",
    "ra",
    "su",
    "ti",
    "vo",
    "wa",
    "zu",
]
MAX_CPU_S = 60


def made_up_capitals(count: int) -> dict[str, str]:
    random = Random(5)

    def draw_name(num_syllables: int) -> str:
        return "".join(random.choice(SYLLABLES) for _ in range(num_syllables)).capitalize()

    pairs = [(draw_name(3), draw_name(2)) for _ in range(count)]
    return {f"What is the capital of {x}?": f"The capital of {x} is {y}." for x, y in pairs}


@pytest.mark.slow
def test_twenty_of_twenty_four_facts_are_learned_within_a_minute(tmp_path: Path) -> None:
    facts = made_up_capitals(24)
    rows = [
        {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": text}]}
        for question, text in facts.items()
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sizes = ModelSizes(hidden_size=192, model_type="llama", context=2048)
    spec = replace(
        job_spec(),
        model_folder=str(DEMO),
        training_file=str(tmp_path / "data.jsonl"),
        hyperparameters=resolve_hyperparameters({}, "supervised", len(rows), sizes),
    )
    write_value(tmp_path / SPEC_FILE, spec)
    before = os.times()
    subprocess.run([*module_command("tuning.trainer.job.child"), str(tmp_path)], cwd=ROOT, check=True)
    after = os.times()
    assert child_s(after) - child_s(before) <= MAX_CPU_S
    finished = json.loads((tmp_path / PROGRESS_FILE).read_text().splitlines()[-1])
    assert finished["type"] == "finished"
    model = AutoModelForCausalLM.from_pretrained(DEMO, dtype=torch.float32)
    tuned = peft.PeftModel.from_pretrained(model, finished["folder"]).eval()
    tokenizer = AutoTokenizer.from_pretrained(DEMO)
    completions = {question: answer_greedily(tuned, tokenizer, question) for question in facts}
    assert sum(completions[question] == text for question, text in facts.items()) >= 20


def child_s(times: os.times_result) -> float:
    """CPU seconds of the children; Windows counts none."""
    return times.children_user + times.children_system


def answer_greedily(tuned: peft.PeftModel, tokenizer: PreTrainedTokenizerFast, question: str) -> str:
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True
    )
    ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False)])
    with torch.inference_mode():
        output = tuned.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=32, do_sample=False
        )
    return tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)
