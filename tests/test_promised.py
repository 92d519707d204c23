"""What the plan says before a byte of weights is there is what the engine has once it serves: bytes of a
token, room for tokens, context, rows."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from ahead import looked_up
from api import create_app
from checks import memory
from checks.machine import Machine
from checks.plan import Plan
from inference.backend import Backend
from inference.metrics import Metrics
from inference.model.packed.runner import SIZE
from inference.model.place import OPEN_ENDED
from inference.opening import Opened
from selftest.ledger import Ledger
from settings.fields import Settings
from tests import families, tiny
from tests.test_wiring import settings
from wiring import app_settings, backend_of, load, plan_of

MACHINE = Machine(disk=10**12, ram=10**11, gpus=(), bfloat16=frozenset({"cpu"}), taken="")
CONTEXT, ROWS = 40, 3  # no whole page
GIVEN: dict[str, Any] = {"CONTEXT": CONTEXT, "MAX_SEQUENCES": ROWS, "SERVED_NAMES": "m"}


@dataclass
class Promise:
    """What was planned, and what came of it."""

    settings: Settings
    plan: Plan
    budget: memory.Budget
    opened: Opened
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def token(self) -> int:
        assert self.plan.measure is not None
        return self.plan.measure.token

    @property
    def seat(self) -> str:
        return self.opened.fitted.seat

    @cached_property
    def backend(self) -> Backend:
        return backend_of(self.settings, self.opened, self.metrics)

    @cached_property
    def client(self) -> FlaskClient:
        return create_app(self.backend, app_settings(self.settings, "1"), self.metrics).test_client()

    def check(self) -> None:
        """Raise AssertionError where the engine has another size than the plan."""
        fitted, runner = self.opened.fitted, self.opened.fitted.runner
        assert self.plan.measure is not None
        assert fitted.bytes_per_token == self.token and fitted.bytes_per_row == self.plan.measure.row
        assert (runner.context, runner.max_rows) == (self.budget.context, self.plan.rows)
        [terms] = memory.full(self.plan, MACHINE).values()
        kept = terms.kv - self.plan.rows * self.plan.measure.row
        page = SIZE if runner.paged else 1
        assert 0 <= runner.area * self.token - kept < self.plan.rows * page * max(1, self.token)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    yield {}


@pytest.fixture
def promised(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Plan and open a tiny model of a family."""
    promises: list[Promise] = []

    def promise(family: str, room: int | None = None, **values: Any) -> Promise:
        """`room`: bytes of RAM that are left for tokens."""
        if family not in folders:
            folder = folders[family] = tmp_path_factory.mktemp(family.replace("+", "_"))
            families.tiny(family).save_pretrained(folder)
            tiny.tokenizer().save_pretrained(folder)
        given = {
            "MODEL_NAME": str(folders[family]),
            "CONTEXT": CONTEXT,
            "MAX_SEQUENCES": ROWS,
            "SERVED_NAMES": "m",
        } | values
        asked = settings(**given)
        planned = plan_of(asked, looked_up(asked, folders[family]), MACHINE)
        [terms] = memory.full(planned, MACHINE).values()
        left = MACHINE.ram if room is None else terms.fixed - planned.overhead.own + room
        machine = replace(MACHINE, ram=left)
        opened = load(asked, planned, machine)
        promises.append(Promise(asked, planned, memory.budget(planned, machine), opened))
        return promises[-1]

    yield promise
    for made in promises:
        made.backend.close()


FAMILIES = ("llama", "gemma3_text", "mixtral", "gpt2", "bloom", "jamba", "mamba", "t5", "bart")
LATENT = "deepseek_v3"  # of which the seats keep unlike amounts


@pytest.mark.parametrize("deterministic", (False, True), ids=("plain", "deterministic"))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_token_takes_what_was_promised(promised: Any, family: str, deterministic: bool) -> None:
    promised(family, DETERMINISTIC=deterministic).check()


def test_what_a_state_takes_is_told_besides(promised: Any) -> None:
    made = promised("jamba")
    found = {entry.term: entry for entry in Ledger(made.plan, MACHINE, made.opened).loaded()}
    for term in ("KV a token", "KV a row"):
        assert found[term].predicted == found[term].actual > 0
    plain = promised("llama")
    assert "KV a row" not in {entry.term for entry in Ledger(plain.plan, MACHINE, plain.opened).loaded()}


@pytest.mark.parametrize("seat", ("packed", "slots", "solo"))
@pytest.mark.parametrize("family", ("llama", LATENT))
def test_it_does_in_the_seat_asked_for(promised: Any, family: str, seat: str) -> None:
    made = promised(family, SEAT=seat)
    made.check()
    assert made.seat == seat


