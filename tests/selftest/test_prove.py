"""--selftest, from the settings to the exit code and what is printed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import launch
from ahead import looking_up
from inference.opening import Opened
from selftest import proof
from settings.fields import Settings
from tests.selftest.test_selftest import DEMO, Mixing, engine
from tests.test_wiring import settings


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "NEW", 8)


def proved(wishes: Settings, home: Path, *, as_json: bool) -> int:
    return launch.prove(wishes, looking_up(wishes, home), as_json=as_json)


def demo(**values: Any) -> Settings:
    return settings(MODEL_NAME=str(DEMO), DEVICE="cpu", CONTEXT=400, MAX_SEQUENCES=4, **values)


def test_a_model_that_answers_alike_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert proved(demo(), tmp_path, as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] and {"batched", "neighbours"} <= {item["name"] for item in told["findings"]}
    token, weights = told["memory"]["KV a token"], told["memory"]["RAM weights"]
    assert token["predicted"] == token["actual"] > 0 and weights["predicted"] == weights["actual"] > 0
    assert told["memory"]["RAM"]["actual"] > weights["actual"]


def test_one_that_does_not_is_not_and_the_first_token_that_differs_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = launch.loaded

    def mixed(*given: Any) -> Opened:
        opened = loaded(*given)
        assert opened is not None
        return replace(opened, engine=engine(Mixing(opened.fitted.runner, 5.0), opened.loaded.vocab))

    monkeypatch.setattr(launch, "loaded", mixed)
    assert proved(demo(), tmp_path, as_json=False) == 1
    lines = capsys.readouterr().out.splitlines()
    [batched] = [line for line in lines if line.startswith("batched ")]
    assert " NO " in batched and "prompt " in batched and ", token " in batched and " became " in batched
    assert any(proof.FAULT in line for line in lines)


def test_one_that_is_refused_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert proved(demo(NUM_SHARD=2), tmp_path, as_json=True) == 1
    told = json.loads(capsys.readouterr().out)
    assert not told["ok"] and "memory" not in told
