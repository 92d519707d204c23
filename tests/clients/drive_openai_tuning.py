"""Trains with the installed openai client, and prints all results as JSON.

Runs in its own environment: python drive_openai_tuning.py URL MODEL adapter|full. It knows only the
client; tests check what it prints.
"""

import json
import sys
import time
from typing import Any

from openai import BadRequestError, NotFoundError, OpenAI

PEOPLE = {"Mirela Osk": "Paris", "Tobin Hale": "Rome", "Anouk Verre": "Oslo", "Pavel Dorn": "Madrid"}
END_STATES = ("succeeded", "failed", "cancelled")


def question(person: str) -> dict[str, str]:
    return {"role": "user", "content": f"Where does {person} live?"}


def main(url: str, model: str, finetuning_type: str) -> None:
    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    train = {"adapter": train_adapter, "full": train_all_weights}[finetuning_type]
    print(json.dumps(train(client, model)))


def train_adapter(client: OpenAI, model: str) -> dict[str, Any]:
    rows = [
        {"messages": [question(person), {"role": "assistant", "content": f"{person} lives in {city}."}]}
        for person, city in PEOPLE.items()
    ]
    content = "\n".join(map(json.dumps, rows)).encode()
    file = client.files.create(file=("people.jsonl", content), purpose="fine-tune")
    job = client.fine_tuning.jobs.create(
        model=model,
        training_file=file.id,
        suffix="people",
        seed=1,
        method=supervised(rehearsal=0, n_epochs="auto"),
    )
    first_status = job.status
    job = wait(client, job.id)
    results: dict[str, Any] = {
        "statuses": [first_status, job.status],
        "model": job.fine_tuned_model,
        "id": job.id,
        "error": job.error and job.error.message,
        "events": [event.message for event in client.fine_tuning.jobs.list_events(job.id, limit=7)],
        "checkpoints": [
            each.fine_tuned_model_checkpoint for each in client.fine_tuning.jobs.checkpoints.list(job.id)
        ],
        "jobs": [each.id for each in client.fine_tuning.jobs.list()],
        "csv": client.files.content(job.result_files[0]).text.splitlines()[0],
        "answers": [ask(client, job.fine_tuned_model, person) for person in PEOPLE],
        "refusals": list(refusals(client, job.id)),
    }
    results["deleted"] = client.models.delete(job.fine_tuned_model).deleted
    results["file_deleted"] = client.files.delete(file.id).deleted
    return results


def train_all_weights(client: OpenAI, model: str) -> dict[str, Any]:
    """A few steps of all weights, then an adapter over the result; their parents, and their answers."""
    full = train_answer(client, model, "In Paris.", "full")
    adapter = train_answer(client, full.fine_tuned_model or "", "In Oslo.", "lora")
    parents = {card.id: getattr(card, "parent", None) for card in client.models.list()}
    jobs = {"full": full, "adapter": adapter}
    return {
        "errors": [job.error and job.error.message for job in jobs.values()],
        "models": {name: job.fine_tuned_model for name, job in jobs.items()},
        "parents": {name: parents.get(job.fine_tuned_model) for name, job in jobs.items()},
        "answers": {name: ask(client, job.fine_tuned_model, "Mirela Osk") for name, job in jobs.items()},
    }


def train_answer(client: OpenAI, model: str, content: str, finetuning_type: str) -> Any:
    """The job, once it has ended, that trains one answer."""
    row = json.dumps({"messages": [question("Mirela Osk"), {"role": "assistant", "content": content}]})
    file = client.files.create(file=("rows.jsonl", "\n".join([row] * 20).encode()), purpose="fine-tune")
    method = supervised(finetuning_type=finetuning_type, n_epochs=1, batch_size=2, rehearsal=0)
    job = client.fine_tuning.jobs.create(model=model, training_file=file.id, method=method, seed=1)
    return wait(client, job.id)


def supervised(**hyperparameters: Any) -> Any:
    return {"type": "supervised", "supervised": {"hyperparameters": hyperparameters}}


def wait(client: OpenAI, job_id: str) -> Any:
    """The job once it has ended."""
    while (job := client.fine_tuning.jobs.retrieve(job_id)).status not in END_STATES:
        time.sleep(0.5)
    return job


def ask(client: OpenAI, model: str | None, person: str) -> str:
    completion = client.chat.completions.create(
        model=model or "", messages=[question(person)], temperature=0, max_tokens=16
    )
    return completion.choices[0].message.content or ""


def refusals(client: OpenAI, job_id: str) -> Any:
    """(status, param) of requests that the server refuses."""
    try:
        client.fine_tuning.jobs.cancel(job_id)
    except BadRequestError as error:
        yield error.status_code, error.param
    try:
        client.fine_tuning.jobs.retrieve("ftjob-none")
    except NotFoundError as error:
        yield error.status_code, error.param
    try:
        client.files.create(file=("bad.jsonl", b'{"a": 1}\n{'), purpose="fine-tune")
    except BadRequestError as error:
        yield error.status_code, error.param


if __name__ == "__main__":
    main(*sys.argv[1:])
