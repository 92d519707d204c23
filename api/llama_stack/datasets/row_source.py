"""Where the rows of a dataset come from, as each generation names it.

The store keeps the source of a dataset with the schema that clients before 0.1.9 send along.
"""

from collections.abc import Mapping
from typing import Any

from inference.errors import BadRequest

PURPOSES = ("post-training/messages", "eval/question-answer", "eval/messages-answer")
DEFAULT_PURPOSE = PURPOSES[0]  # of clients that have no purposes
SCHEMA = "dataset_schema"
# The command line of the clients sends data:None for files whose type Python does not know, such as .jsonl.
UNKNOWN_TYPE, JSONL_TYPE = "data:None;", "data:application/jsonl;"


def uri_source(uri: str, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The source of rows at a URI.

    schema: the columns and their types, which are shown again and have no other effect.
    """
    if uri.startswith(UNKNOWN_TYPE):
        uri = JSONL_TYPE + uri.removeprefix(UNKNOWN_TYPE)
    return {"type": "uri", "uri": uri} | ({SCHEMA: dict(schema)} if schema else {})


def check_purpose(purpose: str) -> None:
    """Raises BadRequest."""
    if purpose not in PURPOSES:
        raise BadRequest("purpose", f"must be one of {', '.join(PURPOSES)}", purpose)
