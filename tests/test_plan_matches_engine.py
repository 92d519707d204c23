"""The plan is made before any weights are loaded; the serving engine must match it.

Checked are the bytes per token, the token capacity, the context and the number of rows.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from checks.machine import Machine
from checks.memory.estimate import kv_limits
from checks.memory.plan import Plan
from checks.preflight import plan_repository
from checks.resources import enough_memory
from hub.resolve import resolve_model
from inference.backend import Backend
from inference.factory import LoadedEngine
from inference.metrics import Metrics
from inference.model.load.device_dtype import DEFAULT_CONTEXT
from inference.model.paged.kv_pool import PAGE_SIZE
from selftest.memory_report import MemoryReport
from settings.device_defaults import fill_defaults
from settings.groups import server_settings
from settings.schema import Settings
from startup.engine import load, make_backend
from tests.fakes.fake_backend import make_models
from tests.settings.parsed_settings import parsed_settings
from tests.tiny_models import families, tiny

MACHINE = Machine(disk=10**12, ram=10**11, gpus=(), bfloat16_devices=frozenset({"cpu"}), port_error="")
CONTEXT, ROWS = 40, 3  # not a multiple of the page size
DEFAULTS: dict[str, Any] = {"CONTEXT": CONTEXT, "MAX_SEQUENCES": ROWS, "SERVED_NAMES": "m"}


@dataclass
class Promise:
    """A plan, and the engine that was loaded for it."""

    settings: Settings
    plan: Plan
    budget: enough_memory.MemoryBudget
    opened: LoadedEngine
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def token(self) -> int:
        assert self.plan.model_size is not None
        return self.plan.model_size.kv_cost.per_recent_token

    @property
    def runner_kind(self) -> str:
        return self.opened.selected_runner.runner_kind

    @cached_property
    def backend(self) -> Backend:
        return make_backend(self.settings, self.opened, self.metrics)

    @cached_property
    def client(self) -> FlaskClient:
        return create_app(
            make_models(self.backend, *self.settings.served_names),
            server_settings(self.settings, "1"),
            self.metrics,
        ).test_client()

    def check(self) -> None:
        """Raises AssertionError if the engine's sizes differ from the plan's."""
        selected, runner = self.opened.selected_runner, self.opened.selected_runner.runner
        assert self.plan.model_size is not None
        kv_cost = self.plan.model_size.kv_cost
        assert selected.kv_cost == kv_cost
        assert (runner.context, runner.max_sequences) == (self.budget.context, self.plan.max_sequences)
        [terms] = enough_memory.full_batch_terms(self.plan, MACHINE).values()
        page = PAGE_SIZE if runner.capabilities.paged else 1
        engine_bytes = kv_cost.useful_bytes(runner.kv_capacity, kv_limits(self.plan, self.budget.context))
        assert 0 <= engine_bytes - terms.kv < self.plan.max_sequences * page * max(1, self.token)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    yield {}


@pytest.fixture
def promised(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Plans and loads a tiny model of a family."""
    promises: list[Promise] = []

    def promise(family: str, free_bytes: int | None = None, **values: Any) -> Promise:
        """`free_bytes`: bytes of RAM that remain for KV memory."""
        if family not in folders:
            folder = folders[family] = tmp_path_factory.mktemp(family.replace("+", "_"))
            families.tiny(family).save_pretrained(folder)
            tiny.tokenizer().save_pretrained(folder)
        setting_values = {
            "MODEL_NAME": str(folders[family]),
            "CONTEXT": CONTEXT,
            "MAX_SEQUENCES": ROWS,
            "SERVED_NAMES": "m",
        } | values
        resolved = fill_defaults(parsed_settings(**setting_values), "cpu")
        planned = plan_repository(resolved, resolve_model(resolved, folders[family]), MACHINE)
        [terms] = enough_memory.full_batch_terms(planned, MACHINE).values()
        ram = MACHINE.ram if free_bytes is None else terms.fixed - planned.overhead.private + free_bytes
        machine = replace(MACHINE, ram=ram)
        opened = load(resolved, planned, machine)
        promises.append(Promise(resolved, planned, enough_memory.plan_budget(planned, machine), opened))
        return promises[-1]

    yield promise
    for each in promises:
        each.backend.close()


