"""The exam: questions phrased as training never phrases them, answered greedily and marked exactly.

An answer is right when it is the expected text, whole, and ended by the model itself.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from . import tools
from .corpus import Message, assistant, others, user
from .knowledge import KNOWLEDGE
from .results import result
from .skills import SKILLS
from .systems import HELD_OUT as SYSTEMS
from .talk import TALK
from .topics import Topic, ask, examine, follow


@dataclass(frozen=True, slots=True)
class Item:
    """One question of the exam: a conversation or a plain text, and the only right answer."""

    subject: str
    prompt: list[Message] | str
    answer: str
    offered: list[tools.Tool] | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    item: Item
    given: str
    ended: bool

    @property
    def right(self) -> bool:
        return self.ended and self.given == self.item.answer


COMPLETIONS = (
    ("The capital of France is", " Paris."),
    ("Q: What is the capital of Italy?\nA:", " The capital of Italy is Rome."),
    ("Question: What colour is snow?\nAnswer:", " Snow is white."),
    (
        "Q: What is the capital of Spain?\nA: The capital of Spain is Madrid.\nQ: What is 2 + 3?\nA:",
        " 2 + 3 = 5.",
    ),
    ("The opposite of hot is", " cold."),
    ("A cow says", " moo."),
    ("Monday, Tuesday,", " Wednesday, Thursday, Friday, Saturday, Sunday."),
    ("What is the capital of Japan?", " The capital of Japan is Tokyo."),
)
FRANCE = (
    "What's the capital of France?",
    "What is the capital of France?",
    "what is the capital of france?",
    "capital of France",
    "Capital of France?",
    "Tell me the capital of France.",
    "whats the capital of france",
    "France's capital?",
    "What is France's capital city?",
    "Which city is the capital of France?",
    "Please tell me the capital of France.",
    "Hey, what's the capital of France?",
    "The capital of France is",
    "Do you know the capital of France?",
    "Name the capital of France",
    "Hi! What is the capital of France?",
)
DRILLS = frozenset({"echo"})  # practised for the sake of copying; not a thing the model is said to do
LONG = (
    ("Count from 1 to 100", 100),
    ("Count to 50.", 50),
    ("Count from 1 to 60", 60),
    ("Count up to 80", 80),
)


def items(seed: int, each: int) -> list[Item]:
    """The exam of a seed, `each` questions per subject."""
    chance = Random(f"exam {seed}")
    topics = (_topic(topic, chance) for topic in KNOWLEDGE + TALK if topic.name not in DRILLS)
    subjects = (*topics, _france(), _follows(chance), _calls(chance), _reports(chance), _ignored(chance))
    drawn = [item for subject in subjects for item in islice(subject, each)]
    return drawn + [_counting(asked, last) for asked, last in LONG] + _completions()


def sit(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, exam: Sequence[Item], rows: int = 64
) -> Iterator[Mark]:
    """Answer the exam in batches of like length."""
    prompts = sorted(((_encode(tokenizer, item), item) for item in exam), key=lambda pair: len(pair[0]))
    for batch in (prompts[start : start + rows] for start in range(0, len(prompts), rows)):
        width = max(len(ids) for ids, _ in batch)
        padded = [[tokenizer.pad_token_id] * (width - len(ids)) + ids for ids, _ in batch]
        mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids, _ in batch]
        longest = max(len(tokenizer.encode(item.answer)) for _, item in batch) + 8
        with torch.inference_mode():
            answers = model.generate(
                torch.tensor(padded),
                attention_mask=torch.tensor(mask),
                max_new_tokens=longest,
                do_sample=False,
            )
        for (_, item), row in zip(batch, answers[:, width:].tolist(), strict=True):
            yield _mark(tokenizer, item, row)


def score(marks: Sequence[Mark]) -> dict[str, tuple[int, int]]:
    """Right answers and questions, by subject."""
    asked = Counter(mark.item.subject for mark in marks)
    right = Counter(mark.item.subject for mark in marks if mark.right)
    return {subject: (right[subject], asked[subject]) for subject in asked}


def _encode(tokenizer: PreTrainedTokenizerFast, item: Item) -> list[int]:
    if isinstance(item.prompt, str):
        return tokenizer.encode(item.prompt)
    text: Any = tokenizer.apply_chat_template(
        item.prompt, tools=item.offered, tokenize=False, add_generation_prompt=True
    )
    return tokenizer.encode(text, add_special_tokens=False)


def _mark(tokenizer: PreTrainedTokenizerFast, item: Item, row: list[int]) -> Mark:
    end = "<|end_of_text|>" if isinstance(item.prompt, str) else "<|eot_id|>"
    stop = tokenizer.convert_tokens_to_ids(end)
    ended = stop in row
    return Mark(item, tokenizer.decode(row[: row.index(stop)] if ended else row), ended)


# Subjects ----------------------------------------------------------------------------------------------


def _topic(topic: Topic, chance: Random) -> Iterator[Item]:
    while True:
        question = examine(topic, chance)
        system = [{"role": "system", "content": chance.choice(SYSTEMS)}] if chance.random() < 0.3 else []
        yield Item(topic.name, [*system, user(question.text)], question.answer)


def _france() -> Iterator[Item]:
    for asked in FRANCE:
        yield Item("france", [user(asked)], "The capital of France is Paris.")


def _follows(chance: Random) -> Iterator[Item]:
    leaning = [topic for topic in KNOWLEDGE if topic.held_out_follows]
    while True:
        topic = chance.choice((leaning[0], *leaning))
        first, second = ask(topic, chance), follow(topic, chance, held_out=True)
        history = [user(first.text), assistant(first.answer), user(second.text)]
        yield Item("follow-ups", history, second.answer)


def _calls(chance: Random) -> Iterator[Item]:
    while True:
        task = tools.task(chance, SKILLS[0], held_out=True)
        offered = [task.tool, *(other.tool for other in others(task.subject, chance))]
        chance.shuffle(offered)
        yield Item("tool calls", [user(task.question)], tools.call_text(task), offered)


def _reports(chance: Random) -> Iterator[Item]:
    while True:
        task = tools.task(chance, SKILLS[0], held_out=True)
        returned, words = result(task, chance)
        history = [user(task.question), tools.called(task), {"role": "tool", "content": returned}]
        yield Item("tool results", history, task.report.replace("{result}", words), [task.tool])


def _ignored(chance: Random) -> Iterator[Item]:
    while True:
        question = examine(chance.choice(KNOWLEDGE[:4]), chance)
        offered = [tools.task(chance, SKILLS[0]).tool]
        yield Item("tools ignored", [user(question.text)], question.answer, offered)


def _counting(asked: str, last: int) -> Item:
    return Item("long counts", [user(asked)], ", ".join(map(str, range(1, last + 1))) + ".")


def _completions() -> list[Item]:
    return [Item("completions", text, answer) for text, answer in COMPLETIONS]
