"""Stores responses, conversations and chats with the installed openai client, and prints what it reads back.

Runs in its own environment: python drive_stored_openai.py URL MODEL. It knows only the client; tests check
what it prints.
"""

import json
import sys
import time
from typing import Any

from openai import NotFoundError, OpenAI


def main(url: str, model: str) -> None:
    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    probes = {
        "responses": use_responses,
        "background": use_background,
        "conversations": use_conversations,
        "chats": use_chats,
    }
    print(json.dumps({name: probe(client, model) for name, probe in probes.items()}))


def use_responses(client: OpenAI, model: str) -> dict[str, Any]:
    first = client.responses.create(model=model, input="What is the capital of France?", temperature=0)
    second = client.responses.create(model=model, input="Thanks", previous_response_id=first.id)
    items = list(client.responses.input_items.list(second.id, limit=1, order="asc"))
    response = client.responses.retrieve(first.id)
    client.responses.delete(first.id)
    return {
        "text": first.output_text,
        "is_same": response.output == first.output and response.usage == first.usage,
        "item_types": [type(item).__name__ for item in items],
        "roles": [item.role for item in items],  # type: ignore[union-attr]
        "is_deleted": is_missing(client, first.id),
    }


def is_missing(client: OpenAI, id: str) -> bool:
    try:
        client.responses.retrieve(id)
    except NotFoundError:
        return True
    return False


def use_background(client: OpenAI, model: str) -> dict[str, Any]:
    response = client.responses.create(
        model=model, input="What is the capital of France?", temperature=0, background=True
    )
    first_status = response.status
    while response.status in ("queued", "in_progress"):
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    long = client.responses.create(model=model, input="Go on", background=True, max_output_tokens=1000)
    client.responses.cancel(long.id)
    return {"statuses": [first_status, response.status], "text": response.output_text}


def use_conversations(client: OpenAI, model: str) -> dict[str, Any]:
    question = {"type": "message", "role": "user", "content": "What is the capital of France?"}
    conversation = client.conversations.create(items=[question], metadata={"a": "b"})  # type: ignore[list-item]
    client.responses.create(model=model, input="And of Spain?", conversation=conversation.id)
    items = list(client.conversations.items.list(conversation.id, limit=2, order="asc"))
    client.conversations.items.delete(items[0].id, conversation_id=conversation.id)  # type: ignore[arg-type]
    updated = client.conversations.update(conversation.id, metadata={"a": "c"})
    return {
        "roles": [item.role for item in items],  # type: ignore[union-attr]
        "metadata": [conversation.metadata, updated.metadata],
        "is_deleted": client.conversations.delete(conversation.id).deleted,
    }


def use_chats(client: OpenAI, model: str) -> dict[str, Any]:
    message: Any = {"role": "user", "content": "What is the capital of France?"}
    chat = client.chat.completions.create(
        model=model, messages=[message], store=True, metadata={"k": "v"}, temperature=0
    )
    listed = [each.id for each in client.chat.completions.list(metadata={"k": "v"}, limit=1)]
    messages = list(client.chat.completions.messages.list(chat.id))
    return {
        "is_listed": chat.id in listed,
        "text": client.chat.completions.retrieve(chat.id).choices[0].message.content,
        "messages": [each.content for each in messages],
        "metadata": client.chat.completions.update(chat.id, metadata={"k": "w"}).metadata,
        "is_deleted": client.chat.completions.delete(chat.id).deleted,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
