"""Names are matched as peft's regular expressions match them, and in bounded time."""

import re
import time
from random import Random

import pytest

from inference.lora.config import matching_key
from inference.lora.name_pattern import (
    MAX_PARSED,
    MAX_PATTERNS,
    MAX_REPEATING,
    check_count,
    check_pattern,
    matches,
)

NAMES = (
    "model.layers.0.self_attn.q_proj",
    "model.layers.10.mlp.up_proj",
    "q_proj",
    "lm_head",
    "a.b.a.b",
)
PATTERNS = (
    "q_proj",
    "proj",
    "layers.0.self_attn.q_proj",
    r"layers\.0\.self_attn\.q_proj",
    r"layers\.\d+\.mlp\.\w+",
    "layers.1.*",
    ".*attn.*",
    "^model.layers.10.mlp.up_proj",
    "^q_proj$",
    "^layers.0.self_attn.q_proj",
    "l._head",
    "a.b",
    "b.a.b$",
    "(no)",
    "x*",
    "",
)


@pytest.mark.parametrize("pattern", [pattern for pattern in PATTERNS if "(" not in pattern])
def test_a_pattern_matches_what_pefts_does(pattern: str) -> None:
    check_pattern(pattern)
    for name in NAMES:
        assert matches(pattern, name) == bool(re.match(rf"(.*\.)?({pattern})$", name)), name


def test_random_patterns_match_what_pefts_do() -> None:
    random = Random(0)
    for _ in range(2000):
        name = "".join(random.choices("ab.", k=random.randrange(1, 9)))
        pattern = "".join(random.choices(("a", "b", ".", r"\.", "a*", "b+", ".?"), k=random.randrange(1, 6)))
        assert matches(pattern, name) == bool(re.match(rf"(.*\.)?({pattern})$", name)), (pattern, name)


@pytest.mark.parametrize(
    "patterns",
    [
        [f"layers.{number:05}.q_proj" for number in range(MAX_PATTERNS)],
        [rf"layers\.{number:05}\.q_proj" for number in range(MAX_PARSED)],
        [".*" * MAX_REPEATING + "x"],
    ],
    ids=["names", "escapes", "repeats"],
)
def test_as_many_patterns_as_are_allowed_are_matched_in_a_moment(patterns: list[str]) -> None:
    check_count(patterns)
    module, limit_s = "model.layers.99999.self_attn.q_proj", 0.05
    matching_key(dict.fromkeys(patterns, 4), module)  # parses them
    began = time.thread_time()
    assert matching_key(dict.fromkeys(patterns, 4), module) == ""
    assert time.thread_time() - began < limit_s
