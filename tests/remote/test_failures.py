"""Messages of servers of models, as clients read them."""

import time

import pytest

from inference.remote.failures import MAX_MESSAGE_CHARS, MAX_READ_CHARS, clean, from_status


def test_addresses_keys_and_control_characters_are_removed() -> None:
    assert clean("see\nhttp://10.0.0.1/x with sk-secret-key, Bearer abc") == "see … with …, …"


@pytest.mark.parametrize(
    "body", [b"x" * 10**6, b"x:/" * 10**5, b"sk-" * 10**5, b'{"error": "' + b"y" * 10**6 + b'"}']
)
def test_a_long_page_of_an_error_takes_no_time(body: bytes) -> None:
    started = time.process_time()
    message = from_status("m", 500, {}, body).error.message
    assert time.process_time() - started < 2.0, "quadratic in the body's length, this took half a minute"
    assert len(message) < MAX_MESSAGE_CHARS + 100


def test_a_key_at_the_end_of_what_is_read_is_not_shown() -> None:
    message = clean(" ".join(["http://a"] * MAX_READ_CHARS) + " sk-secret-key")
    assert "sk-" not in message
