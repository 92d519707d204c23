"""How much a fine-tuning job and the answers of its server slow each other.

    python -m scripts.tuning.slowdown --model models/demo --seconds 30 --rounds 3

Each round measures, in turn on one server: answers alone, a job alone, and both. Prints both speeds of each
round and the medians of the ratios. Takes three times the seconds a round. Other programs must be idle.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from statistics import median
from typing import Any, NamedTuple

from scripts.robustness.server import JSON_TYPE, Server, serving

JOBS = "/v1/fine_tuning/jobs"
NUM_TOKENS = 50
MAX_STEPS = 1_000_000  # the job is cancelled long before
NUM_ROWS, NUM_WORDS = 200, 60
WARM_UP_S = 10.0  # the first requests are slower
START_TIMEOUT_S = 120.0
BOUNDARY = "rows-of-the-job"


class Speeds(NamedTuple):
    """Generated tokens and training steps, each per second."""

    tokens: float
    steps: float


class Round(NamedTuple):
    serving: Speeds
    training: Speeds
    both: Speeds

    @property
    def serving_ratio(self) -> float:
        return self.both.tokens / self.serving.tokens

    @property
    def training_ratio(self) -> float:
        return self.both.steps / self.training.steps


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="models/demo")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        serving("--model", options.model, "--tuning-dir", folder) as server,
    ):
        measure(server, options.clients, WARM_UP_S)
        file_id = upload_rows(server)
        rounds = [run_round(server, file_id, options) for _ in range(options.rounds)]
    serving_ratio = median(each.serving_ratio for each in rounds)
    training_ratio = median(each.training_ratio for each in rounds)
    print(f"answers with a job: {serving_ratio:.2f} of their speed; a job with answers: {training_ratio:.2f}")
    return 0


def run_round(server: Server, file_id: str, options: argparse.Namespace) -> Round:
    serving_alone = measure(server, options.clients, options.seconds)
    job_id = start_job(server, file_id, options.model)
    try:
        training_alone = measure(server, 0, options.seconds)
        both = measure(server, options.clients, options.seconds)
    finally:
        server.post(f"{JOBS}/{job_id}/cancel", {})
    result = Round(serving_alone, training_alone, both)
    print(
        f"tokens/s {result.serving.tokens:.1f} alone, {result.both.tokens:.1f} with the job; "
        f"steps/s {result.training.steps:.2f} alone, {result.both.steps:.2f} with answers",
        flush=True,
    )
    return result


def measure(server: Server, num_clients: int, seconds: float) -> Speeds:
    """Both speeds while so many clients ask for answers, one after another each."""
    counts = [0] * num_clients
    steps_before, start = count_steps(server), time.monotonic()
    threads = [
        threading.Thread(target=keep_asking, args=(server, start + seconds, counts, number))
        for number in range(num_clients)
    ]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    elapsed_s, num_steps = time.monotonic() - start, count_steps(server) - steps_before
    num_tokens = sum(counts)
    for thread in threads:
        thread.join()
    return Speeds(num_tokens / elapsed_s, num_steps / elapsed_s)


def keep_asking(server: Server, end: float, counts: list[int], number: int) -> None:
    """Add the tokens of every complete answer to counts[number]."""
    connection = server.connect()
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": NUM_TOKENS, "ignore_eos": True})
    while time.monotonic() < end:
        connection.request("POST", "/v1/completions", body, JSON_TYPE)
        response = connection.getresponse()
        counts[number] += json.loads(response.read())["usage"]["completion_tokens"]


def count_steps(server: Server) -> float:
    """Training steps of all jobs so far."""
    return server.metric("hearth_tuning_steps_total")


def upload_rows(server: Server) -> str:
    """The id of a file of random words."""
    random_words = random.Random(0)
    words = ("one", "two", "three", "red", "green", "house", "river", "bird")
    texts = (" ".join(random_words.choices(words, k=NUM_WORDS)) for _ in range(NUM_ROWS))
    rows = "".join(json.dumps({"prompt": "Say words.", "completion": text}) + "\n" for text in texts)
    fields = {'name="purpose"': "fine-tune", 'name="file"; filename="rows.jsonl"': rows}
    form_fields = "".join(
        f"--{BOUNDARY}\r\nContent-Disposition: form-data; {name}\r\n\r\n{value}\r\n"
        for name, value in fields.items()
    )
    content_type = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    body = f"{form_fields}--{BOUNDARY}--\r\n".encode()
    return str(json.loads(server.request("POST", "/v1/files", body, **content_type).body)["id"])


def start_job(server: Server, file_id: str, model: str) -> str:
    """The id of a job that has taken its first steps."""
    hyperparameters = {"max_steps": MAX_STEPS, "batch_size": 4, "n_epochs": 50, "rehearsal": 0}
    body: dict[str, Any] = {"model": model, "training_file": file_id, "hyperparameters": hyperparameters}
    job_id, before = str(json.loads(server.post(JOBS, body).body)["id"]), count_steps(server)
    end = time.monotonic() + START_TIMEOUT_S
    while count_steps(server) < before + 3:
        if time.monotonic() > end:
            raise SystemExit(f"the job took no step in {START_TIMEOUT_S:.0f} s")
        time.sleep(0.2)
    return job_id


if __name__ == "__main__":
    sys.exit(main())
