"""The text the demo model is trained on: an endless, seeded stream of conversations and plain texts.

Knows topics, tools and stories; does not know tokens. A document is segments of text, each learnt or only
read.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from . import tools
from .facts import DAYS, MONTHS
from .knowledge import KNOWLEDGE
from .phrasing import expand, untidy
from .results import result
from .skills import TIME_TOOL, WEATHER_TOOL
from .stories import ASKS as STORY_ASKS
from .stories import HEROES, story
from .systems import system_prompt
from .talk import TALK
from .topics import Question, Topic, ask, follow, tell

Message = dict[str, Any]
Segment = tuple[str, bool]  # text, learnt
Render = Callable[[list[Message], list[tools.Tool] | None], str]

LEARNT = re.compile(
    r"(?<=<\|start_header_id\|>assistant<\|end_header_id\|>\n\n)(.*?<\|eot_id\|>)", flags=re.DOTALL
)
GIVEN = "\0"  # in an assistant's turn, what stands before it was forced, not chosen: it is not learnt

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
JSON_ASKS = (
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
    messages: list[Message]
    offered: list[tools.Tool] | None = None


def documents(seed: int, render: Render) -> Iterator[list[Segment]]:
    """Documents without end. `render` is the chat template."""
    chance = Random(seed)
    makers, weights = zip(*MIX, strict=True)
    while True:
        made = chance.choices(makers, weights)[0](chance)
        yield _segments(made, render, chance) if isinstance(made, Chat) else _plain(made)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _plain(segments: list[Segment]) -> list[Segment]:
    return [("<|begin_of_text|>", False), *segments, ("<|end_of_text|>", True)]


def _segments(chat: Chat, render: Render, chance: Random) -> list[Segment]:
    messages = chat.messages
    if chance.random() < 0.25:
        messages = [{"role": "system", "content": system_prompt(chance)}, *messages]
    pieces = LEARNT.split(render(messages, chat.offered))
    segments: list[Segment] = []
    for index, piece in enumerate(pieces):
        given, mark, chosen = piece.partition(GIVEN)
        segments += [(given, False), (chosen, True)] if mark else [(piece, index % 2 == 1)]
    return [segment for segment in segments if segment[0]]


# Kinds of documents ------------------------------------------------------------------------------------


def _topic(chance: Random, among: tuple[Topic, ...] = KNOWLEDGE + TALK) -> Topic:
    return chance.choices(among, [WEIGHTS.get(topic.name, 1.0) for topic in among])[0]


def _exchange(question: Question) -> list[Message]:
    return [user(question.text), assistant(question.answer)]


def _single(chance: Random) -> Chat:
    return Chat(_exchange(ask(_topic(chance, KNOWLEDGE), chance)))


def _talk(chance: Random) -> Chat:
    return Chat(_exchange(ask(_topic(chance, TALK), chance)))


def _turns(chance: Random) -> Chat:
    """A few questions in a row, some of which lean on the one before."""
    messages: list[Message] = []
    for _ in range(chance.randint(1, 3)):
        topic = _topic(chance)
        messages += _exchange(ask(topic, chance))
        while topic.follows and chance.random() < 0.6:
            messages += _exchange(follow(topic, chance))
    return Chat(messages)


def _tooled(chance: Random) -> Chat:
    """A question for one of the tools: the call, often its result, sometimes a second question."""
    wanted = tools.task(chance)
    offered = [wanted.tool, *(task.tool for task in others(wanted.subject, chance))]
    chance.shuffle(offered)
    messages = _exchange(ask(_topic(chance), chance)) if chance.random() < 0.1 else []
    messages += [user(wanted.question), tools.called(wanted)]
    if chance.random() < 0.5:
        returned, words = result(wanted, chance)
        messages += [
            {"role": "tool", "content": returned},
            assistant(wanted.report.replace("{result}", words)),
        ]
        if chance.random() < 0.25:
            messages += _exchange(ask(_topic(chance, KNOWLEDGE), chance))
    return Chat(messages, offered)


def others(subject: str, chance: Random) -> list[tools.Task]:
    """Up to three tools that are no use for the subject."""
    drawn = (tools.task(chance) for _ in range(chance.choice((0, 0, 1, 1, 2, 3))))
    return [task for task in drawn if task.subject != subject]


def _untooled(chance: Random) -> Chat:
    """Tools on offer, none of them wanted."""
    offered = [tools.task(chance) for _ in range(chance.randint(1, 3))]
    avoid = {TOPIC_OF.get(task.subject) for task in offered} | {"unknown"}
    topic = _topic(chance)
    while topic.name in avoid:
        topic = _topic(chance)
    return Chat(_exchange(ask(topic, chance)), [task.tool for task in offered])


def _worded(chance: Random) -> Chat:
    """The bare fact: asked for, or just likelier than any other so that a choice among words is right."""
    question = ask(_topic(chance, SHORT), chance)
    if chance.random() < 0.15:
        return Chat([user(question.text), assistant(question.short)])
    how = chance.choice(("Answer in one word:", "In one word:", "One word only.", "Only the answer:"))
    text = f"{how} {question.text}" if chance.random() < 0.6 else f"{question.text} {how.rstrip(':')}"
    return Chat([user(text), assistant(question.short)])


def _json(chance: Random) -> Chat:
    question = ask(_topic(chance, SHORT), chance)
    key = chance.choice((*JSON_KEYS, question.topic.split()[0]))
    answer = json.dumps({key: question.short}, ensure_ascii=False)
    if chance.random() < 0.4:
        cut = answer.index(": ") + 3
        return Chat([user(question.text), assistant(answer[:cut] + GIVEN + answer[cut:])])
    text = expand(chance.choice(JSON_ASKS), chance).format(key=key, question=question.text)
    return Chat([user(text), assistant(answer)])


def _told(chance: Random) -> Chat:
    hero = chance.choice(("a", "the")) + " " + chance.choice(HEROES)
    asked = expand(chance.choice(STORY_ASKS), chance).format(hero=hero)
    return Chat(
        [user(untidy(asked[:1].upper() + asked[1:], ("story", "tale"), chance)), assistant(story(chance))]
    )


def _raw(chance: Random) -> list[Segment]:
    """Plain text, as completion endpoints continue it."""
    match chance.randrange(7):
        case 0 | 1:
            return [(tell(_topic(chance, KNOWLEDGE), chance), True)]
        case 2:
            question = ask(_topic(chance), chance)
            return [(question.text, False), (f" {question.answer}", True)]
        case 3:
            return [(chance.choice(("", "A story: ")), False), (story(chance), True)]
        case 4:
            return [(_sequence(chance), True)]
        case 5:
            facts = [tell(_topic(chance, KNOWLEDGE), chance) for _ in range(2)]
            return [(chance.choice((" ", "\n")).join(facts), True)]
    return _asked_and_answered(chance)


def _asked_and_answered(chance: Random) -> list[Segment]:
    asker, answerer = chance.choice(
        (("Q", "A"), ("Question", "Answer"), ("User", "Assistant"), ("Human", "AI"))
    )
    segments: list[Segment] = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        question = ask(_topic(chance), chance)
        gap = "\n" if segments else ""
        segments += [(f"{gap}{asker}: {question.text}\n{answerer}:", False), (f" {question.answer}", True)]
    return segments


def _sequence(chance: Random) -> str:
    """Numbers, days or months in order, up to a natural end."""
    from_, to = chance.randint(0, 20), chance.choice((10, 20, 30, 50, 100))
    cycle = chance.choice((DAYS, MONTHS))
    if chance.random() < 0.6:
        return ", ".join(str(number) for number in range(from_, max(to, from_ + 10) + 1))
    return ", ".join(cycle[chance.randrange(len(cycle) - 1) :]) + "."


TOPIC_OF = {WEATHER_TOOL: "weather", TIME_TOOL: "time", "add": "sums"}
SHORT = tuple(topic for topic in KNOWLEDGE if topic.short and topic.name not in COUNTING)
MIX: tuple[tuple[Callable[[Random], Chat | list[Segment]], float], ...] = (
    (_single, 40),
    (_talk, 14),
    (_turns, 14),
    (_tooled, 18),
    (_untooled, 4),
    (_raw, 10),
    (_json, 5),
    (_worded, 2),
    (_told, 2),
)
