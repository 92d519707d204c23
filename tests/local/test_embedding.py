"""Embeddings through a backend: texts are tokenized like prompts, or refused."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from inference.errors import BadRequest, NotImplementedHere, TooLong, Unavailable
from inference.events import Embedded, Embedding, Event, Token
from inference.local import LocalBackend
from inference.local.embedding_inputs import MAX_INPUTS
from inference.sampling import Sampling
from inference.types import GenerationRequest
from tests.local.running import running
from tests.tiny_models import tiny

CONTEXT = 128
LONG = GenerationRequest("Once", Sampling(greedy=True), max_tokens=90, ignore_eos=True)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """With several, the last bits of a vector depend on how many rows of the step each thread computes."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("tiny"), vocab_size=261)


@pytest.fixture(scope="module")
def words(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def backend(folder: Path, words: Any) -> Iterator[LocalBackend]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with running(model, words, rows=4, context=CONTEXT) as backend:
        yield backend


def embed(backend: LocalBackend, *inputs: Any) -> list[Embedding]:
    events = [event for event in backend.embed(inputs) if isinstance(event, Embedded)]
    return [event.embedding for event in sorted(events, key=lambda event: event.index)]


def ids_of(events: Iterable[Event]) -> list[int]:
    return [event.id for event in events if isinstance(event, Token)]


def test_the_mean_of_the_hidden_states_is_the_vector_times_its_norm(
    folder: Path, backend: LocalBackend
) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        states = model(torch.tensor([[5, 6, 7, 8]]), output_hidden_states=True).hidden_states[-1]
    (embedding,) = embed(backend, [5, 6, 7, 8])
    torch.testing.assert_close(torch.tensor(embedding.vector) * embedding.norm, states[0].mean(0))


def test_a_text_and_its_token_ids_have_the_same_vector(backend: LocalBackend, words: Any) -> None:
    ids = words.encode("a cat", add_special_tokens=False)
    text, tokens = embed(backend, "a cat", ids)
    assert text == tokens and text.num_tokens == len(ids) and len(text.vector) == 32


def test_each_input_has_its_own_vector_in_order(backend: LocalBackend) -> None:
    together = embed(backend, "a cat", "a dog", "a cat")
    assert together[0] == together[2] != together[1]
    assert together == [embed(backend, text)[0] for text in ("a cat", "a dog", "a cat")]


def test_the_engine_has_as_many_inputs_as_rows_at_most(backend: LocalBackend) -> None:
    """Scheduling, aborting and collecting thousands would keep other requests waiting."""
    loads = [backend.current_load() for _ in backend.embed(["a cat"] * 40)]
    assert len(loads) == 40 and max(load.running + load.waiting for load in loads) <= 4


def test_a_stream_continues_while_vectors_are_computed(backend: LocalBackend) -> None:
    alone = ids_of(backend.generate(LONG))
    stream, vectors = backend.generate(LONG), []
    reader = Thread(target=lambda: vectors.extend(embed(backend, *["a cat"] * 40)))
    reader.start()
    assert ids_of(stream) == alone and len(alone) == LONG.max_tokens
    reader.join(60)
    assert len(vectors) == 40


@pytest.mark.parametrize("value", ("", [], "\ud800", [261], [-1], [1.5]))
def test_an_input_that_is_no_text_is_refused(backend: LocalBackend, value: Any) -> None:
    with pytest.raises(BadRequest, match=r"^input"):
        backend.embed(["a cat", value])


def test_an_input_may_have_as_many_tokens_as_the_context(backend: LocalBackend) -> None:
    assert embed(backend, [5] * CONTEXT)[0].num_tokens == CONTEXT
    with pytest.raises(TooLong, match=r"^input"):
        backend.embed([[5] * (CONTEXT + 1)])
    with pytest.raises(TooLong, match=r"^input"):
        backend.embed(["a" * 100_000])
    with pytest.raises(TooLong, match=r"^input"):  # before its characters are checked
        backend.embed(["a" * 100_000 + "\ud800"])


@pytest.mark.parametrize("count", (0, MAX_INPUTS + 1))
def test_the_number_of_inputs_is_limited(backend: LocalBackend, count: int) -> None:
    with pytest.raises(BadRequest, match=f"1 to {MAX_INPUTS}"):
        backend.embed(["a"] * count)


def test_a_model_without_embeddings_is_refused(backend: LocalBackend) -> None:
    runner = backend._engine.core.runner
    runner.capabilities = replace(runner.capabilities, pooling=False)
    with pytest.raises(NotImplementedHere, match="embeddings"):
        backend.embed(["a cat"])


def test_stopping_ends_a_wait_for_vectors(backend: LocalBackend) -> None:
    raised: list[Exception] = []

    def ask() -> None:
        try:
            embed(backend, *[[5] * CONTEXT] * MAX_INPUTS)
        except Unavailable as error:
            raised.append(error)

    asking = Thread(target=ask)
    asking.start()
    backend.close()
    asking.join(60)
    assert len(raised) == 1


def test_a_closed_embedding_is_not_computed_to_its_end(backend: LocalBackend) -> None:
    """Requests waiting behind it are not delayed."""
    streams = [backend.embed([[5] * CONTEXT] * MAX_INPUTS) for _ in range(6)]
    arrived: list[object] = []
    streams[0].start(arrived.append)
    for stream in streams:
        stream.close()
    assert list(streams[1]) == []
    assert embed(backend, "a cat")[0].num_tokens
    assert backend.current_load().running == 0 and len(arrived) < MAX_INPUTS


def test_pushed_vectors_are_delivered_like_stream_events(backend: LocalBackend) -> None:
    posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
    backend.attach(SimpleNamespace(call_soon_threadsafe=posted.put))  # type: ignore[arg-type]
    arrived: list[Any] = []
    backend.embed(["a cat"]).start(arrived.append)
    call = posted.get(timeout=60)
    assert not arrived
    call()
    assert arrived[0][0].index == 0


def test_a_closed_stream_pushes_no_vectors_already_posted(backend: LocalBackend) -> None:
    posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
    backend.attach(SimpleNamespace(call_soon_threadsafe=posted.put))  # type: ignore[arg-type]
    arrived: list[Any] = []
    stream = backend.embed(["a cat"])
    stream.start(arrived.append)
    call = posted.get(timeout=60)
    stream.close()
    call()
    assert not arrived


def test_a_pushed_stream_gets_an_error(backend: LocalBackend) -> None:
    stream = backend.embed([[5] * CONTEXT] * MAX_INPUTS)
    arrived: list[Any] = []
    stream.start(arrived.append)
    backend.close()
    assert isinstance(arrived[-1], Unavailable) and len(arrived) <= MAX_INPUTS
