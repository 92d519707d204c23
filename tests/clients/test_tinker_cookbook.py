"""Recipes of the real tinker-cookbook train models/demo, unmodified, with data from local files."""

import json
import math
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_process import run_driver
from tests.servers.serving import serving

pytestmark = pytest.mark.slow

MODEL = "models/demo"
NUM_ROWS = 40
PAIRS = "Anthropic/hh-rlhf"  # the recipe asks for this data set by its name


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The losses of each recipe, by its name."""
    folder: Path = tmp_path_factory.mktemp("cookbook")
    write_data(folder)
    with serving("--tuning-dir", str(folder / "tuning")) as running:
        arguments = (running.url, MODEL, str(folder), sysconfig.get_path("purelib"))
        return run_driver("tinker-cookbook-0.6.1", "drive_tinker_cookbook.py", *arguments)


def write_data(folder: Path) -> None:
    """The tokenizer and the rows where the recipes look for them."""
    (folder / MODEL).parent.mkdir()
    (folder / MODEL).symlink_to(Path(MODEL).absolute())
    questions = [f"Which is the capital of France? ({number})" for number in range(NUM_ROWS)]
    chats = [
        {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "Paris!"}]}
        for text in questions
    ]
    write_rows(folder / "chat.jsonl", chats)
    turns = [f"\n\nHuman: {text}\n\nAssistant:" for text in questions]
    pairs = [{"chosen": f"{turn} Paris.", "rejected": f"{turn} I will not say."} for turn in turns]
    (folder / PAIRS).mkdir(parents=True)
    for split in ("train", "test"):
        write_rows(folder / PAIRS / f"{split}.jsonl", pairs)


def write_rows(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_the_loss_of_a_supervised_recipe_falls(curves: Any) -> None:
    losses = curves["chat_sl.train"]
    assert len(losses) == 4 and losses[-1] < losses[0] / 2


def test_the_loss_of_a_preference_recipe_falls_from_that_of_a_coin(curves: Any) -> None:
    losses = curves["preference.dpo.train"]
    assert losses[0] == pytest.approx(math.log(2), abs=1e-3)
    assert len(losses) == 4 and losses[-1] < losses[0] / 2
