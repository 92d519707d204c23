"""The seconds of a start, by numbers computed by hand, and the measured sample of Python's work."""

import ast
import sys

import pytest

from checks.speed.startup import IMPORTS, LAYER, SAMPLE, STEPS, WORD, measure_sample, startup_s


def test_a_start_imports_loads_each_layer_and_word_and_computes_a_few_steps() -> None:
    assert startup_s(0, 0, 0.0, 0.01) == pytest.approx(0.01 * IMPORTS)
    assert startup_s(24, 1000, 0.5, 0.01) == pytest.approx(
        0.01 * (IMPORTS + 24 * LAYER + 1000 * WORD) + 0.5 * STEPS
    )


def test_the_sample_takes_milliseconds_and_changes_no_module() -> None:
    before = dict(sys.modules), ast.parse
    assert 1e-4 < measure_sample() < 1
    assert (dict(sys.modules), ast.parse) == before
    assert set(SAMPLE) <= sys.stdlib_module_names
