"""The whole backend on a tiny random model: text in, a real engine and runner, text out."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from inference.errors import BadRequest, ServerError, Unavailable
from inference.events import CallDelta, Event, Finished, Started, Token
from inference.local import LocalBackend
from inference.sampling import Sampling
from inference.types import Constraint, GenerationRequest, Message, Tool
from tests.local.running import running
from tests.tiny_models import tiny

CONTEXT = 128
GREEDY = Sampling(greedy=True)
PROMPTS = ("The capital of France", "Zażółć", "1 2 3 4", "😀 and 😀", "x")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("tiny"), vocab_size=261)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


@pytest.fixture(scope="module")
def words(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def backend(folder: Path, words: Any) -> Iterator[LocalBackend]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    details = {"dtype": "float32", "device": "cpu"}
    with running(model, words, rows=8, context=CONTEXT, details=details) as backend:
        yield backend


def generate_reference(model: Any, words: Any, ids: list[int], count: int) -> list[int]:
    """The answer of transformers' generate."""
    prompt = torch.tensor([ids])
    output = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count, do_sample=False, pad_token_id=0
    )
    return output[0, len(ids) :].tolist()


def ids_of(events: list[Event]) -> list[int]:
    return [event.id for event in events if isinstance(event, Token)]


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Token | Finished))


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_greedy_answer_equals_that_of_generate(
    backend: LocalBackend, model: Any, words: Any, prompt: str
) -> None:
    events = list(backend.generate(GenerationRequest(prompt, GREEDY, max_tokens=40)))
    expected = generate_reference(model, words, words.encode(prompt), 40)
    assert ids_of(events) == expected
    special = set(words.all_special_ids)
    assert text_of(events) == words.decode([id for id in expected if id not in special])


def test_concurrent_answers_equal_the_answers_alone(backend: LocalBackend) -> None:
    requests = [GenerationRequest(prompt, Sampling(seed=1), max_tokens=30) for prompt in PROMPTS]
    alone = [ids_of(list(backend.generate(request))) for request in requests]
    streams = [backend.generate(request) for request in requests]
    together: list[list[int]] = [[] for _ in streams]

    def read(place: int) -> None:
        together[place] = ids_of(list(streams[place]))

    readers = [threading.Thread(target=read, args=(place,)) for place in range(len(streams))]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    assert together == alone


def test_a_pushed_answer_equals_the_pulled_one(backend: LocalBackend) -> None:
    request = GenerationRequest("The capital", Sampling(seed=5), max_tokens=30, n=3)
    pulled = list(backend.generate(request))
    pushed: list[Event] = []
    done = threading.Event()

    def sink(arrived: list[Event] | ServerError) -> None:
        assert not isinstance(arrived, ServerError)
        pushed.extend(arrived)
        if sum(isinstance(event, Finished) for event in pushed) == 3:
            done.set()

    stream = backend.generate(request)
    stream.start(sink)
    assert done.wait(60)
    for index in range(3):
        mine = [event for event in pulled if event.index == index and not isinstance(event, Started)]
        assert mine == [event for event in pushed if event.index == index and not isinstance(event, Started)]
    stream.close()


