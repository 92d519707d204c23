"""The completions of a sampling client: the latest stay until they are acknowledged."""

import pytest

from api.tinker.sampling import completions
from api.tinker.sampling.completions import Completions


def test_a_client_that_acknowledges_nothing_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completions, "MAX_COMPLETIONS", 3)
    ends = Completions(["lost"])
    for number in range(4):
        ends.add(f"request-{number}", "finished")
    latest = ends.all()
    assert [each.request_id for each in latest] == ["request-1", "request-2", "request-3"]
    ends.acknowledge(latest[1].number)
    assert ends.all() == latest[2:]
