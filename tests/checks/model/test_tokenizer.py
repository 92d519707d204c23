"""A tokenizer that would make a huge text of a short one is reported before the start."""

from collections.abc import Callable
from pathlib import Path

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.model import tokenizer
from hub.resolve import from_folder
from tests.tiny_models import tiny


def test_a_tokenizer_without_bounds_is_refused(
    tmp_path: Path, planned: Callable[..., Plan], machine: Machine
) -> None:
    folder = tiny.llama(tmp_path / "model")
    plan = planned(from_folder("model", folder))
    assert tokenizer.check(plan, machine) is None
    tiny.edit(folder / "tokenizer.json", normalizer={"type": "Prepend", "prepend": "a" * 1000})
    finding = tokenizer.check(plan, machine)
    assert finding and not finding.ok
    assert "tokenizer.json cannot be used: prepend in its normalizer has 1000 characters" in finding.have
