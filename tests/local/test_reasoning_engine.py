"""Reasoning in front of grammars, on the engine: preemptions, drafts and neighbours change no answer."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from tokenizers import AddedToken
from transformers import AutoModelForCausalLM

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import BatchInvariantSampler, Sampler
from inference.events import CallDelta, Event, Finished, Token
from inference.local import BackendModel, LocalBackend
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from inference.sampling import Sampling
from inference.structured_output import GrammarCompiler
from inference.types import Constraint, GenerationRequest, Message, TemplateOptions, Tool
from settings.groups import BackendSettings
from tests.local.fake_engine import model_metrics
from tests.tiny_models import tiny

OPENING, CLOSING = 261, 262  # <think>, </think>
VOCAB = 263
EOS = 2
ROWS, CONTEXT = 6, 256
TEMPLATE = (
    "{% if tools %}{{ tools[0].function.name }}{{ tools[0].function.description }}{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content.split('</think>')[-1] }}{% endfor %}"
    "<|im_start|>assistant: {% if enable_thinking is defined %}"
    "{{ '<think>\n' if enable_thinking else '<think>\n\n</think>\n\n' }}{% endif %}"
)
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = Tool("weather", "of a city", CITY)
ENGINES = ("plain", "speculating", "deterministic")


@dataclass(frozen=True, slots=True)
class RunningBackend:
    """A backend whose KV memory is too little for all rows: it preempts some."""

    backend: LocalBackend
    engine: Engine

    def answer_together(self, requests: list[GenerationRequest]) -> list[list[Event]]:
        """The answers together."""
        streams = [self.backend.generate(request) for request in requests]
        return [list(stream) for stream in streams]

    def answer_alone(self, requests: list[GenerationRequest]) -> list[list[Event]]:
        return [list(self.backend.generate(request)) for request in requests]


@pytest.fixture(scope="module", params=ENGINES)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBackend]:
    folder = tiny.llama(tmp_path_factory.mktemp("tiny"), vocab_size=VOCAB)
    is_deterministic = request.param == "deterministic"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    limits = RunnerLimits(
        max_sequences=ROWS, context=CONTEXT, kv_memory_bytes=1 << 24, max_batch_total_tokens=CONTEXT
    )
    runner = select_runner(model, limits, RunnerRules(deterministic=is_deterministic)).runner
    options = EngineOptions(
        max_batch_tokens=64,
        max_queued_tokens=10_000,
        speculate=4 if request.param == "speculating" else 0,
    )
    engine = Engine(runner, (BatchInvariantSampler if is_deterministic else Sampler)(VOCAB), options)
    engine.start()
    backend = open_backend(engine)
    yield RunningBackend(backend, engine)
    backend.close()


def open_backend(engine: Engine) -> LocalBackend:
    words = tiny.tokenizer()
    words.add_tokens(
        [AddedToken(name, special=True) for name in ("<think>", "</think>")], special_tokens=True
    )
    words.chat_template = TEMPLATE
    assert words.convert_tokens_to_ids(["<think>", "</think>"]) == [OPENING, CLOSING]
    ends = frozenset([EOS])
    return LocalBackend(
        engine,
        BackendModel(
            id="tiny", tokenizer=words, context=CONTEXT, vocab=VOCAB, eos_token_ids=ends, details={}
        ),
        BackendSettings(),
        metrics=model_metrics(),
        compiler=GrammarCompiler(words, VOCAB, ends),
    )


def schema_request(seed: int, effort: str | None) -> GenerationRequest:
    """Its reasoning, if any, has a few tokens: the bias lets the model open and close it."""
    return GenerationRequest(
        [Message("user", f"A city, please, number {seed}")],
        Sampling(seed=seed, logit_bias={OPENING: 4.0, CLOSING: 3.5}),
        max_tokens=150,
        constraint=Constraint("json_schema", CITY),
        template=TemplateOptions(reasoning_effort=effort),
        separate_reasoning=True,
    )


def call_request(seed: int, effort: str | None) -> GenerationRequest:
    return replace(schema_request(seed, effort), constraint=None, tools=(WEATHER,), tool_choice="weather")


def tokens_of(events: list[Event]) -> list[Token]:
    return [event for event in events if isinstance(event, Token)]


def texts_of(events: list[Event]) -> tuple[str, str]:
    """(reasoning, text)"""
    texts = [event for event in events if isinstance(event, Token | Finished)]
    return "".join(event.reasoning for event in texts), "".join(event.text for event in texts)


def end_of(events: list[Event]) -> Finished:
    end = events[-1]
    assert isinstance(end, Finished) and end.finish_reason == "stop"
    return end


def arguments_of(events: list[Event]) -> Any:
    return json.loads("".join(event.arguments for event in events if isinstance(event, CallDelta)))


@pytest.mark.parametrize("effort", [None, "high"])
def test_a_schema_and_a_forced_call_hold_behind_the_reasoning(
    served: RunningBackend, effort: str | None
) -> None:
    schemas = [schema_request(seed, effort) for seed in range(4)]
    calls = [call_request(seed, effort) for seed in range(4)]
    event_lists = served.answer_together([*schemas, *calls])
    for events in event_lists:
        ids = [token.id for token in tokens_of(events)]
        end, start = end_of(events), 0 if effort else 1
        assert ids[:start] == [OPENING][:start] and ids.count(CLOSING) == 1
        assert EOS not in ids[: ids.index(CLOSING)]
        assert (end.num_tokens, end.num_reasoning_tokens) == (len(ids), ids.index(CLOSING) - start)
    assert any(end_of(events).num_reasoning_tokens > 3 and texts_of(events)[0] for events in event_lists)
    assert {json.loads(texts_of(events)[1])["city"] for events in event_lists[:4]} <= {"Rome", "Oslo"}
    assert {arguments_of(events)["city"] for events in event_lists[4:]} <= {"Rome", "Oslo"}
    assert all(texts_of(events)[1] == "" for events in event_lists[4:])


def test_without_effort_the_grammar_holds_from_the_first_token(served: RunningBackend) -> None:
    requests = [schema_request(1, "none"), call_request(1, "none")]
    with_schema, with_call = served.answer_together(requests)
    for events in (with_schema, with_call):
        assert not {OPENING, CLOSING} & {token.id for token in tokens_of(events)}
        assert (texts_of(events)[0], end_of(events).num_reasoning_tokens) == ("", 0)
    assert json.loads(texts_of(with_schema)[1])["city"] in ("Rome", "Oslo")
    assert arguments_of(with_call)["city"] in ("Rome", "Oslo")


def test_preemptions_drafts_and_neighbours_change_no_answer(served: RunningBackend) -> None:
    efforts: Iterator[str | None] = iter([None, "high", "none", "low"] * 4)
    requests = [
        (schema_request if number % 2 else call_request)(number, effort)
        for number, effort in enumerate(efforts)
    ]
    before = served.engine.stats().preemptions
    together = served.answer_together(requests)
    assert served.engine.stats().preemptions > before
    alone = served.answer_alone(requests)
    for each, expected in zip(together, alone, strict=True):
        assert [token.id for token in tokens_of(each)] == [token.id for token in tokens_of(expected)]
        assert texts_of(each) == texts_of(expected)
