"""The exam of the demo model: questions in phrasings that training does not use, answered greedily.

An answer is right if it is exactly the expected text and the model ends it with an end token.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from scripts.demo_model import tools
from scripts.demo_model.corpus import Message, assistant, unrelated_tasks, user
from scripts.demo_model.knowledge import KNOWLEDGE
from scripts.demo_model.skills import SKILLS
from scripts.demo_model.small_talk import TALK
from scripts.demo_model.systems import HELD_OUT as SYSTEMS
from scripts.demo_model.tool_results import make_result
from scripts.demo_model.topics import Topic, ask, examine, follow


@dataclass(frozen=True, slots=True)
class Item:
    """A question of the exam. prompt: a conversation, or a plain text to complete."""

    subject: str
    prompt: list[Message] | str
    expected_answer: str
    tools_offered: list[tools.Tool] | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """The model's answer to an item. is_finished: it ended with an end token."""

    item: Item
    answer_text: str
    is_finished: bool

    @property
    def is_right(self) -> bool:
        return self.is_finished and self.answer_text == self.item.expected_answer


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
DRILLS = frozenset({"echo"})  # training in copying; the model need not be able to do it
LONG = (
    ("Count from 1 to 100", 100),
    ("Count to 50.", 50),
    ("Count from 1 to 60", 60),
    ("Count up to 80", 80),
)


def items(seed: int, each: int) -> list[Item]:
    """The questions for a seed: up to `each` per subject, then long counts and completions."""
    rng = Random(f"exam {seed}")
    topics = (_topic(topic, rng) for topic in KNOWLEDGE + TALK if topic.name not in DRILLS)
    france = (Item("france", [user(text)], "The capital of France is Paris.") for text in FRANCE)
    subjects = (*topics, france, _follows(rng), _calls(rng), _reports(rng), _ignored(rng))
    sampled = [item for subject in subjects for item in islice(subject, each)]
    counts = [
        Item("long counts", [user(text)], ", ".join(map(str, range(1, last + 1))) + ".")
        for text, last in LONG
    ]
    completions = [Item("completions", text, expected_answer) for text, expected_answer in COMPLETIONS]
    return sampled + counts + completions


def sit(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, exam: Sequence[Item], rows: int = 64
) -> Iterator[Mark]:
    """Answer the exam in batches of prompts of similar length, `rows` each."""
    prompts = sorted(((_encode(tokenizer, item), item) for item in exam), key=lambda pair: len(pair[0]))
    for batch in (prompts[start : start + rows] for start in range(0, len(prompts), rows)):
        width = max(len(ids) for ids, _ in batch)
        padded = [[tokenizer.pad_token_id] * (width - len(ids)) + ids for ids, _ in batch]
        mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids, _ in batch]
        longest = max(len(tokenizer.encode(item.expected_answer)) for _, item in batch) + 8
        with torch.inference_mode():
            output_ids = model.generate(
                torch.tensor(padded),
                attention_mask=torch.tensor(mask),
                max_new_tokens=longest,
                do_sample=False,
            )
        for (_, item), row in zip(batch, output_ids[:, width:].tolist(), strict=True):
            yield _mark(tokenizer, item, row)


def score(marks: Sequence[Mark]) -> dict[str, tuple[int, int]]:
    """By subject: the number of right answers, and of questions."""
    num_questions = Counter(mark.item.subject for mark in marks)
    num_right = Counter(mark.item.subject for mark in marks if mark.is_right)
    return {subject: (num_right[subject], num_questions[subject]) for subject in num_questions}


def _encode(tokenizer: PreTrainedTokenizerFast, item: Item) -> list[int]:
    if isinstance(item.prompt, str):
        return tokenizer.encode(item.prompt)
    text: Any = tokenizer.apply_chat_template(
        item.prompt, tools=item.tools_offered, tokenize=False, add_generation_prompt=True
    )
    return tokenizer.encode(text, add_special_tokens=False)


def _mark(tokenizer: PreTrainedTokenizerFast, item: Item, row: list[int]) -> Mark:
    end = "<|end_of_text|>" if isinstance(item.prompt, str) else "<|eot_id|>"
    stop = tokenizer.convert_tokens_to_ids(end)
    is_finished = stop in row
    return Mark(item, tokenizer.decode(row[: row.index(stop)] if is_finished else row), is_finished)


# Subjects ----------------------------------------------------------------------------------------------


def _topic(topic: Topic, rng: Random) -> Iterator[Item]:
    while True:
        question = examine(topic, rng)
        system = [{"role": "system", "content": rng.choice(SYSTEMS)}] if rng.random() < 0.3 else []
        yield Item(topic.name, [*system, user(question.text)], question.answer_text)


def _follows(rng: Random) -> Iterator[Item]:
    with_follow_ups = [topic for topic in KNOWLEDGE if topic.held_out_follow_ups]
    while True:
        topic = rng.choice((with_follow_ups[0], *with_follow_ups))
        first, second = ask(topic, rng), follow(topic, rng, held_out=True)
        history = [user(first.text), assistant(first.answer_text), user(second.text)]
        yield Item("follow-ups", history, second.answer_text)


def _calls(rng: Random) -> Iterator[Item]:
    while True:
        task = tools.make_task(rng, SKILLS[0], held_out=True)
        tools_offered = [task.tool, *(other.tool for other in unrelated_tasks(task.subject, rng))]
        rng.shuffle(tools_offered)
        yield Item("tool calls", [user(task.question)], tools.call_text(task), tools_offered)


def _reports(rng: Random) -> Iterator[Item]:
    while True:
        task = tools.make_task(rng, SKILLS[0], held_out=True)
        tool_output, result_text = make_result(task, rng)
        history = [user(task.question), tools.call_message(task), {"role": "tool", "content": tool_output}]
        yield Item("tool results", history, task.report.replace("{result}", result_text), [task.tool])


def _ignored(rng: Random) -> Iterator[Item]:
    while True:
        question = examine(rng.choice(KNOWLEDGE[:4]), rng)
        tools_offered = [tools.make_task(rng, SKILLS[0]).tool]
        yield Item("tools ignored", [user(question.text)], question.answer_text, tools_offered)
