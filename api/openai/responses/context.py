"""Puts the items of earlier turns before the input of a request, and replaces references by their items.

A request names earlier turns by previous_response_id or conversation, and single items by item_reference.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from msgspec import structs

from api.body import json_body
from api.body.json_body import to_struct
from api.openai.errors import InvalidParameter
from api.openai.responses.connection import current_exchange
from api.openai.responses.input_items import to_chat_messages
from api.openai.responses.protocol import InputItem, ResponsesRequest
from api.openai.responses.stored_items import to_stored_items
from api.openai.stored import clients_errors, run_query
from api.store.context import context_of_conversation, context_of_response, find_items
from api.store.tables import StoredItem
from inference.errors import NotFound, short

REFERENCE = "item_reference"
CONTEXT_FIELDS = ("previous_response_id", "conversation")


class UnknownPreviousResponse(NotFound):
    code: ClassVar[str] = "previous_response_not_found"  # OpenAI's


@dataclass(frozen=True, slots=True)
class ResponseContext:
    """A request with its whole input.

    body              the request; its input begins with the items of earlier turns
    earlier_items     the items of earlier turns
    new_items         JSON of the items that the request adds to them
    conversation_id   id of the conversation that the response continues
    conversation_end  number of the conversation's last item before this response
    """

    body: ResponsesRequest
    earlier_items: list[StoredItem]
    new_items: list[dict[str, Any]]
    conversation_id: str | None = None
    conversation_end: int = 0

    def all_items(self) -> list[StoredItem]:
        """The items of earlier turns and of the request."""
        return [*self.earlier_items, *self.stored_new_items()]

    def stored_new_items(self) -> list[StoredItem]:
        """The items of the request; those without ids get some."""
        return to_stored_items(self.new_items, (item.id for item in self.earlier_items))


def resolve_context(body: ResponsesRequest) -> ResponseContext:
    """`body` is the current request. Raises InvalidParameter, InvalidBody, and NotFound for an unknown id."""
    if body.previous_response_id is not None and body.conversation is not None:
        raise InvalidParameter(
            "previous_response_id and conversation cannot both be set: a conversation has all earlier items",
            "conversation",
        )
    sent_items = _sent_items(json_body.read())
    new_items = resolve_references(sent_items, "input")
    earlier_items: list[StoredItem] = []
    conversation_id, end = body.conversation_id, 0
    if body.previous_response_id is not None:
        earlier_items = _items_up_to(body.previous_response_id)
    elif conversation_id is not None:
        earlier_items, end = run_query(context_of_conversation, conversation_id)
    if earlier_items or new_items is not sent_items:
        body = structs.replace(body, input=_to_input_items(new_items))
    if earlier_items:
        to_chat_messages(body)  # errors name the items by their place in the request
        values = [json.loads(item.value) for item in earlier_items]
        _check_call_ids(values, new_items)
        body = structs.replace(body, input=_to_input_items([*values, *new_items]))
    return ResponseContext(body, earlier_items, new_items, conversation_id, end)


def _items_up_to(id: str) -> list[StoredItem]:
    """All items up to the end of a response. Raises UnknownPreviousResponse, InvalidParameter."""
    try:
        with clients_errors():
            items = current_exchange().take_last_response(id)
        return list(items) or run_query(context_of_response, id)
    except NotFound as error:
        raise UnknownPreviousResponse(error.message) from None


def _check_call_ids(earlier_items: list[dict[str, Any]], new_items: list[dict[str, Any]]) -> None:
    """Raises InvalidParameter for the output of a call that is not among the items, in OpenAI's words."""
    calls = {item.get("call_id") for item in (*earlier_items, *new_items) if not _is_output(item)}
    for item in filter(_is_output, new_items):
        if item.get("call_id") not in calls:
            rule = f"No tool call found for function call output with call_id {short(item.get('call_id'))}."
            raise InvalidParameter(rule, "input")


def _is_output(item: Mapping[str, Any]) -> bool:
    return str(item.get("type")).endswith("_output")


def resolve_references(items: list[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """The items with stored ones in place of references; the same list if there are none. Raises NotFound."""
    ids = {i: item.get("id") for i, item in enumerate(items) if _is_reference(item)}
    if not ids:
        return items
    for i, id in ids.items():
        if not isinstance(id, str):
            raise InvalidParameter(f"{field}[{i}] is an item_reference and needs an id", f"{field}[{i}].id")
    values = run_query(find_items, [id for id in ids.values() if id])
    for i, id in ids.items():
        if id not in values:
            raise NotFound(f"{field}[{i}]: item with id {short(id)} not found.")
    return [json.loads(values[ids[i]]) if i in ids else item for i, item in enumerate(items)]  # type: ignore[index]


def _sent_items(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    sent_input = request.get("input") or []
    if isinstance(sent_input, str):
        return [{"type": "message", "role": "user", "content": sent_input}]
    return list(sent_input)


def _is_reference(item: Mapping[str, Any]) -> bool:
    """OpenAI's clients may leave out the type of a reference."""
    return item.get("type") == REFERENCE or (item.keys() <= {"id", "type"} and not item.get("type"))


def _to_input_items(items: Iterable[dict[str, Any]]) -> list[InputItem]:
    return to_struct(list(items), list[InputItem], strict=False)
