"""The summary of a compacted conversation, as clients pass it on in an item of the type compaction."""

import base64
import binascii

MARK = b"hearth summary: "  # tells it from what another server has made


def encode_summary(summary: str) -> str:
    """The item's encrypted_content, as OpenAI's API calls it. Here it is base64, and no secret."""
    return base64.b64encode(MARK + summary.encode(errors="replace")).decode()


def decode_summary(content: str) -> str | None:
    """The summary in an encrypted_content; None: this server did not make it."""
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):  # ValueError: characters beyond ASCII
        return None
    return data.removeprefix(MARK).decode(errors="replace") if data.startswith(MARK) else None
