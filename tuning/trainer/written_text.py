"""Text that a model writes by itself: prompts that begin as those of a job do, and its answers to them.

A prompt is cut at a random place, and the model goes on. Cut after its first token, that is any text; within
the header of a user's turn, whatever users ask (Magpie: Xu et al. 2024, arXiv:2406.08464); later, a question
of the same kind. Knows token ids and transformers' `generate`; neither text nor chat templates.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from transformers import GenerationConfig

from tuning.trainer.model.base_model import BaseModel

MAX_GIVEN_TOKENS = 64  # of a prompt's beginning
MAX_PROMPT_TOKENS = 24  # that the model adds to it
MAX_ANSWER_TOKENS = 64
SAMPLED_ROWS = 64  # texts that are written at once

Report = Callable[[int], None]  # called with how many texts are written so far


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A prefix, and what the model wrote after it.

    token_ids: more than one; the model wrote those after the first prefix_length.
    """

    token_ids: list[int]
    prefix_length: int


def common_ending(prompts: Sequence[Sequence[int]]) -> list[int]:
    """The tokens that end all prompts, such as the header of the answer; none if there is only one prompt."""
    different = {tuple(prompt) for prompt in prompts}
    shortest = min(different, key=len)
    length = 0
    while len(different) > 1 and length < len(shortest) - 1:
        if len({prompt[-1 - length] for prompt in different}) > 1:
            break
        length += 1
    return list(shortest[len(shortest) - length :])


def longest_text(longest_row: int) -> int:
    """The most tokens of a text beside rows of so many tokens: a beginning and an ending are within a row."""
    return min(longest_row, 2 * MAX_GIVEN_TOKENS) + MAX_PROMPT_TOKENS + MAX_ANSWER_TOKENS


def write_prompts(
    base: BaseModel,
    prompts: Sequence[Sequence[int]],
    ending: Sequence[int],
    num_texts: int,
    random: Random,
    report: Report = lambda num_written: None,
) -> list[WrittenText]:
    """Beginnings of random prompts, with what the model makes of them, up to where `ending` would begin."""
    beginnings = []
    for _ in range(num_texts):
        prompt = random.choice(prompts)
        length = random.randint(1, max(1, min(len(prompt) - len(ending), MAX_GIVEN_TOKENS)))
        beginnings.append(list(prompt[:length]))
    stops = {*end_tokens(base), *ending[:1]}
    continuations = sample(base, beginnings, MAX_PROMPT_TOKENS, report)
    return [
        WrittenText(beginning + until(new, stops), len(beginning))
        for beginning, new in zip(beginnings, continuations, strict=True)
    ]


def write_answers(
    base: BaseModel,
    prompts: Sequence[WrittenText],
    ending: Sequence[int],
    report: Report = lambda num_written: None,
) -> list[WrittenText]:
    """The prompts with the ending and the model's answers; each once, and none without a written token."""
    questions = [[*prompt.token_ids, *ending] for prompt in prompts]
    replies = sample(base, questions, MAX_ANSWER_TOKENS, report)
    texts = {
        tuple(ids + reply): WrittenText(ids + reply, prompt.prefix_length)
        for prompt, ids, reply in zip(prompts, questions, replies, strict=True)
    }
    return [text for text in texts.values() if len(text.token_ids) > text.prefix_length]


@torch.no_grad()
def sample(
    base: BaseModel,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    report: Report = lambda num_written: None,
) -> list[list[int]]:
    """What the model writes after each prompt, an end token included."""
    ends, written = end_tokens(base), list[list[int]]()
    config = GenerationConfig(
        max_new_tokens=max_tokens,
        do_sample=True,
        top_k=0,
        eos_token_id=sorted(ends) or None,
        pad_token_id=min(ends, default=0),
    )
    for first in range(0, len(prompts), SAMPLED_ROWS):
        rows = prompts[first : first + SAMPLED_ROWS]
        width = max(map(len, rows))
        ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in rows], device=base.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=base.device)
        output = base.causal.generate(ids, attention_mask=mask, generation_config=config)
        written += [until(row, ends, included=True) for row in output[:, width:].tolist()]
        report(len(written))
    return written


def until(ids: list[int], stops: Collection[int], *, included: bool = False) -> list[int]:
    """The ids before the first one of `stops`."""
    place = next((index for index, token_id in enumerate(ids) if token_id in stops), len(ids))
    return ids[: place + included]


def end_tokens(base: BaseModel) -> set[int]:
    ids: Any = base.causal.generation_config.eos_token_id
    if ids is None:
        return set()
    return set(ids) if isinstance(ids, list) else {ids}
