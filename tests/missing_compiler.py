"""Without a C compiler, as on most machines with Windows, tests that need the native library are skipped."""

from functools import cache

import pytest

from inference.native.build import NativeUnavailable, compiler_of

REASON = "needs a C compiler"


@cache
def has_compiler() -> bool:
    try:
        compiler_of()
    except NativeUnavailable:
        return False
    return True


def skip_if_it_is_the_cause(report: pytest.TestReport, error: BaseException | None) -> None:
    """Make the report of a test that has failed one of a skipped test."""
    if not has_compiler() and comes_from_it(error):
        path, line, _ = report.location
        report.outcome, report.longrepr = "skipped", (path, line or 0, REASON)


def comes_from_it(error: BaseException | None) -> bool:
    if error is None or isinstance(error, NativeUnavailable):
        return error is not None
    return comes_from_it(error.__cause__ or error.__context__)
