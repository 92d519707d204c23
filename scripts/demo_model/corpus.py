"""Generates the training text of the demo model: an endless, seeded stream of conversations and plain texts.

Knows topics, tools and stories; does not know tokens. A document is a list of text segments; only segments
marked as learnt count for the loss.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from scripts.demo_model import tools
from scripts.demo_model.facts import DAYS, MONTHS
from scripts.demo_model.knowledge import KNOWLEDGE
from scripts.demo_model.phrasing import expand, untidy
from scripts.demo_model.skills import TIME_TOOL, WEATHER_TOOL
from scripts.demo_model.small_talk import TALK
from scripts.demo_model.stories import HEROES, story
from scripts.demo_model.stories import PHRASINGS as STORY_PHRASINGS
from scripts.demo_model.systems import system_prompt
from scripts.demo_model.tool_results import make_result
from scripts.demo_model.topics import Question, Topic, ask, follow, tell

Message = dict[str, Any]
Segment = tuple[str, bool]  # text, and whether it counts for the loss
Render = Callable[[list[Message], list[tools.Tool] | None], str]

LEARNT = re.compile(
    r"(?<=<\|start_header_id\|>assistant<\|end_header_id\|>\n\n)(.*?<\|eot_id\|>)", flags=re.DOTALL
)
FORCED = "\0"  # in an assistant's message: the text before this mark is not learnt

WEIGHTS = {
    "capitals": 5.0,
    "countries": 4.0,
    "opposites": 2.0,
    "sums": 3.0,
    "counting": 5.0,
    "counting to": 4.0,
    "counting down": 2.0,
    "spelling": 1.5,
    "unknown": 3.0,
    "who": 3.0,
    "abilities": 3.0,
    "echo": 2.0,
    "greetings": 2.5,
    "thanks": 2.0,
    "names": 2.5,
}
COUNTING = frozenset({"counting", "counting to", "counting down"})
JSON_PHRASINGS = (
    'answer in JSON with the key "{key}": {question}',
    "answer in JSON with the key {key}: {question}",
    "{question} answer in JSON with the key {key}.",
    "{question} reply [as|in] JSON with [the |]key {key}.",
    'give the answer as JSON with key "{key}". {question}',
    "{question} use JSON with the key {key}.",
    "JSON with the key {key}: {question}",
)
JSON_KEYS = ("answer", "value", "result", "text", "response", "capital", "name", "city", "word", "output")


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation, and the tools in its request."""

    messages: list[Message]
    tools_offered: list[tools.Tool] | None = None


def documents(seed: int, render: Render) -> Iterator[list[Segment]]:
    """An endless stream of documents. `render` applies the chat template."""
    rng = Random(seed)
    makers, weights = zip(*MIX, strict=True)
    while True:
        document = rng.choices(makers, weights)[0](rng)
        if isinstance(document, Chat):
            yield _segments(document, render, rng)
        else:
            yield [("<|begin_of_text|>", False), *document, ("<|end_of_text|>", True)]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _segments(chat: Chat, render: Render, rng: Random) -> list[Segment]:
    messages = chat.messages
    if rng.random() < 0.25:
        messages = [{"role": "system", "content": system_prompt(rng)}, *messages]
    sections = LEARNT.split(render(messages, chat.tools_offered))
    segments: list[Segment] = []
    for index, section in enumerate(sections):
        forced, separator, learnt = section.partition(FORCED)
        segments += [(forced, False), (learnt, True)] if separator else [(section, index % 2 == 1)]
    return [segment for segment in segments if segment[0]]


# Kinds of documents ------------------------------------------------------------------------------------


def _topic(rng: Random, among: tuple[Topic, ...] = KNOWLEDGE + TALK) -> Topic:
    return rng.choices(among, [WEIGHTS.get(topic.name, 1.0) for topic in among])[0]


def _exchange(question: Question) -> list[Message]:
    return [user(question.text), assistant(question.answer_text)]


def _single_question(rng: Random) -> Chat:
    return Chat(_exchange(ask(_topic(rng, KNOWLEDGE), rng)))


def _small_talk(rng: Random) -> Chat:
    return Chat(_exchange(ask(_topic(rng, TALK), rng)))


def _several_questions(rng: Random) -> Chat:
    """A few questions in a row, some of them follow-ups."""
    messages: list[Message] = []
    for _ in range(rng.randint(1, 3)):
        topic = _topic(rng)
        messages += _exchange(ask(topic, rng))
        while topic.follow_ups and rng.random() < 0.6:
            messages += _exchange(follow(topic, rng))
    return Chat(messages)


def _tool_call(rng: Random) -> Chat:
    """A question that needs a tool, and the call; often also the result and the answer."""
    task = tools.make_task(rng)
    tools_offered = [task.tool, *(task.tool for task in unrelated_tasks(task.subject, rng))]
    rng.shuffle(tools_offered)
    messages = _exchange(ask(_topic(rng), rng)) if rng.random() < 0.1 else []
    messages += [user(task.question), tools.call_message(task)]
    if rng.random() < 0.5:
        tool_output, result_text = make_result(task, rng)
        messages += [
            {"role": "tool", "content": tool_output},
            assistant(task.report.replace("{result}", result_text)),
        ]
        if rng.random() < 0.25:
            messages += _exchange(ask(_topic(rng, KNOWLEDGE), rng))
    return Chat(messages, tools_offered)


