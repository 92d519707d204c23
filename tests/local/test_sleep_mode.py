"""A sleeping model takes no requests and no memory; awake, it answers as before."""

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.backend import Backend
from inference.errors import BadRequest, ServerError, Unavailable
from inference.events import Event, Finished, Token
from inference.factory import LoadedEngine, open_backend, open_engine
from inference.local.sleep_mode import SleepMode
from inference.metrics import Metrics
from inference.model.memory_usage import kv_cache_bytes
from inference.model.weights import weight_cache
from inference.model.weights.mapped_model import mapped_file
from inference.native.weight_cache.file import PAGE, map_bytes
from inference.process.memory.rss import written_bytes
from inference.sampling import Sampling
from inference.types import GenerationRequest
from settings.groups import BackendSettings, EngineSettings, ModelSettings
from tests.timeouts import TIMEOUT_S
from tests.tiny_models import tiny

PROMPT = tuple(range(5, 45))
REQUEST = GenerationRequest(PROMPT, Sampling(greedy=True), max_tokens=8, ignore_eos=True)
LONG_REQUEST = dataclasses.replace(REQUEST, max_tokens=400)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedEngine:
    """A model whose packed weights an earlier load has kept."""
    folder = tmp_path_factory.mktemp("sleep")
    model = ModelSettings(dtype="bfloat16", device="cpu", weight_cache_dir=str(folder / "weights"))
    engine = EngineSettings(
        context=512, max_sequences=2, kv_memory_bytes=1 << 24, max_batch_tokens=64, max_queued_tokens=2000
    )
    tiny.llama(folder / "llama")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weight_cache, "MIN_BYTES", 0)
        open_engine(folder / "llama", model, engine)
        for thread in threading.enumerate():
            if thread.name == "weight-cache":
                thread.join()
        return open_engine(folder / "llama", model, engine)


@pytest.fixture(scope="module")
def backend(loaded: LoadedEngine) -> Iterator[Backend]:
    backend = open_backend(loaded, BackendSettings(), model_id="m", metrics=Metrics())
    yield backend
    backend.close()


@pytest.fixture
def sleep_mode(loaded: LoadedEngine, backend: Backend) -> Iterator[SleepMode]:
    sleep_mode = loaded.make_sleep_mode()
    assert sleep_mode is not None
    yield sleep_mode
    sleep_mode.wake_up()


def generate(backend: Backend, request: GenerationRequest = REQUEST) -> list[Event]:
    return list(backend.generate(request))


def ids(events: list[Event]) -> list[int]:
    return [event.id for event in events if isinstance(event, Token)]


def mapped_bytes(loaded: LoadedEngine) -> int:
    """Bytes of the mapped weights that this process has in memory."""
    file = mapped_file(loaded.loaded_model.model)
    assert file is not None
    return written_bytes(file.memory.data_ptr(), file.memory.nbytes)


def test_level_1_discards_the_kv_cache(loaded: LoadedEngine, backend: Backend, sleep_mode: SleepMode) -> None:
    first = ids(generate(backend))
    runner = loaded.selected_runner.runner
    assert kv_cache_bytes(runner)["cpu"] > 0 and mapped_bytes(loaded) > 0
    sleep_mode.sleep(1, "wait")
    assert kv_cache_bytes(runner)["cpu"] == 0 and mapped_bytes(loaded) > 0
    assert sleep_mode.wake_up() and not sleep_mode.is_sleeping
    again = generate(backend)
    assert ids(again) == first
    end = again[-1]
    assert isinstance(end, Finished) and not end.cached_tokens, "the prefix was forgotten"


def test_level_2_discards_mapped_weights_that_come_back_by_themselves(
    loaded: LoadedEngine, backend: Backend, sleep_mode: SleepMode
) -> None:
    first = ids(generate(backend))
    sleep_mode.sleep(2, "wait")
    assert mapped_bytes(loaded) == 0
    sleep_mode.wake_up()
    assert ids(generate(backend)) == first