def test_a_stop_string_frees_the_row_at_once(backend: LocalBackend) -> None:
    request = GenerationRequest("The capital", GREEDY, max_tokens=60)
    full_text = text_of(list(backend.generate(request)))
    stop = full_text[len(full_text) // 2 :][:2]
    stopped = GenerationRequest("The capital", GREEDY, max_tokens=60, stop=(stop,))
    events = list(backend.generate(stopped))
    assert text_of(events) == full_text[: full_text.index(stop)]
    assert isinstance(events[-1], Finished)
    assert events[-1].stop == stop


def test_logprobs_of_a_prompt_are_those_of_the_plain_forward(
    backend: LocalBackend, model: Any, words: Any
) -> None:
    ids = words.encode("The capital of France")
    request = GenerationRequest(ids, GREEDY, max_tokens=0, prompt_logprobs=2)
    started, finished = backend.generate(request)
    assert isinstance(started, Started)
    assert finished == Finished(0, "length")
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    assert [token.id for token in started.prompt_logprobs] == ids
    assert started.prompt_logprobs[0].logprob is None
    for place in range(1, len(ids)):
        token, reference = started.prompt_logprobs[place], expected[place - 1]
        assert token.text == words.decode([ids[place]])
        assert token.logprob == pytest.approx(reference[ids[place]].item(), abs=1e-4)
        assert token.top_logprobs[0].logprob == pytest.approx(reference.max().item(), abs=1e-4)
        assert token.rank == int((reference >= reference[ids[place]]).sum())


def test_a_chat_uses_the_template_and_may_fill_the_context(backend: LocalBackend) -> None:
    events = list(backend.generate(GenerationRequest([Message("user", "Hi")], GREEDY, ignore_eos=True)))
    started, finished = events[0], events[-1]
    assert isinstance(started, Started)
    assert isinstance(finished, Finished)
    assert finished.finish_reason == "length"
    assert started.prompt_tokens + finished.num_tokens == CONTEXT


def test_a_required_call_is_sent_as_a_call(backend: LocalBackend) -> None:
    days = {"type": "object", "properties": {"day": {"enum": ["Monday", "Friday"]}}, "required": ["day"]}
    request = GenerationRequest(
        "Call the shop:",
        Sampling(seed=3),
        n=4,
        tools=(Tool("shop", "when it opens", days | {"additionalProperties": False}),),
        tool_choice="required",
        parallel_calls=False,
    )
    events = list(backend.generate(request))
    calls = [event for event in events if isinstance(event, CallDelta)]
    assert {call.index for call in calls} == {0, 1, 2, 3}
    assert {call.name for call in calls} == {"shop"}
    texts: dict[tuple[int, int], str] = {}
    for call in calls:
        texts[call.index, call.call_index] = texts.get((call.index, call.call_index), "") + call.arguments
    assert {json.loads(text)["day"] for text in texts.values()} <= {"Monday", "Friday"}
    assert text_of(events).strip() == ""


def test_closing_the_backend_ends_every_stream(backend: LocalBackend) -> None:
    stream = backend.generate(GenerationRequest("The", ignore_eos=True, n=8))
    next(stream)
    backend.close()
    with pytest.raises(Unavailable):
        list(stream)
    assert backend.unavailable_reason()
    with pytest.raises(Unavailable):
        backend.generate(GenerationRequest("The"))


@pytest.mark.parametrize(
    "options",
    [
        {"sampling": GREEDY},
        {"sampling": Sampling(seed=3, top_p=0.9, presence_penalty=1.0, repetition_penalty=1.2)},
        {"sampling": Sampling(seed=4), "constraint": Constraint("regex", "[a-z ]{20,}")},
        {"sampling": Sampling(seed=5), "stop": ("e",), "min_tokens": 10, "logprobs": 1},
    ],
    ids=["greedy", "sampled", "grammar", "stop string"],
)
def test_an_answer_goes_on_behind_the_tokens_that_another_server_generated(
    backend: LocalBackend, options: dict[str, Any]
) -> None:
    request = GenerationRequest("The capital", max_tokens=24, **options)
    expected = list(backend.generate(request))
    ids = ids_of(expected)
    for length in (1, len(ids) // 2, len(ids) - 1, len(ids)):
        resumed = list(backend.generate(replace(request, output_token_ids=tuple(ids[:length]))))
        assert ids_of(resumed) == ids
        assert [each.text for each in resumed if isinstance(each, Token)] == [
            each.text for each in expected if isinstance(each, Token)
        ]
        assert resumed[-1] == expected[-1]
        logprobs = [each.logprob for each in resumed if isinstance(each, Token)]
        assert all(each is None for each in logprobs[:length])
        assert "logprobs" not in options or None not in logprobs[length:]


@pytest.mark.parametrize(
    "options, rule",
    [
        ({"n": 2}, "set n to 1"),
        ({"max_tokens": 1}, "at most max_tokens"),
        ({"sampling": Sampling(penalty_alpha=0.5, top_k=4)}, "penalty_alpha"),
        ({"output_token_ids": (1, 5_000)}, "out of vocabulary"),
    ],
)
def test_the_first_tokens_of_an_answer_are_checked(
    backend: LocalBackend, options: dict[str, Any], rule: str
) -> None:
    request = GenerationRequest("The capital", output_token_ids=(1, 2))
    with pytest.raises(BadRequest, match=rule) as failure:
        backend.generate(replace(request, **options))
    assert failure.value.field == "output_token_ids"