def unrelated_tasks(subject: str, rng: Random) -> list[tools.ToolTask]:
    """Up to three tasks whose tools are for other subjects."""
    tasks = (tools.make_task(rng) for _ in range(rng.choice((0, 0, 1, 1, 2, 3))))
    return [task for task in tasks if task.subject != subject]


def _unused_tools(rng: Random) -> Chat:
    """A question with tools in the request, none of which can answer it."""
    tools_offered = [tools.make_task(rng) for _ in range(rng.randint(1, 3))]
    avoid = {TOPIC_OF.get(task.subject) for task in tools_offered} | {"unknown"}
    topic = _topic(rng)
    while topic.name in avoid:
        topic = _topic(rng)
    return Chat(_exchange(ask(topic, rng)), [task.tool for task in tools_offered])


def _one_word_answer(rng: Random) -> Chat:
    """An answer in one word: mostly on request; sometimes without, so that the word is a likely answer."""
    question = ask(_topic(rng, SHORT), rng)
    if rng.random() < 0.15:
        return Chat([user(question.text), assistant(question.short_answer)])
    instruction = rng.choice(("Answer in one word:", "In one word:", "One word only.", "Only the answer:"))
    text = (
        f"{instruction} {question.text}"
        if rng.random() < 0.6
        else f"{question.text} {instruction.rstrip(':')}"
    )
    return Chat([user(text), assistant(question.short_answer)])


def _json_answer(rng: Random) -> Chat:
    question = ask(_topic(rng, SHORT), rng)
    key = rng.choice((*JSON_KEYS, question.topic.split()[0]))
    answer_json = json.dumps({key: question.short_answer}, ensure_ascii=False)
    if rng.random() < 0.4:
        split_at = answer_json.index(": ") + 3
        return Chat(
            [user(question.text), assistant(answer_json[:split_at] + FORCED + answer_json[split_at:])]
        )
    text = expand(rng.choice(JSON_PHRASINGS), rng).format(key=key, question=question.text)
    return Chat([user(text), assistant(answer_json)])


def _story_chat(rng: Random) -> Chat:
    hero = rng.choice(("a", "the")) + " " + rng.choice(HEROES)
    request = expand(rng.choice(STORY_PHRASINGS), rng).format(hero=hero)
    return Chat(
        [user(untidy(request[:1].upper() + request[1:], ("story", "tale"), rng)), assistant(story(rng))]
    )


def _plain_text(rng: Random) -> list[Segment]:
    """A plain text, for completion routes."""
    match rng.randrange(7):
        case 0 | 1:
            return [(tell(_topic(rng, KNOWLEDGE), rng), True)]
        case 2:
            question = ask(_topic(rng), rng)
            return [(question.text, False), (f" {question.answer_text}", True)]
        case 3:
            return [(rng.choice(("", "A story: ")), False), (story(rng), True)]
        case 4:
            return [(_sequence(rng), True)]
        case 5:
            facts = [tell(_topic(rng, KNOWLEDGE), rng) for _ in range(2)]
            return [(rng.choice((" ", "\n")).join(facts), True)]
    return _question_list(rng)


def _question_list(rng: Random) -> list[Segment]:
    asker, answerer = rng.choice((("Q", "A"), ("Question", "Answer"), ("User", "Assistant"), ("Human", "AI")))
    segments: list[Segment] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        question = ask(_topic(rng), rng)
        gap = "\n" if segments else ""
        segments += [
            (f"{gap}{asker}: {question.text}\n{answerer}:", False),
            (f" {question.answer_text}", True),
        ]
    return segments


def _sequence(rng: Random) -> str:
    """A text of numbers, days or months in order."""
    from_, to = rng.randint(0, 20), rng.choice((10, 20, 30, 50, 100))
    cycle = rng.choice((DAYS, MONTHS))
    if rng.random() < 0.6:
        return ", ".join(str(number) for number in range(from_, max(to, from_ + 10) + 1))
    return ", ".join(cycle[rng.randrange(len(cycle) - 1) :]) + "."


TOPIC_OF = {WEATHER_TOOL: "weather", TIME_TOOL: "time", "add": "sums"}
SHORT = tuple(topic for topic in KNOWLEDGE if topic.short_answer and topic.name not in COUNTING)
MIX: tuple[tuple[Callable[[Random], Chat | list[Segment]], float], ...] = (
    (_single_question, 40),
    (_small_talk, 14),
    (_several_questions, 14),
    (_tool_call, 18),
    (_unused_tools, 4),
    (_plain_text, 10),
    (_json_answer, 5),
    (_one_word_answer, 2),
    (_story_chat, 2),
)