def test_weights_whose_file_was_overwritten_are_not_discarded(
    tmp_path: Path, loaded: LoadedEngine, backend: Backend, sleep_mode: SleepMode
) -> None:
    """They were copied to memory, where nothing would bring them back."""
    path = tmp_path / "weights"
    path.write_bytes(b"\x07" * PAGE)
    weights = map_bytes(path)
    path.write_bytes(b"\x09" * PAGE)
    SleepMode(loaded.engine, loaded.engine_thread, loaded.selected_runner.runner, weights).sleep(2, "wait")
    assert int(weights.min()) == 7


def test_the_deepest_level_gives_back_the_cache_and_what_is_mapped(
    loaded: LoadedEngine, sleep_mode: SleepMode
) -> None:
    file, engine, runner = (
        mapped_file(loaded.loaded_model.model),
        loaded.engine,
        loaded.selected_runner.runner,
    )
    assert file is not None and sleep_mode.deepest_level == 2
    unmapped = SleepMode(engine, loaded.engine_thread, runner, None)
    assert unmapped.deepest_level == 1 and unmapped.reclaimable_bytes > 0
    assert sleep_mode.reclaimable_bytes == unmapped.reclaimable_bytes + file.memory.nbytes


def test_a_sleeping_model_refuses_requests(backend: Backend, sleep_mode: SleepMode) -> None:
    sleep_mode.sleep(1, "wait")
    with pytest.raises(Unavailable, match="the model sleeps: POST /wake_up"):
        generate(backend)
    assert not backend.unavailable_reason(), "it is healthy"


def test_the_weights_wake_before_the_kv_cache(
    loaded: LoadedEngine, backend: Backend, sleep_mode: SleepMode
) -> None:
    sleep_mode.sleep(2, "wait")
    assert not sleep_mode.wake_up(["weights"]) and sleep_mode.is_sleeping
    assert mapped_bytes(loaded) > 0
    assert sleep_mode.wake_up(["kv_cache"])
    assert len(ids(generate(backend))) == 8


def test_running_requests_fail_where_the_mode_is_abort(backend: Backend, sleep_mode: SleepMode) -> None:
    streams = [iter(backend.generate(LONG_REQUEST)) for _ in range(3)]
    next(streams[0])
    sleep_mode.sleep(1, "abort")
    for stream in streams:
        with pytest.raises(ServerError, match="the model was put to sleep"):
            list(stream)
    assert not backend.unavailable_reason(), "these are no failures of the engine"
    sleep_mode.wake_up()
    assert len(ids(generate(backend))) == 8


def test_running_requests_end_first_where_the_mode_is_wait(backend: Backend, sleep_mode: SleepMode) -> None:
    stream = iter(backend.generate(LONG_REQUEST))
    next(stream)
    sleeper = threading.Thread(target=sleep_mode.sleep, args=(1, "wait"))
    sleeper.start()
    assert len(ids(list(stream))) == 400
    sleeper.join(TIMEOUT_S)
    assert sleep_mode.is_sleeping


def test_one_call_waits_at_a_time(sleep_mode: SleepMode) -> None:
    with sleep_mode._only_one_waits():
        with pytest.raises(Unavailable, match="another request waits to put the model to sleep"):
            sleep_mode.sleep(1, "wait")
        sleep_mode.sleep(1, "abort")
    assert sleep_mode.is_sleeping


@pytest.mark.parametrize(("level", "mode"), [(0, "wait"), (3, "wait"), (1, "keep")])
def test_other_levels_and_modes_are_refused(level: int, mode: str, sleep_mode: SleepMode) -> None:
    with pytest.raises(BadRequest, match="must be one of"):
        sleep_mode.sleep(level, mode)
    assert not sleep_mode.is_sleeping


def test_weights_in_memory_are_not_discarded(loaded: LoadedEngine, backend: Backend) -> None:
    sleep_mode = SleepMode(loaded.engine, loaded.engine_thread, loaded.selected_runner.runner, None)
    with pytest.raises(BadRequest, match="level must be 1: these weights are not mapped"):
        sleep_mode.sleep(2, "wait")
