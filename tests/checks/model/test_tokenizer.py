"""A tokenizer that would make a huge text of a short one is reported before the start."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("file", "tokenizer_class", "have"),
    [
        ("", "LlamaTokenizer", "no file with one"),
        ("tekken.json", "", "tekken.json alone"),
        ("", "ByT5Tokenizer", None),
        ("vocab.json", "GPT2Tokenizer", None),
        ("spiece.model", "T5Tokenizer", None),
    ],
)
def test_a_model_without_a_vocabulary_is_refused(
    file: str,
    tokenizer_class: str,
    have: str | None,
    tmp_path: Path,
    planned: Callable[..., Plan],
    machine: Machine,
) -> None:
    folder = tiny.llama(tmp_path / "model")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": tokenizer_class}))
    if file:
        (folder / file).write_text("{}")
    finding = tokenizer.check(planned(from_folder("model", folder)), machine)
    assert (finding and (finding.ok, finding.have)) == (have and (False, have))