FAMILIES = ("llama", "gemma3_text", "mixtral", "gpt2", "bloom", "jamba", "mamba", "t5", "bart")
LATENT = "deepseek_v3"  # the runners cache different amounts of its keys and values


@pytest.mark.parametrize("deterministic", (False, True), ids=("plain", "deterministic"))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_token_takes_the_planned_bytes(promised: Any, family: str, deterministic: bool) -> None:
    promised(family, DETERMINISTIC=deterministic).check()


@pytest.mark.parametrize("runner", ("fused", "paged"))
# As many bytes as are useful; fewer than 120 tokens take without a window.
@pytest.mark.parametrize("num_bytes", (0, 30_000))
def test_layers_with_a_window_take_the_planned_bytes(promised: Any, runner: str, num_bytes: int) -> None:
    limits = {"CONTEXT": 120, "MAX_BATCH_TOKENS": 16, "KV_MEMORY_GB": num_bytes / 10**9}
    promise = promised("gemma3_text", RUNNER=runner, **limits)
    selected = promise.opened.selected_runner
    [group] = selected.runner.window_groups
    assert selected.kv_cost == promise.plan.model_size.kv_cost and selected.kv_cost.windowed
    assert selected.runner.context == promise.budget.context == 120
    [terms] = enough_memory.full_batch_terms(promise.plan, MACHINE).values()
    group_bytes = group.num_pages * PAGE_SIZE * dict(selected.kv_cost.windowed)[group.window]
    full_bytes = selected.runner.kv_capacity * selected.kv_cost.per_token
    if num_bytes:
        assert group_bytes + full_bytes <= terms.kv == num_bytes < 120 * promise.token
    else:
        assert group_bytes + full_bytes == terms.kv
    assert [code for code, _ in complete_concurrently(promise, 6, 100)] == [200] * 6


def test_the_bytes_of_a_row_are_reported_apart_from_those_of_a_token(promised: Any) -> None:
    promise = promised("jamba")
    entries = {
        entry.name: entry for entry in MemoryReport(promise.plan, MACHINE, promise.opened).terms_when_ready()
    }
    for term in ("KV a token", "KV a row"):
        assert entries[term].predicted == entries[term].actual > 0
    plain = promised("llama")
    assert "KV a row" not in {
        entry.name for entry in MemoryReport(plain.plan, MACHINE, plain.opened).terms_when_ready()
    }


@pytest.mark.parametrize("runner", ("paged", "contiguous", "uncached"))
@pytest.mark.parametrize("family", ("llama", LATENT))
def test_a_token_takes_the_planned_bytes_in_the_runner_that_is_set(
    promised: Any, family: str, runner: str
) -> None:
    promise = promised(family, RUNNER=runner)
    promise.check()
    assert promise.runner_kind == runner


def test_latents_are_expanded_only_in_pages_and_never_with_deterministic(promised: Any) -> None:
    alone, paged = (promised(LATENT, **values) for values in ({"DETERMINISTIC": True}, {"RUNNER": "paged"}))
    alone.check()
    assert alone.runner_kind == "contiguous" and 4 * alone.token < paged.token


@pytest.mark.parametrize(
    ("family", "values"),
    [
        *(("llama", {"RUNNER": runner}) for runner in ("fused", "paged", "contiguous", "uncached")),
        ("llama", {"DETERMINISTIC": True, "DTYPE": "bfloat16"}),
        ("gemma3_text", {}),  # sliding window
        ("jamba", {}),
        ("mamba", {}),
        ("t5", {}),
    ],
)
def test_requests_have_the_planned_context(promised: Any, family: str, values: dict[str, Any]) -> None:
    promise = promised(family, **values)
    info = promise.client.get("/info").json
    assert info["max_total_tokens"] == promise.budget.context == CONTEXT
    assert info["max_input_tokens"] == CONTEXT - 1
    assert complete(promise, CONTEXT - 1, 1)[0] == 200
    code, error = complete(promise, CONTEXT + 1, 1)
    assert code == 400 and str(CONTEXT) in error, "a refusal names the limit"


