"""What messages show of the server."""

import pytest

from inference.errors import without_folders


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the folder /srv/models/llama", "the folder llama"),
        ("need /srv/a/config.json, and /srv/b/x.gguf: copy them", "need config.json, and x.gguf: copy them"),
        ("meta-llama/Llama-3 of https://host/a/b", "meta-llama/Llama-3 of https://host/a/b"),
        ("POST /models", "POST /models"),
        ("3 of 4 files", "3 of 4 files"),
    ],
)
def test_messages_name_files_without_their_folders(text: str, expected: str) -> None:
    assert without_folders(text) == expected
