"""--selftest, from the settings to the exit code and the output."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hub.resolve import resolve_in_background
from inference.factory import LoadedEngine
from selftest import run
from settings.schema import Settings
from startup import one_model
from tests.selftest.demo_engine import DEMO, Mixing, engine
from tests.settings.parsed_settings import parsed_settings


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "NUM_NEW_TOKENS", 8)


def run_selftest(settings: Settings, home: Path, *, as_json: bool) -> int:
    return one_model.run_selftest(settings, resolve_in_background(settings, home), as_json=as_json)


def demo(**values: Any) -> Settings:
    return parsed_settings(MODEL_NAME=str(DEMO), DEVICE="cpu", CONTEXT=400, MAX_SEQUENCES=4, **values)


def test_a_model_with_consistent_answers_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_selftest(demo(), tmp_path, as_json=True) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] and {"batched", "neighbours"} <= {item["name"] for item in report["findings"]}
    token, weights = report["memory"]["KV a token"], report["memory"]["RAM weights"]
    assert token["predicted"] == token["actual"] > 0 and weights["predicted"] == weights["actual"] > 0
    assert report["memory"]["RAM"]["actual"] > weights["actual"]


def test_a_model_with_inconsistent_answers_fails_and_the_first_differing_token_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = one_model.load_or_explain

    def mixed(*args: Any) -> LoadedEngine:
        opened = loaded(*args)
        assert opened is not None
        return replace(
            opened, engine=engine(Mixing(opened.selected_runner.runner, 5.0), opened.loaded_model.vocab)
        )

    monkeypatch.setattr(one_model, "load_or_explain", mixed)
    assert run_selftest(demo(), tmp_path, as_json=False) == 1
    lines = capsys.readouterr().out.splitlines()
    [batched] = [line for line in lines if line.startswith("batched ")]
    assert " NO " in batched and "prompt " in batched and ", token " in batched and " became " in batched
    assert any(run.FAULT_FIX in line for line in lines)


def test_a_refused_model_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_selftest(demo(NUM_SHARD=2), tmp_path, as_json=True) == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["ok"] and "memory" not in report
