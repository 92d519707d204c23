"""The parity table is complete and correct, and so are the functions that make it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import transformers

from scripts.parity import table, tiny_model
from scripts.parity.sizes import HIDDEN, VOCAB, WINDOW
from scripts.parity.tiny_config import shrink

ROOT = Path(__file__).resolve().parents[2]
TABLE_TEXT = table.TABLE_FILE.read_text()
SERVED = ("exact", table.AS_FORWARD)


def exact(line: table.TableRow) -> bool:
    return line.alone in SERVED and line.mixed in SERVED


def rows_of_section(is_encoder_decoder: bool) -> list[table.TableRow]:
    """The rows of one section of the committed table."""
    return table.parse_table(TABLE_TEXT.split("\n## ")[1 + is_encoder_decoder])


@pytest.mark.skipif(transformers.__version__ not in TABLE_TEXT, reason="made with another transformers")
def test_the_table_has_a_row_for_every_registered_type() -> None:
    kinds = [(kind.type, kind.architecture) for kind in tiny_model.list_types()]
    assert [(line.type, line.architecture) for line in table.parse_table(TABLE_TEXT)] == kinds


@pytest.mark.parametrize(("is_encoder_decoder", "share"), [(False, 0.95), (True, 0.90)])
def test_nearly_every_type_is_exact(is_encoder_decoder: bool, share: float) -> None:
    lines = rows_of_section(is_encoder_decoder)
    assert lines
    assert sum(map(exact, lines)) >= share * len(lines)


def test_types_that_are_not_exact_are_refused_with_a_reason() -> None:
    lines = table.parse_table(TABLE_TEXT)
    assert lines
    for line in lines:
        assert exact(line) or (not line.alone and line.reason), line


@pytest.mark.timeout(900)  # on a machine that other programs load, too
@pytest.mark.slow
def test_a_sample_of_the_table_is_reproduced() -> None:
    settings = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "scripts.parity", "--sample"]
    process = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=850)
    assert process.returncode == 0, process.stderr
    lines = table.parse_table(process.stdout)
    types = {line.type for line in lines}
    assert len(types) >= 8
    assert lines == [line for line in table.parse_table(TABLE_TEXT) if line.type in types]


def test_a_shrunk_config_keeps_a_layer_of_each_kind() -> None:
    kinds = ["linear", "linear", "linear", "full"] * 4
    small = shrink(
        {"num_hidden_layers": 16, "layer_types": kinds, "widths": [9] * 15 + [4], "sliding_window": 4096}
    )
    assert small["layer_types"] == ["linear", "full", "full"]
    assert small["widths"] == [9, 9, 4]
    assert (small["num_hidden_layers"], small["sliding_window"]) == (3, WINDOW)


@pytest.mark.parametrize(("num_heads", "expected"), [(32, 4), (8, 2), (1, 1)])
def test_a_shrunk_config_groups_heads_as_the_model_does(num_heads: int, expected: int) -> None:
    settings = {"num_attention_heads": 32, "num_key_value_heads": num_heads}
    assert shrink(settings)["num_key_value_heads"] == expected


def test_special_tokens_stay_within_a_shrunk_vocabulary_and_distinct() -> None:
    text_config = {"model_type": "x", "vocab_size": 99_999, "image_token_id": 99_000, "eos_token_id": [7, 8]}
    small = shrink(
        {"image_token_id": 99_000, "audio_token_index": 98_000, "pad_token_id": None, "text": text_config}
    )
    assert small["text"]["image_token_id"] == small["image_token_id"] != small["audio_token_index"]
    assert max(small["image_token_id"], small["audio_token_index"]) < small["text"]["vocab_size"] == VOCAB
    assert "pad_token_id" not in small


def test_overrides_of_one_type_replace_shrunk_values_in_nested_configs_too() -> None:
    merged = tiny_model.merge({"text": {"a": 1, "b": 2}, "c": 3}, {"text": {"b": HIDDEN}})
    assert merged == {"text": {"a": 1, "b": HIDDEN}, "c": 3}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """What children of a new process return: one with torch's threads must not fork."""
    done = subprocess.run(
        [sys.executable, "-c", CHILDREN], capture_output=True, text=True, check=True, cwd=ROOT
    )
    outcomes: dict[str, Any] = json.loads(done.stdout)
    return outcomes


CHILDREN = """
import json, os, time
from scripts.parity import child

def outcome(function, **limits):
    try:
        return child.run(function, **limits)
    except child.ChildFailed as error:
        return str(error)

print(json.dumps({
    "result": outcome(lambda: 6 * 7),
    "hangs": outcome(lambda: time.sleep(60), timeout_s=1),
    "memory": outcome(lambda: len(bytearray(1 << 33)), memory=1 << 28),
    "dies": outcome(lambda: os._exit(3)),
}))
"""


def test_a_child_returns_its_functions_result(outcomes: dict[str, Any]) -> None:
    assert outcomes["result"] == 42


def test_a_child_that_hangs_is_stopped(outcomes: dict[str, Any]) -> None:
    assert outcomes["hangs"] == "not done in 1 s"


def test_a_child_that_uses_too_much_memory_is_stopped(outcomes: dict[str, Any]) -> None:
    assert outcomes["memory"].endswith("code 1")


def test_a_child_that_dies_is_reported(outcomes: dict[str, Any]) -> None:
    assert outcomes["dies"].endswith("code 3")