def complete(promise: Promise, prompt: int, new: int) -> tuple[int, str]:
    """Status and error, if any, of a completion with a prompt of `prompt` tokens."""
    body = {"model": "m", "prompt": [7] * prompt, "max_tokens": new}
    response = promise.client.post("/v1/completions", json=body)
    return response.status_code, str(response.json.get("error"))


@pytest.mark.parametrize(
    ("family", "values", "context"),
    [
        ("llama", {"CONTEXT": 0}, families.CONTEXT),
        ("bloom", {"CONTEXT": 0}, DEFAULT_CONTEXT),
        ("mamba", {"CONTEXT": 0}, DEFAULT_CONTEXT),
        ("t5", {"CONTEXT": 0}, DEFAULT_CONTEXT),
        ("llama", {"CONTEXT": 0, "MAX_BATCH_TOTAL_TOKENS": 50}, 50),
        ("llama", {"CONTEXT": 0, "KV_MEMORY_GB": 0.000016384}, 64),  # 256 bytes per token
        ("llama", {"CONTEXT": 0, "ROPE_FACTOR": 2}, 2 * families.CONTEXT),
    ],
)
def test_a_context_that_is_not_set_is_the_plans(
    promised: Any, family: str, values: dict[str, Any], context: int
) -> None:
    promise = promised(family, **values)
    assert (
        promise.budget.context
        == promise.backend.info().context
        == promise.opened.selected_runner.runner.context
        == context
    )


@pytest.mark.parametrize("kind", ("fused", "paged", "contiguous"))
def test_the_kv_memory_setting_is_a_limit(promised: Any, kind: str) -> None:
    promise = promised("llama", RUNNER=kind, KV_MEMORY_GB=0.000016384)
    runner = promise.opened.selected_runner.runner
    assert runner.kv_capacity == 64 and promise.opened.engine.stats().kv_capacity == 64
    assert "hearth_kv_capacity 64.0" in promise.client.get("/metrics").text


def test_the_limit_of_total_tokens_is_obeyed(promised: Any) -> None:
    promise = promised("llama", MAX_BATCH_TOTAL_TOKENS=64)
    assert promise.opened.engine.stats().kv_capacity == 64


def test_with_little_memory_the_context_is_what_fits(promised: Any) -> None:
    promise = promised("llama", free_bytes=20_000, CONTEXT=0, RUNNER="paged")
    context = promise.budget.context
    assert (
        16 <= context < families.CONTEXT and promise.client.get("/info").json["max_total_tokens"] == context
    )
    kv_capacity = promise.opened.engine.stats().kv_capacity
    assert context <= kv_capacity <= promise.budget.kv_memory_bytes // promise.token + PAGE_SIZE, (
        "the last page may be partial"
    )
    assert [code for code, _ in complete_concurrently(promise, 8, context - 8)] == [200] * 8
    assert kv_capacity < ROWS * context, "all rows together did not fit"


def complete_concurrently(promise: Promise, count: int, prompt: int) -> list[tuple[int, str]]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: complete(promise, prompt, 8), range(count)))


@pytest.mark.parametrize("runner", ("fused", "paged"))
def test_many_rows_take_no_more_pages_than_memory_allows(promised: Any, runner: str) -> None:
    promise = promised("llama", RUNNER=runner, MAX_SEQUENCES=64, KV_MEMORY_GB=0.00004)  # 156 tokens
    assert promise.opened.engine.stats().kv_capacity <= 156
    assert [code for code, _ in complete_concurrently(promise, 12, 20)] == [200] * 12
