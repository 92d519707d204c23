"""The training loop: documents in, a trained Llama out. Knows tensors and time, not what the text says."""

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from .corpus import Segment

Rows = tuple[torch.Tensor, torch.Tensor]  # ids (B, T) and learnt (B, T)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How long and how fast to train. `tokens` is the size of one step's batch, padding included."""

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
    """Train in place. Progress goes to stderr."""
    optimizers = _optimizers(model, recipe.peak)
    model.train()
    model.set_attn_implementation("eager")  # on short rows and a CPU, 1.7 times as fast as SDPA's backward
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
    """Muon for the matrices inside the layers, AdamW for the rest."""
    named = dict(model.named_parameters())
    inner = [weight for name, weight in named.items() if ".layers." in name and weight.dim() == 2]
    others = [weight for name, weight in named.items() if ".layers." not in name or weight.dim() != 2]
    muon = torch.optim.Muon(inner, lr=rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw")
    return muon, torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.0)


def _loss(model: LlamaForCausalLM, ids: torch.Tensor, learnt: torch.Tensor) -> torch.Tensor:
    """Cross entropy of the learnt tokens; the vocabulary matmul runs for them alone."""
    hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state  # (B, T-1, H)
    wanted = learnt[:, 1:]
    logits = model.lm_head(hidden[wanted]).float()  # (W, V)
    return torch.nn.functional.cross_entropy(logits, ids[:, 1:][wanted])


def _schedule(step: int, recipe: Recipe) -> float:
    if step < recipe.warmup:
        return step / recipe.warmup
    done = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))


def _batches(tokenizer: Tokenizer, documents: Iterator[list[Segment]], recipe: Recipe) -> Iterator[Rows]:
    """Documents of like length together, so that little is padding; the order of batches is drawn."""
    while True:
        encoded = sorted(
            _encode(tokenizer, list(islice(documents, recipe.chunk)), recipe.longest), key=_length
        )
        rows = list(_packed(encoded, recipe.tokens))
        for index in torch.randperm(len(rows)).tolist():
            yield rows[index]


def _length(document: tuple[list[int], list[bool]]) -> int:
    return len(document[0])


def _encode(
    tokenizer: Tokenizer, documents: list[list[Segment]], longest: int
) -> Iterator[tuple[list[int], list[bool]]]:
    texts = [text for document in documents for text, _ in document]
    pieces = iter(tokenizer.encode_batch(texts, add_special_tokens=False))
    for document in documents:
        ids: list[int] = []
        learnt: list[bool] = []
        for _, chosen in document:
            piece = next(pieces).ids
            ids += piece
            learnt += [chosen] * len(piece)
        yield ids[:longest], learnt[:longest]


def _packed(encoded: list[tuple[list[int], list[bool]]], tokens: int) -> Iterator[Rows]:
    start = 0
    while start < len(encoded):
        stop = start + 1
        while stop < len(encoded) and len(encoded[stop][0]) * (stop - start + 1) <= tokens:
            stop += 1
        yield _padded(encoded[start:stop])
        start = stop


def _padded(documents: list[tuple[list[int], list[bool]]]) -> Rows:
    width = -(-max(map(_length, documents)) // 8) * 8  # few widths: few sizes for the allocator
    ids = torch.zeros(len(documents), width, dtype=torch.long)
    learnt = torch.zeros(len(documents), width, dtype=torch.bool)
    for row, (tokens, chosen) in enumerate(documents):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        learnt[row, : len(chosen)] = torch.tensor(chosen)
    return ids, learnt


def _report(step: int, recipe: Recipe, loss: float, elapsed: float) -> None:
    rate = step / elapsed
    left = (recipe.steps - step) / rate
    print(
        f"step {step}/{recipe.steps} loss {loss:.4f} {rate:.2f} steps/s",
        f"elapsed {elapsed:.0f} s eta {left:.0f} s cpu {time.process_time():.0f} s",
        file=sys.stderr,
        flush=True,
    )
