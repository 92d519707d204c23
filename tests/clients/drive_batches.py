"""Runs a batch with the installed openai client, and prints what it reads.

Runs in its own environment: python drive_batches.py URL MODEL. It knows only the client; tests check what it
prints.
"""

import io
import json
import sys
import time
from typing import Any

from openai import ConflictError, OpenAI

ENDPOINT = "/v1/chat/completions"
QUESTION = {"role": "user", "content": "What is the capital of France?"}


def main(url: str, model: str) -> None:
    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    good = {"model": model, "messages": [QUESTION], "temperature": 0}
    completed = run(client, good, {"model": model, "messages": []})
    failed = run(client, good, good | {"stream": True})
    assert completed.output_file_id and completed.error_file_id and failed.errors
    print(
        json.dumps(
            {
                "statuses": [completed.status, failed.status],
                "counts": completed.request_counts and completed.request_counts.to_dict(),
                "texts": [
                    line["response"]["body"]["choices"][0]["message"]["content"]
                    for line in read(client, completed.output_file_id)
                ],
                "failed": [
                    [line["custom_id"], line["response"]["status_code"]]
                    for line in read(client, completed.error_file_id)
                ],
                "errors": [[error.line, error.code] for error in failed.errors.data or []],
                "is_listed": [batch.id for batch in client.batches.list(limit=2)][:2]
                == [failed.id, completed.id],
                "refuses_cancel": refuses_cancel(client, completed.id),
            }
        )
    )


def run(client: OpenAI, *bodies: dict[str, Any]) -> Any:
    lines = [
        {"custom_id": str(number), "method": "POST", "url": ENDPOINT, "body": body}
        for number, body in enumerate(bodies)
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    file = client.files.create(file=("requests.jsonl", io.BytesIO(content)), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h")
    while batch.status in ("validating", "in_progress", "finalizing"):
        time.sleep(0.05)
        batch = client.batches.retrieve(batch.id)
    return batch


def read(client: OpenAI, file_id: str) -> list[Any]:
    return [json.loads(line) for line in client.files.content(file_id).text.splitlines()]


def refuses_cancel(client: OpenAI, batch_id: str) -> bool:
    try:
        client.batches.cancel(batch_id)
    except ConflictError:
        return True
    return False


if __name__ == "__main__":
    main(*sys.argv[1:])
