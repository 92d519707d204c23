"""Asks an opened model the same in every way there is, and tells what became of its answers, a finding each.

Knows the engine's door and its own parts; prints nothing.
"""

import time
from dataclasses import dataclass
from typing import Any

import torch

from checks.finding import Finding
from inference.engine.engine import Engine
from inference.engine.sequence import Task
from inference.opening import Opened
from selftest.asked import Answer, prompts, task
from selftest.full import fill
from selftest.speed import speed
from selftest.verdict import Turn, Verdict, compare
from selftest.ways import alone, ways

SECONDS = 40.0  # what all of it may take, about
# Tokens that prompts have in common, tokens of an answer; where the model is slow, down to the fewer ones.
LONG, NEW = 320, 32
SHORT, FEW = 32, 4
# What it comes to: prompts of LONG tokens that are read, and steps of a row for each token of an answer.
READ, STEPS = 24, 60
# The most by which arithmetic changes a logprob. Larger than any seen; a fault changes it by more.
ALLOWED = {"float32": 0.01, "float16": 0.1, "bfloat16": 0.5}
MEND = "a tie turned, which is no fault: DETERMINISTIC=true keeps every answer as it is alone, but slower"
SMALLER = "lower MAX_SEQUENCES or MAX_BATCH_TOKENS"
WILD = (
    "this model makes much of rounding, or an answer depends on its neighbours: --selftest --dtype=float32 "
    "tells which; DETERMINISTIC=true keeps every answer as it is alone"
)
FAULT = "an answer depends on its neighbours: do not serve this model so, and report this table"


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds for a token of a prompt, and for a step of one row."""

    reading: float
    step: float


@dataclass(frozen=True, slots=True)
class Rule:
    """What may become of an answer. drift: how far a logprob may go; ties: whether these may turn, as they do
    in half precision."""

    drift: float
    ties: bool

    @property
    def mend(self) -> str:
        """Where more has become of it."""
        return WILD if self.ties else FAULT


@torch.inference_mode()
def selftest(opened: Opened) -> list[Finding]:
    """The findings; one is not ok where an answer changed that must not change.

    In half precision a tie may turn, unless the engine is deterministic: then the last bit counts.
    """
    engine, tokenizer = opened.engine, opened.loaded.tokenizer
    pace = pace_of(engine, tokenizer)
    tasks = asked_of(engine, tokenizer, pace)
    rule = rule_of(opened)
    right = alone(engine, tasks)
    findings = [seat(opened), asked(tasks)]
    for name, way in ways(engine, right).items():
        answers = way(engine, tasks)
        findings.append(judged(name, compare(right, answers), rule, tokenizer, answers))
    return [*findings, *lost(opened), filled(engine, tasks, pace), speeds(engine, tasks)]


def pace_of(engine: Engine, tokenizer: Any) -> Pace:
    """How fast it answers a first question."""
    most = engine.loop.seating.context // 2
    first = task(prompts(tokenizer, SHORT, most)[0], FEW)
    times = []
    for new in (1, 1, FEW):  # what comes first takes longer
        began = time.perf_counter()
        alone(engine, [task(first.ids, new)])
        times.append(time.perf_counter() - began)
    return Pace(times[1] / len(first.ids), max(times[2] - times[1], 1e-4) / (FEW - 1))


def asked_of(engine: Engine, tokenizer: Any, pace: Pace) -> list[Task]:
    """As much as the model answers in SECONDS."""
    most = engine.loop.seating.context // 2
    long = between(SHORT, SECONDS / 2 / READ / pace.reading, LONG)
    new = between(FEW, SECONDS / 2 / STEPS / pace.step, min(NEW, most))
    return [task(prompt, new) for prompt in prompts(tokenizer, long, most)]


def between(least: int, value: float, most: int) -> int:
    return max(least, min(int(value), most))


def rule_of(opened: Opened) -> Rule:
    if opened.steady:
        return Rule(drift=0.0, ties=False)
    quantised = opened.fitted.loss is not None  # what its weights are multiplied with is rounded to 8 bits
    dtype = "bfloat16" if quantised else opened.loaded.dtype
    return Rule(ALLOWED.get(dtype, max(ALLOWED.values())), ties=dtype != "float32")


def seat(opened: Opened) -> Finding:
    """How the model runs; its error was found to be small enough when it was loaded."""
    fitted, loaded = opened.fitted, opened.loaded
    have = f"{fitted.name}, error {fitted.error:.0e} sd, {loaded.dtype} on {loaded.device}"
    return Finding("seat", "logits of the model's own code", have, ok=True)


def asked(tasks: list[Task]) -> Finding:
    """What the answers are that all others are compared with."""
    longest = max(len(task.ids) for task in tasks)
    have = f"{len(tasks)} prompts of up to {longest} tokens, {tasks[0].max_tokens} tokens each"
    return Finding("alone", "answers to compare with", have, ok=True)


def lost(opened: Opened) -> list[Finding]:
    """What quantising has cost, if it was done; how much of that is too much is for who reads it."""
    loss = opened.fitted.loss
    return [] if loss is None else [Finding("quantise", "logits of the files' weights", str(loss), ok=True)]


def judged(name: str, verdict: Verdict, rule: Rule, tokenizer: Any, answers: list[Answer]) -> Finding:
    need = "as alone" if rule.drift else "as alone, to the last bit"
    if verdict.error:
        return Finding(name, need, verdict.error, ok=False, mend=FAULT)
    sound = verdict.drift <= rule.drift
    drift = f"logprobs within {verdict.drift:.0e}" if verdict.drift else "to the last bit"
    drift += "" if sound else f", the most at {place(*verdict.worst)}"
    reused = sum(answer.reused for answer in answers)
    have = f"same, {drift}" + (f", {reused} prompt tokens reused" if reused else "")
    if not verdict.turns:
        return Finding(name, need, have, ok=sound, mend="" if sound else rule.mend)
    tie = sound and rule.ties
    told = ("tie: " if tie else "") + shown(verdict.turns[0], tokenizer)
    have = f"{told}; {len(verdict.turns)} of {len(answers)} answers, {drift}"
    return Finding(name, need, have, ok=tie, mend=MEND if tie else rule.mend)


def shown(turn: Turn, tokenizer: Any) -> str:
    right, other = (f"{id} {tokenizer.decode([id])!r}" for id in (turn.right, turn.other))
    gap = "a gap of many logits" if turn.gap is None else f"a gap of {turn.gap:.2g} logits"
    return f"{place(turn.prompt, turn.place)}: {right} became {other}, {gap}"


def place(prompt: int, place: int) -> str:
    return f"prompt {prompt + 1}, token {place + 1}"


def filled(engine: Engine, tasks: list[Task], pace: Pace) -> Finding:
    """A full batch, of fewer tokens than a step may have where these would take too long."""
    most = between(1, SECONDS / 2 / pace.reading, engine.loop.scheduler.budget)
    found = fill(engine, max((task.ids for task in tasks), key=len), most)
    need = f"{engine.loop.seating.max_rows} answers at once, {most} tokens a step"
    if found.error:
        return Finding("full batch", need, found.error, ok=False, mend=SMALLER)
    return Finding("full batch", need, f"{found.answers} at once, {found.tokens} a step", ok=True)


def speeds(engine: Engine, tasks: list[Task]) -> Finding:
    found = speed(engine, tasks, tasks[0].max_tokens)
    company = f"{found.company} answers {found.together:.0f}"
    have = f"prompt {found.prompt:.0f}, one answer {found.alone:.0f}, {company}"
    return Finding("speed", "tokens a second", have, ok=True)