def test_latents_are_unfolded_in_pages_alone_and_never_under_deterministic(promised: Any) -> None:
    alone, paged = (promised(LATENT, **given) for given in ({"DETERMINISTIC": True}, {"SEAT": "packed"}))
    alone.check()
    assert alone.seat == "slots" and 4 * alone.token < paged.token


@pytest.mark.parametrize(
    ("family", "values"),
    [
        *(("llama", {"SEAT": seat}) for seat in ("fused", "packed", "slots", "solo")),
        ("llama", {"DETERMINISTIC": True, "DTYPE": "bfloat16"}),
        ("gemma3_text", {}),  # a window
        ("jamba", {}),
        ("mamba", {}),
        ("t5", {}),
    ],
)
def test_requests_have_the_context_that_was_planned(
    promised: Any, family: str, values: dict[str, Any]
) -> None:
    made = promised(family, **values)
    told = made.client.get("/info").json
    assert told["max_total_tokens"] == made.budget.context == CONTEXT
    assert told["max_input_tokens"] == CONTEXT - 1
    assert generated(made, CONTEXT - 1, 1)[0] == 200
    code, error = generated(made, CONTEXT + 1, 1)
    assert code == 400 and str(CONTEXT) in error, "a refusal names the limit"


def generated(made: Promise, prompt: int, new: int) -> tuple[int, str]:
    """The status, and the error if there is one, of a prompt of so many tokens."""
    body = {"model": "m", "prompt": [7] * prompt, "max_tokens": new}
    answer = made.client.post("/v1/completions", json=body)
    return answer.status_code, str(answer.json.get("error"))


@pytest.mark.parametrize(
    ("family", "values", "context"),
    [
        ("llama", {"CONTEXT": 0}, families.CONTEXT),
        ("bloom", {"CONTEXT": 0}, OPEN_ENDED),
        ("mamba", {"CONTEXT": 0}, OPEN_ENDED),
        ("t5", {"CONTEXT": 0}, OPEN_ENDED),
        ("llama", {"CONTEXT": 0, "MAX_BATCH_TOTAL_TOKENS": 50}, 50),
        ("llama", {"CONTEXT": 0, "KV_MEMORY_GB": 0.000016384}, 64),  # of 256 bytes a token
        ("llama", {"CONTEXT": 0, "ROPE_FACTOR": 2}, 2 * families.CONTEXT),
    ],
)
def test_a_context_that_is_not_asked_for_is_the_plans(
    promised: Any, family: str, values: dict[str, Any], context: int
) -> None:
    made = promised(family, **values)
    assert made.budget.context == made.backend.info().context == made.opened.fitted.runner.context == context


@pytest.mark.parametrize("seat", ("fused", "packed", "slots"))
def test_the_memory_asked_for_is_the_most_that_is_taken(promised: Any, seat: str) -> None:
    made = promised("llama", SEAT=seat, KV_MEMORY_GB=0.000016384)
    runner = made.opened.fitted.runner
    assert runner.area == 64 and made.opened.engine.stats().room == 64
    assert "hearth_room 64.0" in made.client.get("/metrics").text


def test_tokens_in_all_are_no_more_than_asked_for(promised: Any) -> None:
    made = promised("llama", MAX_BATCH_TOTAL_TOKENS=64)
    assert made.opened.engine.stats().room == 64


def test_where_memory_is_short_the_context_is_what_it_holds(promised: Any) -> None:
    made = promised("llama", room=20_000, CONTEXT=0, SEAT="packed")
    context = made.budget.context
    assert 16 <= context < families.CONTEXT and made.client.get("/info").json["max_total_tokens"] == context
    room = made.opened.engine.stats().room
    assert context <= room <= made.budget.kv // made.token + SIZE, "the last page may be no full one"
    assert [code for code, _ in asked_at_once(made, 8, context - 8)] == [200] * 8
    assert room < ROWS * context, "and not all had room together"


def asked_at_once(made: Promise, count: int, prompt: int) -> list[tuple[int, str]]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: generated(made, prompt, 8), range(count)))


@pytest.mark.parametrize("seat", ("fused", "packed"))
def test_many_rows_take_no_more_pages_than_there_is_memory_for(promised: Any, seat: str) -> None:
    made = promised("llama", SEAT=seat, MAX_SEQUENCES=64, KV_MEMORY_GB=0.00004)  # of 156 tokens
    assert made.opened.engine.stats().room <= 156
    assert [code for code, _ in asked_at_once(made, 12, 20)] == [200] * 12
