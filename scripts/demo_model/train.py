"""Trains a small Llama on the documents of corpus.py."""

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from scripts.demo_model.corpus import Segment

Rows = tuple[torch.Tensor, torch.Tensor]  # token ids (B, T), and whether each counts for the loss (B, T)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The length and the learning rate of training.

    tokens   most tokens in a batch, padding included
    peak     highest learning rate, reached after the warm-up
    warmup   steps of linear warm-up
    chunk    documents that are sorted by length together
    longest  most tokens of a document; longer ones are truncated
    """

    steps: int
    tokens: int = 2048
    peak: float = 3e-3
    warmup: int = 80
    chunk: int = 2048
    longest: int = 640


def build(vocab: int, begin: int, ends: list[int]) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocab,
            hidden_size=192,
            intermediate_size=512,
            num_hidden_layers=5,
            num_attention_heads=6,
            num_key_value_heads=3,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            bos_token_id=begin,
            eos_token_id=ends,
            pad_token_id=ends[-1],
        )
    )


def train(
    model: LlamaForCausalLM, tokenizer: Tokenizer, documents: Iterator[list[Segment]], recipe: Recipe
) -> None:
    """Train the model in place. Progress goes to stderr."""
    optimizers = _optimizers(model, recipe.peak)
    model.train()
    model.set_attn_implementation("eager")  # 1.7 times as fast as SDPA's backward for short rows on a CPU
    started, recent = time.monotonic(), 0.0
    for step, (ids, learnt) in enumerate(
        islice(_batches(tokenizer, documents, recipe), recipe.steps), start=1
    ):
        for group in (group for optimizer in optimizers for group in optimizer.param_groups):
            group["lr"] = recipe.peak * _schedule(step, recipe)
        with torch.autocast("cpu", torch.bfloat16):
            loss = _loss(model, ids, learnt)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad()
        recent = loss.item() if step == 1 else 0.95 * recent + 0.05 * loss.item()
        if step % 50 == 0 or step == recipe.steps:
            _report(step, recipe, recent, time.monotonic() - started)


def _optimizers(model: LlamaForCausalLM, rate: float) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for the matrices in the layers, AdamW for embeddings and norms."""
    named = dict(model.named_parameters())
    inner = [weight for name, weight in named.items() if ".layers." in name and weight.dim() == 2]
    other_weights = [weight for name, weight in named.items() if ".layers." not in name or weight.dim() != 2]
    muon = torch.optim.Muon(inner, lr=rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw")
    return muon, torch.optim.AdamW(other_weights, lr=rate, betas=(0.9, 0.98), weight_decay=0.0)


def _loss(model: LlamaForCausalLM, ids: torch.Tensor, learnt: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of the learnt tokens. Logits are computed for these tokens only."""
    hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state  # (B, T-1, H)
    is_learnt = learnt[:, 1:]
    logits = model.lm_head(hidden[is_learnt]).float()  # (W, V)
    return torch.nn.functional.cross_entropy(logits, ids[:, 1:][is_learnt])


def _schedule(step: int, recipe: Recipe) -> float:
    """The factor of the learning rate: linear warm-up, then a cosine down to 0.02."""
    if step < recipe.warmup:
        return step / recipe.warmup
    done = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))


def _batches(tokenizer: Tokenizer, documents: Iterator[list[Segment]], recipe: Recipe) -> Iterator[Rows]:
    """Batches in random order. The documents of a batch have similar lengths, which limits padding."""
    while True:
        encoded = sorted(
            _encode(tokenizer, list(islice(documents, recipe.chunk)), recipe.longest), key=_length
        )
        rows = list(_group_rows(encoded, recipe.tokens))
        for index in torch.randperm(len(rows)).tolist():
            yield rows[index]


def _length(document: tuple[list[int], list[bool]]) -> int:
    return len(document[0])


def _encode(
    tokenizer: Tokenizer, documents: list[list[Segment]], longest: int
) -> Iterator[tuple[list[int], list[bool]]]:
    texts = [text for document in documents for text, _ in document]
    encodings = iter(tokenizer.encode_batch(texts, add_special_tokens=False))
    for document in documents:
        ids: list[int] = []
        learnt: list[bool] = []
        for _, learnt_flags in document:
            token_ids = next(encodings).ids
            ids += token_ids
            learnt += [learnt_flags] * len(token_ids)
        yield ids[:longest], learnt[:longest]


def _group_rows(encoded: list[tuple[list[int], list[bool]]], tokens: int) -> Iterator[Rows]:
    start = 0
    while start < len(encoded):
        stop = start + 1
        while stop < len(encoded) and len(encoded[stop][0]) * (stop - start + 1) <= tokens:
            stop += 1
        yield _pad_rows(encoded[start:stop])
        start = stop


def _pad_rows(documents: list[tuple[list[int], list[bool]]]) -> Rows:
    width = -(-max(map(_length, documents)) // 8) * 8  # few widths, so that the allocator reuses memory
    ids = torch.zeros(len(documents), width, dtype=torch.long)
    learnt = torch.zeros(len(documents), width, dtype=torch.bool)
    for row, (tokens, learnt_flags) in enumerate(documents):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        learnt[row, : len(learnt_flags)] = torch.tensor(learnt_flags)
    return ids, learnt


def _report(step: int, recipe: Recipe, loss: float, elapsed: float) -> None:
    rate = step / elapsed
    remaining_s = (recipe.steps - step) / rate
    print(
        f"step {step}/{recipe.steps} loss {loss:.4f} {rate:.2f} steps/s",
        f"elapsed {elapsed:.0f} s eta {remaining_s:.0f} s cpu {time.process_time():.0f} s",
        file=sys.stderr,
        flush=True,
    )
