"""How long a server asks its clients to wait."""

import pytest
from requests import Response

from hub.download.http_range import MAX_WAIT_S, retry_after_s


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("3", 3), ("99999", MAX_WAIT_S), ("²", 0), ("-5", 0), ("soon", 0), ("", 0)],
)
def test_a_retry_after_that_is_no_number_of_seconds_counts_as_none(value: str, seconds: float) -> None:
    response = Response()
    response.headers["Retry-After"] = value
    assert retry_after_s(response) == seconds
