"""Make models/demo: train the tiny model a fresh machine serves, examine it, and write it.

    python scripts/make_demo_model.py            train, examine, write (about 20 minutes on two idle cores)
    python scripts/make_demo_model.py --check    examine what is there

Exit code 1 when the exam is failed: the model is written all the same, to be looked at.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from demo_model.corpus import documents
from demo_model.exam import Mark, items, score, sit
from demo_model.tokens import ENDS, train_tokenizer
from demo_model.train import Recipe, build, train
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaForCausalLM
from transformers import PreTrainedTokenizerFast as Fast

HOME = Path(__file__).resolve().parent.parent / "models" / "demo"
VOCABULARY = 2048
PASS = 0.95
POLISH = Recipe(1100, peak=1.5e-3, warmup=50)


def main() -> int:
    options = _options()
    torch.set_num_threads(options.threads)
    if not options.check:
        make(options.out, options.seed, options.steps)
    return examine(options.out, options.seed)


def make(home: Path, seed: int, steps: int) -> None:
    """Train tokenizer and model, write them to `home`. Seed, threads and torch the same: the same model."""
    torch.manual_seed(seed)
    blank = train_tokenizer([""], 300)

    def render(messages: list, tools: list | None) -> str:
        return blank.apply_chat_template(messages, tools=tools, tokenize=False)

    sample = islice(documents(seed, render), 20_000)
    tokenizer = train_tokenizer((text for document in sample for text, _ in document), VOCABULARY)
    model = build(len(tokenizer), tokenizer.bos_token_id, tokenizer.convert_tokens_to_ids(list(ENDS)))
    _say(f"{model.num_parameters():,} parameters, {len(tokenizer):,} tokens, {steps} steps")
    train(model, tokenizer.backend_tokenizer, documents(seed + 1, render), Recipe(steps))
    # Once more over new text, in smaller steps: what is asked rarely gains most.
    train(model, tokenizer.backend_tokenizer, documents(seed + 2, render), POLISH)
    write(model, tokenizer, home)


def write(model: LlamaForCausalLM, tokenizer: Fast, home: Path) -> None:
    ends = tokenizer.convert_tokens_to_ids(list(ENDS))
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=ends, pad_token_id=ends[-1], do_sample=False
    )
    model.to(torch.bfloat16).save_pretrained(home)
    tokenizer.save_pretrained(home)


def examine(home: Path, seed: int, each: int = 25) -> int:
    """Print the exam's result by subject, in float32 and in bfloat16; 0 when both pass."""
    tokenizer = AutoTokenizer.from_pretrained(home)
    passed = True
    for dtype in (torch.float32, torch.bfloat16):
        model = AutoModelForCausalLM.from_pretrained(home, dtype=dtype).eval()
        started = time.monotonic()
        marks = list(sit(model, tokenizer, items(seed, each)))
        passed &= _report(marks, f"{dtype}, {time.monotonic() - started:.0f} s")
    return 0 if passed else 1


def _report(marks: Sequence[Mark], title: str) -> bool:
    for mark in marks:
        if not mark.right:
            last = mark.item.prompt if isinstance(mark.item.prompt, str) else mark.item.prompt[-1]["content"]
            _say(f"wrong  {mark.item.subject}: {json.dumps(last)} → {json.dumps(mark.given)}")
    for subject, (right, asked) in score(marks).items():
        _say(f"{subject:15} {right:3}/{asked}")
    share = sum(mark.right for mark in marks) / len(marks)
    _say(f"{title}: {share:.1%} of {len(marks)} right")
    return share >= PASS


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only examine the model in --out")
    parser.add_argument("--out", type=Path, default=HOME, help="the model's folder (default: models/demo)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4500, help="training steps (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default: %(default)s)")
    return parser.parse_args()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
