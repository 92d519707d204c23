"""Answers by contrastive search, asked of a backend as any other: same ends, same logprobs, same streams."""

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

from inference.errors import BadRequest, NotImplementedHere, Unavailable
from inference.local import LocalBackend
from inference.model.contrast import search
from inference.sampling import Sampling
from inference.types import Constraint, Event, Finished, GenerationRequest, Started, Token
from tests import tiny
from tests.local.running import running

CONTEXT = 96
UNLIKE = Sampling(contrast=0.6, top_k=4)
ASKED = GenerationRequest("Once upon", UNLIKE, max_tokens=12, ignore_eos=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("tiny"), vocab_size=261)


@pytest.fixture(scope="module")
def words(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    """Weights large enough that the most probable token is clear."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    torch.manual_seed(1)
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.2)
    return model


@pytest.fixture
def backend(model: Any, words: Any) -> Iterator[LocalBackend]:
    with running(model, words, rows=4, context=CONTEXT, seek=partial(search, model)) as backend:
        yield backend


def tokens_of(events: Iterable[Event]) -> list[Token]:
    return [event for event in events if isinstance(event, Token)]


def ids_of(events: Iterable[Event], index: int = 0) -> list[int]:
    return [token.id for token in tokens_of(events) if token.index == index]


def test_its_tokens_are_the_searches(backend: LocalBackend, model: Any, words: Any) -> None:
    start, *tokens, end = backend.generate(ASKED)
    prompt = backend.tokenize(ASKED).pieces
    assert isinstance(start, Started) and start.prompt_tokens == len(prompt) and start.cached_tokens == 0
    ids = [piece.id for piece in prompt]
    found = search(model, ids, (), k=4, alpha=0.6, edit=lambda logits: logits[:, :261])
    assert ids_of(tokens) == list(islice(found, 12))
    assert end == Finished(0, "length", end.text, None, 12, None)


def test_it_is_not_what_greedy_answers_are(backend: LocalBackend) -> None:
    greedy = replace(ASKED, sampling=Sampling(greedy=True))
    off = replace(ASKED, sampling=Sampling(greedy=True, contrast=0.0, top_k=4))
    assert ids_of(backend.generate(ASKED)) != ids_of(backend.generate(greedy))
    assert ids_of(backend.generate(off)) == ids_of(backend.generate(greedy))


def test_temperature_and_seed_change_nothing(backend: LocalBackend) -> None:
    other = replace(ASKED, sampling=replace(UNLIKE, temperature=3.0, seed=7))
    assert ids_of(backend.generate(other)) == ids_of(backend.generate(ASKED))


def test_several_answers_are_alike(backend: LocalBackend) -> None:
    events = list(backend.generate(replace(ASKED, n=3)))
    alone = ids_of(backend.generate(ASKED))
    assert [ids_of(events, index) for index in range(3)] == [alone] * 3
    assert sum(isinstance(event, Finished) for event in events) == 3


def test_an_end_stops_it_and_not_too_early(backend: LocalBackend) -> None:
    alone = ids_of(backend.generate(ASKED))
    end = alone[3]
    events = list(backend.generate(replace(ASKED, stop_tokens=(end,))))
    first = alone.index(end)
    assert ids_of(events) == alone[: first + 1] and events[-1].reason == "stop" and events[-1].stop == end
    later = ids_of(backend.generate(replace(ASKED, stop_tokens=(end,), min_tokens=6)))
    assert end not in later[:6]


def test_a_stop_string_ends_it_and_the_engine_forgets_it(backend: LocalBackend) -> None:
    whole = "".join(event.text for event in backend.generate(ASKED) if isinstance(event, Token | Finished))
    stop = whole[4:6]
    *events, end = backend.generate(replace(ASKED, stop=(stop,), max_tokens=60))
    text = "".join(token.text for token in tokens_of(events)) + end.text
    assert end.stop == stop and text == whole[: whole.index(stop)]
    assert idle(backend)


def test_nothing_is_generated_where_nothing_is_wanted(backend: LocalBackend) -> None:
    events = list(backend.generate(replace(ASKED, max_tokens=0)))
    assert ids_of(events) == [] and events[-1].reason == "length"


def test_it_ends_where_the_context_is_full(backend: LocalBackend) -> None:
    start, *_, end = backend.generate(replace(ASKED, max_tokens=None))
    assert start.prompt_tokens + end.tokens == CONTEXT and end.reason == "length"


def test_it_ends_at_its_deadline(backend: LocalBackend) -> None:
    assert list(backend.generate(replace(ASKED, deadline=1e-9)))[-1].reason == "deadline"


def test_logprobs_are_of_the_models_own_distribution(backend: LocalBackend, model: Any) -> None:
    tokens = tokens_of(backend.generate(replace(ASKED, logprobs=3)))
    ids = [piece.id for piece in backend.tokenize(ASKED).pieces]
    with torch.inference_mode():
        logits = model(torch.tensor([ids + [token.id for token in tokens]])).logits[
            0, len(ids) - 1 : -1, :261
        ]
    truth = logits.log_softmax(-1)
    for token, row in zip(tokens, truth, strict=True):
        assert token.logprob == pytest.approx(float(row[token.id]), abs=1e-3)
        assert [top.id for top in token.top] == row.topk(3).indices.tolist()


def test_a_penalty_and_a_ban_hold_for_its_candidates(backend: LocalBackend) -> None:
    alone = ids_of(backend.generate(ASKED))
    banned = replace(ASKED, sampling=replace(UNLIKE, banned=((alone[0],),)))
    assert alone[0] not in ids_of(backend.generate(banned))
    biased = replace(ASKED, sampling=replace(UNLIKE, bias={77: 50.0}))
    assert ids_of(backend.generate(biased))[0] == 77


def test_a_constraint_holds_for_it(backend: LocalBackend) -> None:
    asked = replace(ASKED, constraint=Constraint("regex", "[0-9]{4}"), ignore_eos=False)
    text = "".join(event.text for event in backend.generate(asked) if isinstance(event, Token | Finished))
    assert len(text) == 4 and text.isdigit()


def test_a_closed_stream_ends_the_search(backend: LocalBackend) -> None:
    stream = backend.generate(replace(ASKED, max_tokens=None, n=2))
    next(stream)
    stream.close()
    assert idle(backend)
    assert backend._engine.stats().ends["cancelled"] == 2


def test_streams_go_on_beside_it(backend: LocalBackend) -> None:
    greedy = replace(ASKED, sampling=Sampling(greedy=True), max_tokens=60)
    alone = ids_of(backend.generate(greedy)), ids_of(backend.generate(ASKED))
    plain, unlike = backend.generate(greedy), backend.generate(ASKED)
    assert (ids_of(plain), ids_of(unlike)) == alone


def test_stopping_ends_it_with_the_reason(backend: LocalBackend) -> None:
    stream = backend.generate(replace(ASKED, max_tokens=None))
    backend.close()
    with pytest.raises(Unavailable):
        list(stream)


@pytest.mark.parametrize("k", (0, 1, 65))
def test_it_needs_several_candidates_but_not_too_many(backend: LocalBackend, k: int) -> None:
    with pytest.raises(BadRequest, match="top_k must be from 2 to 64"):
        backend.generate(replace(ASKED, sampling=replace(UNLIKE, top_k=k)))


@pytest.mark.parametrize("alpha", (-0.1, 1.1, math.nan))
def test_its_weight_is_a_share(backend: LocalBackend, alpha: float) -> None:
    with pytest.raises(BadRequest, match="penalty_alpha"):
        backend.generate(replace(ASKED, sampling=replace(UNLIKE, contrast=alpha)))


def test_what_it_cannot_do_is_refused(backend: LocalBackend) -> None:
    with pytest.raises(NotImplementedHere, match="prompt"):
        backend.generate(replace(ASKED, prompt_logprobs=0))
    backend._seek = None
    with pytest.raises(NotImplementedHere, match="memory"):
        backend.generate(ASKED)


def idle(backend: LocalBackend) -> bool:
    """Whether the engine soon has nothing more to do."""
    for _ in range(1000):
        if not backend._engine.stats().errands:
            return True
        time.sleep(0.01)
    return False
