"""Stores chats and responses with the installed llama-stack-client, and prints what it reads back.

Runs in its own environment: python drive_stored_llama_stack.py URL MODEL. It knows only the client; tests
check what it prints.
"""

import json
import sys
from typing import Any

from llama_stack_client import LlamaStackClient


def main(url: str, model: str) -> None:
    client = LlamaStackClient(base_url=url, max_retries=0)
    print(json.dumps({"chats": use_chats(client, model), "responses": use_responses(client, model)}))


def use_chats(client: LlamaStackClient, model: str) -> dict[str, Any]:
    message: Any = {"role": "user", "content": "What is the capital of France?"}
    chat = client.chat.completions.create(
        model=model, messages=[message], temperature=0, extra_body={"store": True}
    )
    newest = client.chat.completions.list(limit=1).data[0]
    response = client.chat.completions.retrieve(chat.id)
    return {
        "is_newest": newest.id == chat.id,
        "messages": [newest.input_messages[0].content, response.input_messages[0].content],
        "text": response.choices[0].message.content,
    }


def use_responses(client: LlamaStackClient, model: str) -> dict[str, Any]:
    first = client.responses.create(model=model, input="What is the capital of France?", temperature=0)
    client.responses.create(model=model, input="Thanks", previous_response_id=first.id)
    items = client.responses.input_items.list(first.id)
    older = client.responses.list(limit=2).data[1]
    return {
        "is_listed": older.id == first.id,
        "inputs": [older.input[0].content[0].text, items.data[0].content[0].text],
        "text": client.responses.retrieve(first.id).output[0].content[0].text,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
