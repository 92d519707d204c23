"""Prompts as hashes that every process has alike, and the log of them."""

import subprocess
import sys
from pathlib import Path

from inference.prefix_blocks import block_hashes
from inference.prefix_log import FOLLOWED_S, MAX_PROMPTS, PrefixLog
from inference.types import GenerationRequest

TEXTS = ["a" * 300, "b" * 600, "c" * 300]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def hashes(text: str) -> tuple[int, ...]:
    return block_hashes(text.encode())


def followed() -> tuple[PrefixLog, Clock]:
    log, clock = PrefixLog(clock := Clock()), clock
    assert log.read(0) == (0, [])
    return log, clock


def test_a_hash_is_the_same_in_another_process() -> None:
    program = "from inference.prefix_blocks import block_hashes; print(block_hashes(b'a' * 600))"
    root = Path(__file__).parents[1]
    printed = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, check=True)
    assert printed.stdout.decode().strip() == str(hashes("a" * 600))


def test_a_reader_gets_what_is_new() -> None:
    log, _ = followed()
    for text in TEXTS[:2]:
        log.add(GenerationRequest(text))
    assert log.read(0) == (2, [hashes(TEXTS[0]), hashes(TEXTS[1])])
    assert log.read(2) == (2, [])
    log.add(GenerationRequest(TEXTS[2]))
    assert log.read(2) == (3, [hashes(TEXTS[2])])


def test_a_reader_of_a_former_process_gets_all() -> None:
    log, _ = followed()
    log.add(GenerationRequest(TEXTS[0]))
    assert log.read(99) == (1, [hashes(TEXTS[0])])


def test_no_prompt_is_kept_without_a_reader() -> None:
    log, clock = followed()
    clock.now += FOLLOWED_S + 1
    log.add(GenerationRequest(TEXTS[0]))
    assert log.read(0) == (0, [])


def test_old_prompts_are_forgotten_and_short_ones_are_not_noted() -> None:
    log, _ = followed()
    log.add(GenerationRequest("short"))
    for _ in range(MAX_PROMPTS + 5):
        log.add(GenerationRequest(TEXTS[0]))
    last, prompts = log.read(0)
    assert (last, len(prompts)) == (MAX_PROMPTS + 5, MAX_PROMPTS)
