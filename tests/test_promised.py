"""What the plan says before a byte of weights is there is what the engine has once it serves: bytes of a
token, room for tokens, context, rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checks import memory
from checks.machine import Machine
from checks.plan import Plan
from inference.model.packed.runner import SIZE
from inference.opening import Opened
from tests import families, tiny
from tests.test_wiring import settings
from wiring import load, plan_of

MACHINE = Machine(disk=10**12, ram=10**11, gpus=(), bfloat16=frozenset({"cpu"}), taken="")
CONTEXT, ROWS = 40, 3  # no whole page


@dataclass
class Promise:
    """What was planned, and what came of it."""

    plan: Plan
    budget: memory.Budget
    opened: Opened

    @property
    def token(self) -> int:
        assert self.plan.measure is not None
        return self.plan.measure.token

    @property
    def seat(self) -> str:
        return self.opened.fitted.seat

    def check(self) -> None:
        """Raise AssertionError where the engine has another size than the plan."""
        fitted, runner = self.opened.fitted, self.opened.fitted.runner
        assert fitted.bytes_per_token == self.token
        assert (runner.context, runner.max_rows) == (self.budget.context, self.plan.rows)
        [terms] = memory.full(self.plan, MACHINE).values()
        assert self.plan.measure is not None
        kept = terms.kv - self.plan.rows * self.plan.measure.row
        page = SIZE if runner.paged else 1
        assert 0 <= runner.area * self.token - kept < self.plan.rows * page * max(1, self.token)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    yield {}


@pytest.fixture
def promised(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Plan and open a tiny model of a family."""
    crews = []

    def promise(family: str, **values: Any) -> Promise:
        if family not in folders:
            folder = folders[family] = tmp_path_factory.mktemp(family.replace("+", "_"))
            families.tiny(family).save_pretrained(folder)
            tiny.tokenizer().save_pretrained(folder)
        given = {"MODEL_NAME": str(folders[family]), "CONTEXT": CONTEXT, "MAX_SEQUENCES": ROWS} | values
        asked = settings(**given)
        planned = plan_of(asked, folders[family], MACHINE)
        opened = load(asked, planned, MACHINE)
        crews.append(opened.crew)
        return Promise(planned, memory.budget(planned, MACHINE), opened)

    yield promise
    for crew in crews:
        crew.close()


FAMILIES = ("llama", "gemma3_text", "mixtral", "gpt2", "bloom", "jamba", "mamba", "t5", "bart")
LATENT = "deepseek_v3"  # of which the seats keep unlike amounts


@pytest.mark.parametrize("deterministic", (False, True), ids=("plain", "deterministic"))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_token_takes_what_was_promised(promised: Any, family: str, deterministic: bool) -> None:
    promised(family, DETERMINISTIC=deterministic).check()


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
