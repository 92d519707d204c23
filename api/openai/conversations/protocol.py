"""The JSON of /v1/conversations."""

from typing import Any, Literal

from msgspec import Struct

from api.openai.protocol.errors import ErrorResponse
from api.openai.responses.protocol import InputItem
from api.openai.stored import PAGE_PARAMETERS
from api.openapi.operation import Operation


class CreateConversation(Struct):
    """A conversation to create.

    items     up to 20 first items of the conversation
    metadata  up to 16 pairs of text
    """

    items: list[InputItem] | None = None
    metadata: dict[str, Any] | None = None


class UpdateConversation(Struct):
    """A conversation's new metadata.

    metadata  replaces the conversation's
    """

    metadata: dict[str, Any] | None = None


class CreateItems(Struct):
    """Items of a conversation.

    items  up to 20 items to add to the end of the conversation
    """

    items: list[InputItem]


class ConversationObject(Struct):
    id: str
    created_at: int
    metadata: dict[str, str]
    object: Literal["conversation"] = "conversation"


def _operation(summary: str, body: Any = None, response: Any = dict[str, Any], **fields: Any) -> Operation:
    return Operation(summary, body=body, response=response, error=ErrorResponse, **fields)


CREATE = _operation("Create a conversation", CreateConversation, ConversationObject)
GET = _operation("Show a conversation", response=ConversationObject)
UPDATE = _operation("Replace the metadata of a conversation", UpdateConversation, ConversationObject)
DELETE = _operation("Delete a conversation and its items")
ADD_ITEMS = _operation("Add items to a conversation", CreateItems)
LIST_ITEMS = _operation("List the items of a conversation", query=PAGE_PARAMETERS)
GET_ITEM = _operation("Show an item of a conversation")
DELETE_ITEM = _operation("Delete an item of a conversation", response=ConversationObject)
