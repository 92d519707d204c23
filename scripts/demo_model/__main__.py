"""Makes models/demo, the tiny model that the server loads by default: trains it, writes it and tests it.

    python -m scripts.demo_model            train, write and test (about 20 minutes on two idle cores)
    python -m scripts.demo_model --check    only test the model

Exit code 1 if the model fails the test (exam.py); it is written in any case.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaForCausalLM
from transformers import PreTrainedTokenizerFast as Fast

from scripts.demo_model.corpus import documents
from scripts.demo_model.exam import Mark, items, score, sit
from scripts.demo_model.tokens import ENDS, train_tokenizer
from scripts.demo_model.train import Recipe, build, train

HOME = Path(__file__).resolve().parents[2] / "models" / "demo"
VOCABULARY = 2048
PASS_SHARE = 0.95
POLISH = Recipe(1100, peak=1.5e-3, warmup=50)


def main() -> int:
    args = _parse_args()
    torch.set_num_threads(args.threads)
    if not args.check:
        make(args.out, args.seed, args.steps)
    return examine(args.out, args.seed)


def make(home: Path, seed: int, steps: int) -> None:
    """Train tokenizer and model and write them to `home`. The same seed and torch give the same model."""
    torch.manual_seed(seed)
    untrained = train_tokenizer([""], 300)

    def render(messages: list, tools: list | None) -> str:
        return untrained.apply_chat_template(messages, tools=tools, tokenize=False)

    sample = islice(documents(seed, render), 20_000)
    tokenizer = train_tokenizer((text for document in sample for text, _ in document), VOCABULARY)
    model = build(len(tokenizer), tokenizer.bos_token_id, tokenizer.convert_tokens_to_ids(list(ENDS)))
    _log(f"{model.num_parameters():,} parameters, {len(tokenizer):,} tokens, {steps} steps")
    train(model, tokenizer.backend_tokenizer, documents(seed + 1, render), Recipe(steps))
    # Continue on new text with a smaller learning rate, which improves answers to rare questions most.
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
    """Print the exam's results in float32 and in bfloat16. Returns 0 if the model passes both."""
    tokenizer = AutoTokenizer.from_pretrained(home)
    has_passed = True
    for dtype in (torch.float32, torch.bfloat16):
        model = AutoModelForCausalLM.from_pretrained(home, dtype=dtype).eval()
        started = time.monotonic()
        marks = list(sit(model, tokenizer, items(seed, each)))
        has_passed &= _report(marks, f"{dtype}, {time.monotonic() - started:.0f} s")
    return 0 if has_passed else 1


def _report(marks: Sequence[Mark], title: str) -> bool:
    for mark in marks:
        if not mark.is_right:
            last = mark.item.prompt if isinstance(mark.item.prompt, str) else mark.item.prompt[-1]["content"]
            _log(f"wrong  {mark.item.subject}: {json.dumps(last)} → {json.dumps(mark.answer_text)}")
    for subject, (num_right, total) in score(marks).items():
        _log(f"{subject:15} {num_right:3}/{total}")
    share = sum(mark.is_right for mark in marks) / len(marks)
    _log(f"{title}: {share:.1%} of {len(marks)} right")
    return share >= PASS_SHARE


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only test the model in --out")
    parser.add_argument("--out", type=Path, default=HOME, help="the model's folder (default: models/demo)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4500, help="training steps (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default: %(default)s)")
    return parser.parse_args()


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
