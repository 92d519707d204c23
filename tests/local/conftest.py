"""A LocalBackend over an engine that says what the test tells it."""

from typing import Any

import pytest
import torch

from inference.local import BackendModel, LocalBackend
from inference.types import Constraint
from settings.groups import BackendSettings
from tests.local.fake_engine import FakeEngine, model_metrics
from tests.text.tokenizers_of_three_kinds import tokenizer

VOCAB = 400


class FakeMatcher:
    """Allows no token."""

    def copy(self) -> "FakeMatcher":
        return FakeMatcher()

    def token_bitmask(self) -> torch.Tensor:
        return torch.zeros((VOCAB + 31) // 32, dtype=torch.int32)


class FakeCompiler:
    """Records what it compiles.

    compiled  the constraints, each with the request field that errors name
    """

    def __init__(self) -> None:
        self.compiled: list[tuple[Constraint, str]] = []

    def is_quick(self, constraint: Constraint) -> bool:
        return True

    def compile(self, constraint: Constraint, field: str = "") -> FakeMatcher:
        self.compiled.append((constraint, field or constraint.field_name))
        return FakeMatcher()


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def compiler() -> FakeCompiler:
    return FakeCompiler()


@pytest.fixture
def words() -> Any:
    return tokenizer("byte-level")


@pytest.fixture
def backend(
    request: pytest.FixtureRequest, engine: FakeEngine, compiler: FakeCompiler, words: Any
) -> LocalBackend:
    """request.param: settings that are not at their defaults"""
    return LocalBackend(
        engine,  # type: ignore[arg-type]
        BackendModel(
            id="tiny",
            tokenizer=words,
            context=64,
            vocab=VOCAB,
            eos_token_ids=frozenset([words.eos_token_id]),
            details={"dtype": "float32", "device": "cpu"},
        ),
        BackendSettings(**getattr(request, "param", {})),
        metrics=model_metrics(),
        compiler=compiler,  # type: ignore[arg-type]
    )
