"""The input items of a request as they are stored and listed: each with an id, a type and content parts."""

import secrets
from collections.abc import Iterable, Mapping, Set
from typing import Any

from api.body.json_body import encode
from api.store.tables import StoredItem

ID_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
    "compaction": "cmp",
}
OTHER_PREFIX = "item"
MAX_ID_CHARS = 128  # a client's id that is longer is replaced


def to_stored_items(items: Iterable[Mapping[str, Any]], earlier_ids: Iterable[str] = ()) -> list[StoredItem]:
    """Items as clients send them.

    An item without an id gets a new one, and so does one whose id another item has: the pages of a list begin
    after an id.

    earlier_ids  of the items before them
    """
    used_ids = set(earlier_ids)
    stored_items: list[StoredItem] = []
    for item in items:
        stored_items.append(_to_stored_item(item, used_ids))
        used_ids.add(stored_items[-1].id)
    return stored_items


def stored_output(items: Iterable[Mapping[str, Any]]) -> list[StoredItem]:
    """Items of a response's output."""
    return [StoredItem(item["id"], encode(item).decode()) for item in items]


def _to_stored_item(item: Mapping[str, Any], used_ids: Set[str]) -> StoredItem:
    kind = item.get("type") or "message"
    id = item.get("id")
    if not isinstance(id, str) or not 0 < len(id) <= MAX_ID_CHARS or id in used_ids:
        id = f"{ID_PREFIXES.get(kind, OTHER_PREFIX)}_{secrets.token_hex(16)}"
    value = {**item, "id": id, "type": kind}
    if kind == "message":
        value["content"] = _content_parts(item)
    if kind in ID_PREFIXES:
        value["status"] = item.get("status") or "completed"
    return StoredItem(id, encode(value).decode())


def _content_parts(item: Mapping[str, Any]) -> Any:
    """The content of a message as a list of parts."""
    content = item.get("content") or ""
    if not isinstance(content, str):
        return content
    if item.get("role") == "assistant":
        return [{"type": "output_text", "text": content, "annotations": []}]
    return [{"type": "input_text", "text": content}]
