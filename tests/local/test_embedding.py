"""Texts to vectors through a backend: tokenised as prompts are, refused where they cannot be."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from inference.errors import BadRequest, NotImplementedHere, TooLong, Unavailable
from inference.local import LocalBackend
from inference.local.embed import MOST
from inference.model.embed import embed as pooled
from inference.sampling import Sampling
from inference.types import Embedded, Embedding, Event, GenerationRequest, Token
from tests import tiny
from tests.local.running import running

CONTEXT = 128
LONG = GenerationRequest("Once", Sampling(greedy=True), max_tokens=90, ignore_eos=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("tiny"), vocab_size=261)


@pytest.fixture(scope="module")
def words(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def backend(folder: Path, words: Any) -> Iterator[LocalBackend]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with running(model, words, rows=4, context=CONTEXT, embed=partial(pooled, model)) as backend:
        yield backend


def embed(backend: LocalBackend, *inputs: Any) -> list[Embedding]:
    (event,) = backend.embed(inputs)
    assert isinstance(event, Embedded)
    return list(event.embeddings)


def ids_of(events: Iterable[Event]) -> list[int]:
    return [event.id for event in events if isinstance(event, Token)]


def test_text_and_its_tokens_have_the_same_vector(backend: LocalBackend, words: Any) -> None:
    ids = words.encode("a cat", add_special_tokens=False)
    text, tokens = embed(backend, "a cat", ids)
    assert text == tokens and text.tokens == len(ids) and len(text.vector) == 32


def test_each_input_has_its_own_vector_in_order(backend: LocalBackend) -> None:
    together = embed(backend, "a cat", "a dog", "a cat")
    assert together[0] == together[2] != together[1]
    assert together == [embed(backend, text)[0] for text in ("a cat", "a dog", "a cat")]


def test_a_stream_goes_on_while_vectors_are_computed(backend: LocalBackend) -> None:
    alone = ids_of(backend.generate(LONG))
    stream, vectors = backend.generate(LONG), []
    reader = Thread(target=lambda: vectors.extend(embed(backend, *["a cat"] * 40)))
    reader.start()
    assert ids_of(stream) == alone and len(alone) == LONG.max_tokens
    reader.join(60)
    assert len(vectors) == 40


@pytest.mark.parametrize("given", ("", [], "\ud800", [261], [-1], [1.5]))
def test_what_is_no_text_is_refused(backend: LocalBackend, given: Any) -> None:
    with pytest.raises(BadRequest, match=r"^input"):
        backend.embed(["a cat", given])


def test_as_many_tokens_as_the_context_holds_are_taken_and_no_more(backend: LocalBackend) -> None:
    assert embed(backend, [5] * CONTEXT)[0].tokens == CONTEXT
    with pytest.raises(TooLong, match=r"^input"):
        backend.embed([[5] * (CONTEXT + 1)])
    with pytest.raises(TooLong, match=r"^input"):
        backend.embed(["a" * 100_000])


@pytest.mark.parametrize("count", (0, MOST + 1))
def test_a_call_takes_so_many_inputs(backend: LocalBackend, count: int) -> None:
    with pytest.raises(BadRequest, match=f"1 to {MOST}"):
        backend.embed(["a"] * count)


def test_a_model_without_vectors_says_so(backend: LocalBackend) -> None:
    backend._embed = None
    with pytest.raises(NotImplementedHere, match="embeddings"):
        backend.embed(["a cat"])


def test_stopping_ends_whoever_waits_for_vectors(backend: LocalBackend) -> None:
    raised: list[Exception] = []

    def ask() -> None:
        try:
            embed(backend, *[[5] * CONTEXT] * MOST)
        except Unavailable as error:
            raised.append(error)

    asking = Thread(target=ask)
    asking.start()
    backend.close()
    asking.join(60)
    assert len(raised) == 1


def test_what_is_closed_is_not_computed_to_its_end(backend: LocalBackend) -> None:
    """And whoever was waiting behind it is not kept."""
    streams = [backend.embed([[5] * CONTEXT] * MOST) for _ in range(6)]
    arrived: list[object] = []
    streams[0].start(arrived.append)
    for stream in streams:
        stream.close()
    assert list(streams[1]) == []
    assert embed(backend, "a cat")[0].tokens
    assert backend.load().running == 0 and not arrived


def test_pushed_vectors_come_where_streams_are_delivered(backend: LocalBackend) -> None:
    posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
    backend.deliver_with(posted.put)
    arrived: list[Any] = []
    backend.embed(["a cat"]).start(arrived.append)
    call = posted.get(timeout=30)
    assert not arrived
    call()
    assert len(arrived[0][0].embeddings) == 1


def test_a_pushed_stream_is_told_of_an_error(backend: LocalBackend) -> None:
    stream = backend.embed([[5] * CONTEXT] * MOST)
    arrived: list[Any] = []
    stream.start(arrived.append)
    backend.close()
    assert isinstance(arrived[0], Unavailable) and len(arrived) == 1
