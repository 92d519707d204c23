"""Every type is proved: the table that is kept is whole and true, and what makes it does what it says."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import transformers

from scripts.prove import child, table, tiny
from scripts.prove.shrink import shrunk
from scripts.prove.sizes import HIDDEN, VOCAB, WINDOW

ROOT = Path(__file__).resolve().parents[2]
KEPT = table.KEPT.read_text()
SERVED = ("exact", table.DEPARTS)


def exact(line: table.Line) -> bool:
    return line.alone in SERVED and line.mixed in SERVED


def of(encodes: bool) -> list[table.Line]:
    """The rows of one of the kept table's sections."""
    return table.read(KEPT.split("\n## ")[1 + encodes])


@pytest.mark.skipif(transformers.__version__ not in KEPT, reason="made with another transformers")
def test_the_table_has_a_row_for_every_registered_type() -> None:
    kinds = [(kind.type, kind.architecture) for kind in tiny.kinds()]
    assert [(line.type, line.architecture) for line in table.read(KEPT)] == kinds


@pytest.mark.parametrize(("encodes", "share"), [(False, 0.95), (True, 0.90)])
def test_nearly_every_type_is_answered_for_exactly(encodes: bool, share: float) -> None:
    lines = of(encodes)
    assert sum(map(exact, lines)) >= share * len(lines)


def test_what_is_not_exact_is_refused_for_a_reason() -> None:
    for line in table.read(KEPT):
        assert exact(line) or (not line.alone and line.why), line


@pytest.mark.slow
def test_a_sample_of_the_table_is_made_again() -> None:
    settings = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "scripts/prove.py", "--sample"]
    made = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=280)
    assert made.returncode == 0, made.stderr
    lines = table.read(made.stdout)
    types = {line.type for line in lines}
    assert len(types) >= 8
    assert lines == [line for line in table.read(KEPT) if line.type in types]


def test_a_shrunk_config_keeps_a_layer_of_each_kind() -> None:
    kinds = ["linear", "linear", "linear", "full"] * 4
    made = shrunk(
        {"num_hidden_layers": 16, "layer_types": kinds, "widths": [9] * 15 + [4], "sliding_window": 4096}
    )
    assert made["layer_types"] == ["linear", "full", "full"]
    assert made["widths"] == [9, 9, 4]
    assert (made["num_hidden_layers"], made["sliding_window"]) == (3, WINDOW)


@pytest.mark.parametrize(("heads", "made"), [(32, 4), (8, 2), (1, 1)])
def test_a_shrunk_config_groups_heads_as_the_model_does(heads: int, made: int) -> None:
    settings = {"num_attention_heads": 32, "num_key_value_heads": heads}
    assert shrunk(settings)["num_key_value_heads"] == made


def test_special_tokens_stay_within_a_shrunk_vocabulary_and_apart() -> None:
    parts = {"model_type": "x", "vocab_size": 99_999, "image_token_id": 99_000, "eos_token_id": [7, 8]}
    made = shrunk(
        {"image_token_id": 99_000, "audio_token_index": 98_000, "pad_token_id": None, "text": parts}
    )
    assert made["text"]["image_token_id"] == made["image_token_id"] != made["audio_token_index"]
    assert max(made["image_token_id"], made["audio_token_index"]) < made["text"]["vocab_size"] == VOCAB
    assert "pad_token_id" not in made


def test_settings_of_one_type_replace_what_was_shrunk_within_parts_too() -> None:
    made = tiny.merged({"text": {"a": 1, "b": 2}, "c": 3}, {"text": {"b": HIDDEN}})
    assert made == {"text": {"a": 1, "b": HIDDEN}, "c": 3}


def test_a_child_gives_what_its_function_returns() -> None:
    assert child.run(lambda: 6 * 7) == 42


def test_a_child_that_hangs_is_ended() -> None:
    with pytest.raises(child.Ended, match="not done in 1 s"):
        child.run(lambda: time.sleep(60), timeout_s=1)


def test_a_child_that_eats_memory_is_ended() -> None:
    with pytest.raises(child.Ended, match="code 1"):
        child.run(lambda: len(bytearray(1 << 33)), memory=1 << 28)


def test_a_child_that_dies_is_told_of() -> None:
    with pytest.raises(child.Ended, match="code 3"):
        child.run(lambda: os._exit(3))
