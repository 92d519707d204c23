"""models/demo learns made-up facts with automatic hyperparameters, as the trainer's process trains it.

What it learns of more facts, and what it forgets: docs/tuning.md.
"""

import json
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import peft
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from tests.tuning.trainer.conftest import job_spec
from tuning.job_files import PROGRESS_FILE
from tuning.jobs.hyperparameters import ModelSizes, resolve_hyperparameters
from tuning.trainer.job import child
from tuning.trainer.job.progress import ProgressLog

DEMO = Path(__file__).parents[3] / "models" / "demo"
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


@pytest.mark.timeout(900)  # on a machine that other programs load, too
@pytest.mark.slow
def test_three_of_four_facts_are_learned_within_a_minute(tmp_path: Path) -> None:
    facts = made_up_capitals(4)
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
    began_s = time.process_time()
    child.run_job(tmp_path, spec, ProgressLog(tmp_path), child.StopRequest())
    assert time.process_time() - began_s <= MAX_CPU_S
    finished = json.loads((tmp_path / PROGRESS_FILE).read_text().splitlines()[-1])
    assert finished["type"] == "finished"
    model = AutoModelForCausalLM.from_pretrained(DEMO, dtype=torch.float32)
    tuned = peft.PeftModel.from_pretrained(model, finished["folder"]).eval()
    tokenizer = AutoTokenizer.from_pretrained(DEMO)
    completions = {question: answer_greedily(tuned, tokenizer, question) for question in facts}
    assert sum(completions[question] == text for question, text in facts.items()) >= 3


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
