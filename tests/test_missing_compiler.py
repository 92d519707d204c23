"""A test is skipped for want of a compiler only where there is none, and only if that is its error."""

from types import SimpleNamespace
from typing import Any

import pytest

from inference.native.build import NativeUnavailable
from tests import missing_compiler
from tests.missing_compiler import REASON, skip_if_it_is_the_cause


def outcome_of(error: BaseException) -> Any:
    report: Any = SimpleNamespace(outcome="failed", longrepr="", location=("test_a.py", 3, "test_a"))
    skip_if_it_is_the_cause(report, error)
    return report.outcome, report.longrepr


def raised_from(cause: Exception) -> Exception:
    error = ValueError("int4 has no kernels")
    error.__cause__ = cause
    return error


def test_a_test_that_needs_a_compiler_is_skipped_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_compiler, "has_compiler", lambda: False)
    skipped = "skipped", ("test_a.py", 3, REASON)
    assert outcome_of(NativeUnavailable("none")) == skipped
    assert outcome_of(raised_from(NativeUnavailable("none"))) == skipped
    assert outcome_of(raised_from(KeyError("a"))) == ("failed", "")


def test_with_a_compiler_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_compiler, "has_compiler", lambda: True)
    assert outcome_of(NativeUnavailable("none")) == ("failed", "")
