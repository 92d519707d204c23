"""Contrastive search through a backend: the same ends, logprobs and streams as other answers have."""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from inference.contrastive_search.search import search
from inference.contrastive_search.task import start_contrastive_search
from inference.errors import BadRequest, NotImplementedHere, Unavailable
from inference.events import Event, Finished, Started, Token
from inference.local import LocalBackend
from inference.sampling import Sampling
from inference.types import Constraint, GenerationRequest
from tests.local.running import running
from tests.tiny_models import tiny

CONTEXT = 96
CONTRASTIVE = Sampling(penalty_alpha=0.6, top_k=4)
REQUEST = GenerationRequest("Once upon", CONTRASTIVE, max_tokens=12, ignore_eos=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("tiny"), vocab_size=261)


@pytest.fixture(scope="module")
def words(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    """Weights large enough for a clear most probable token."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    torch.manual_seed(1)
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.2)
    return model


@pytest.fixture
def backend(model: Any, words: Any) -> Iterator[LocalBackend]:
    with running(model, words, rows=4, context=CONTEXT) as backend:
        backend._contrastive = partial(start_contrastive_search, backend._engine, partial(search, model))
        yield backend


def tokens_of(events: Iterable[Event]) -> list[Token]:
    return [event for event in events if isinstance(event, Token)]


def ids_of(events: Iterable[Event], index: int = 0) -> list[int]:
    return [token.id for token in tokens_of(events) if token.index == index]


def test_its_tokens_are_those_of_the_search(backend: LocalBackend, model: Any, words: Any) -> None:
    start, *tokens, end = backend.generate(REQUEST)
    prompt = backend.tokenize(REQUEST).token_spans
    assert isinstance(start, Started) and start.prompt_tokens == len(prompt) and start.cached_tokens == 0
    ids = [span.id for span in prompt]
    expected = search(model, ids, (), k=4, alpha=0.6, process_logits=lambda logits: logits[:, :261])
    assert ids_of(tokens) == list(islice(expected, 12))
    assert end == Finished(0, "length", end.text, None, 12, None)


def test_it_differs_from_a_greedy_answer(backend: LocalBackend) -> None:
    greedy = replace(REQUEST, sampling=Sampling(greedy=True))
    off = replace(REQUEST, sampling=Sampling(greedy=True, penalty_alpha=0.0, top_k=4))
    assert ids_of(backend.generate(REQUEST)) != ids_of(backend.generate(greedy))
    assert ids_of(backend.generate(off)) == ids_of(backend.generate(greedy))


def test_temperature_and_seed_change_nothing(backend: LocalBackend) -> None:
    other = replace(REQUEST, sampling=replace(CONTRASTIVE, temperature=3.0, seed=7))
    assert ids_of(backend.generate(other)) == ids_of(backend.generate(REQUEST))


def test_several_answers_are_equal(backend: LocalBackend) -> None:
    events = list(backend.generate(replace(REQUEST, n=3)))
    alone = ids_of(backend.generate(REQUEST))
    assert [ids_of(events, index) for index in range(3)] == [alone] * 3
    assert sum(isinstance(event, Finished) for event in events) == 3


def test_a_stop_token_ends_it_but_not_before_min_tokens(backend: LocalBackend) -> None:
    alone = ids_of(backend.generate(REQUEST))
    end = alone[3]
    events = list(backend.generate(replace(REQUEST, stop_token_ids=(end,))))
    first = alone.index(end)
    assert (
        ids_of(events) == alone[: first + 1] and events[-1].finish_reason == "stop" and events[-1].stop == end
    )
    later = ids_of(backend.generate(replace(REQUEST, stop_token_ids=(end,), min_tokens=6)))
    assert end not in later[:6]


def test_a_stop_string_ends_it_and_frees_the_engine(backend: LocalBackend) -> None:
    full_text = "".join(
        event.text for event in backend.generate(REQUEST) if isinstance(event, Token | Finished)
    )
    stop = full_text[4:6]
    *events, end = backend.generate(replace(REQUEST, stop=(stop,), max_tokens=60))
    text = "".join(token.text for token in tokens_of(events)) + end.text
    assert end.stop == stop and text == full_text[: full_text.index(stop)]
    assert becomes_idle(backend)


def test_max_tokens_of_zero_generates_nothing(backend: LocalBackend) -> None:
    events = list(backend.generate(replace(REQUEST, max_tokens=0)))
    assert ids_of(events) == [] and events[-1].finish_reason == "length"


def test_it_ends_where_the_context_is_full(backend: LocalBackend) -> None:
    start, *_, end = backend.generate(replace(REQUEST, max_tokens=None))
    assert start.prompt_tokens + end.num_tokens == CONTEXT and end.finish_reason == "length"


def test_it_ends_at_its_deadline(backend: LocalBackend) -> None:
    assert list(backend.generate(replace(REQUEST, deadline=1e-9)))[-1].finish_reason == "deadline"


def test_logprobs_come_from_the_models_own_distribution(backend: LocalBackend, model: Any) -> None:
    tokens = tokens_of(backend.generate(replace(REQUEST, logprobs=3)))
    ids = [span.id for span in backend.tokenize(REQUEST).token_spans]
    with torch.inference_mode():
        logits = model(torch.tensor([ids + [token.id for token in tokens]])).logits[
            0, len(ids) - 1 : -1, :261
        ]
    reference = logits.log_softmax(-1)
    assert tokens
    for token, row in zip(tokens, reference, strict=True):
        assert token.logprob == pytest.approx(float(row[token.id]), abs=1e-3)
        assert [top.id for top in token.top_logprobs] == row.topk(3).indices.tolist()


def test_bans_and_biases_apply_to_its_candidates(backend: LocalBackend) -> None:
    alone = ids_of(backend.generate(REQUEST))
    banned = replace(REQUEST, sampling=replace(CONTRASTIVE, bad_words_ids=((alone[0],),)))
    assert alone[0] not in ids_of(backend.generate(banned))
    biased = replace(REQUEST, sampling=replace(CONTRASTIVE, logit_bias={77: 50.0}))
    assert ids_of(backend.generate(biased))[0] == 77


def test_a_constraint_applies_to_it(backend: LocalBackend) -> None:
    request = replace(REQUEST, constraint=Constraint("regex", "[0-9]{4}"), ignore_eos=False)
    text = "".join(event.text for event in backend.generate(request) if isinstance(event, Token | Finished))
    assert len(text) == 4 and text.isdigit()


def test_a_closed_stream_ends_the_search(backend: LocalBackend) -> None:
    stream = backend.generate(replace(REQUEST, max_tokens=None, n=2))
    next(stream)
    stream.close()
    assert becomes_idle(backend)
    assert backend._engine.stats().finished_by_reason["cancelled"] == 2


def test_other_streams_continue_during_a_search(backend: LocalBackend) -> None:
    greedy = replace(REQUEST, sampling=Sampling(greedy=True), max_tokens=60)
    alone = ids_of(backend.generate(greedy)), ids_of(backend.generate(REQUEST))
    plain, search_stream = backend.generate(greedy), backend.generate(REQUEST)
    assert (ids_of(plain), ids_of(search_stream)) == alone


def test_stopping_ends_it_with_the_reason(backend: LocalBackend) -> None:
    stream = backend.generate(replace(REQUEST, max_tokens=None))
    backend.close()
    with pytest.raises(Unavailable):
        list(stream)


@pytest.mark.parametrize("k", (0, 1, 65))
def test_top_k_must_be_from_2_to_64(backend: LocalBackend, k: int) -> None:
    with pytest.raises(BadRequest, match="top_k must be from 2 to 64"):
        backend.generate(replace(REQUEST, sampling=replace(CONTRASTIVE, top_k=k)))


@pytest.mark.parametrize("alpha", (-0.1, 1.1, math.nan))
def test_penalty_alpha_must_be_from_0_to_1(backend: LocalBackend, alpha: float) -> None:
    with pytest.raises(BadRequest, match="penalty_alpha"):
        backend.generate(replace(REQUEST, sampling=replace(CONTRASTIVE, penalty_alpha=alpha)))


def test_unsupported_options_are_refused(backend: LocalBackend) -> None:
    with pytest.raises(NotImplementedHere, match="prompt"):
        backend.generate(replace(REQUEST, prompt_logprobs=0))
    backend._contrastive = None
    with pytest.raises(NotImplementedHere, match="memory"):
        backend.generate(REQUEST)


def becomes_idle(backend: LocalBackend) -> bool:
    """Whether the engine becomes idle within a minute."""
    for _ in range(6000):
        if not backend._engine.stats().background_tasks:
            return True
        time.sleep(0.01)
    return False
