"""The reasons for which a server refuses requests for a while, and the requests that bring each about."""

import json
import math
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from scripts.loopback import HOST
from scripts.robustness.model_swaps import MODEL, save_adapter
from scripts.robustness.ordinary import MESSAGES
from scripts.robustness.server import Server, serving
from scripts.robustness.work_clock import Work

NUM_ROWS = 4
PROMPT_TOKENS = 300
COMPLETE, JOBS = "/v1/completions", "/v1/fine_tuning/jobs"
LARGE_BYTES, NUM_LARGE = 30 << 20, 16  # together they are more than the server holds
UPLOAD_BYTES_PER_S = 2e6, 6e6
BOUNDARY = "example"
UPLOAD = "\r\n".join(
    (
        f"--{BOUNDARY}",
        'Content-Disposition: form-data; name="purpose"',
        "",
        "fine-tune",
        f"--{BOUNDARY}",
        'Content-Disposition: form-data; name="file"; filename="examples.jsonl"',
        "",
        '{"prompt": "The capital of France is", "completion": " Paris."}',
        f"--{BOUNDARY}--",
        "",
    )
).encode()
GRAMMAR_PROPERTIES = 300
Options = Mapping[str, Any]


class Post(NamedTuple):
    """bytes_per_s: the rate at which the body is sent"""

    path: str
    body: bytes
    bytes_per_s: float = math.inf


MakePost = Callable[[Server, random.Random], Post]


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason to refuse.

    open        starts a server that refuses soon, and ends it
    num_clients of the load; make_load makes each of their requests
    probes      by dialect: the request of the client that is refused
    pause_s     between two requests of a client of the load
    min_seconds that a row takes, whatever --seconds is
    is_shared   the load waits for the same: where it is accepted, a probe would be, too
    work        what a refused request waits for, at the speed of the machine; None: it waits for no answers
    """

    open: Callable[[], AbstractContextManager[Server]]
    num_clients: int
    make_load: MakePost
    probes: Mapping[str, MakePost]
    pause_s: float = 0.02
    min_seconds: float = 0.0
    is_shared: bool = True
    work: Work | None = Server.cpu_s


def post(path: str, **fields: object) -> Post:
    return Post(path, json.dumps(fields).encode())


def always(path: str, **fields: object) -> MakePost:
    return lambda server, draws: post(path, **fields)


def many_answers(shortest: int, longest: int) -> MakePost:
    """Many at a time: a step takes longer."""
    return lambda server, draws: post(
        COMPLETE,
        prompt="Once upon a time",
        n=16,
        max_tokens=draws.randint(shortest, longest),
        ignore_eos=True,
    )


def several_prompts(server: Server, draws: random.Random) -> Post:
    """More prompts than there are rows: a request ends with its last one."""
    prompts = ["Once upon a time"] * draws.randint(2, 5)
    return post(COMPLETE, prompt=prompts, max_tokens=draws.randint(100, 300), ignore_eos=True)


def long_prompt(server: Server, draws: random.Random) -> Post:
    """All are as long, so that none gets the place that another waits for."""
    ids = [draws.randint(300, 900) for _ in range(PROMPT_TOKENS)]
    return post(COMPLETE, prompt=ids, max_tokens=draws.randint(800, 1600), ignore_eos=True)


def large_body(server: Server, draws: random.Random) -> Post:
    """Read, then refused as too long."""
    return post(COMPLETE, prompt="a" * (8 << 20), max_tokens=1)


def slow_upload(server: Server, draws: random.Random) -> Post:
    body = post(COMPLETE, prompt="a" * LARGE_BYTES, max_tokens=1).body
    return Post(COMPLETE, body, draws.uniform(*UPLOAD_BYTES_PER_S))


def new_grammar(server: Server, draws: random.Random) -> Post:
    """A schema that the server has not seen, and that takes a while to compile."""
    text = {"type": "string", "pattern": "[a-z]{1,40}"}
    inner = {"type": "object", "properties": dict.fromkeys("abc", text)}
    names = [str(draws.randrange(1 << 40)) for _ in range(GRAMMAR_PROPERTIES)]
    schema = {"type": "object", "properties": dict.fromkeys(names, inner)}
    response_format = {"type": "json_schema", "json_schema": {"name": "new", "schema": schema}}
    return post("/v1/chat/completions", messages=MESSAGES, max_tokens=1, response_format=response_format)


def answer_of(model: str, shortest: int, longest: int) -> MakePost:
    return lambda server, draws: post(
        COMPLETE,
        model=model,
        prompt="Once upon a time",
        max_tokens=draws.randint(shortest, longest),
        ignore_eos=True,
    )


@contextmanager
def serving_adapters() -> Iterator[Server]:
    """Two adapters, of which one is in memory."""
    with tempfile.TemporaryDirectory() as folder:
        for seed, name in enumerate("ab"):
            save_adapter(Path(folder) / name, seed)
        adapters = ",".join(f"{name}={folder}/{name}" for name in "ab")
        with serving(f"--lora-adapters={adapters}", "--max-loras=1") as server:
            yield server


@contextmanager
def serving_tuning() -> Iterator[Server]:
    """A server with a file of one example."""
    with tempfile.TemporaryDirectory() as folder, serving(f"--tuning-dir={folder}") as server:
        server.request(
            "POST", "/v1/files", UPLOAD, **{"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        )
        yield server


def dry_run(server: Server, draws: random.Random) -> Post:
    file_id = json.loads(server.request("GET", "/v1/files").body)["data"][0]["id"]
    return post(JOBS, model=MODEL, training_file=file_id, dry_run=True)


def entry(name: str, **options: object) -> Options:
    return {"base_model": MODEL, "display_name": name, **options}


@contextmanager
def serving_two_models() -> Iterator[Server]:
    """Two models, of which one is in memory. No request waits for a load."""
    flags = (
        f"--models={json.dumps([entry('a'), entry('b')])}",
        "--max-loaded-models=1",
        "--load-wait-seconds=0",
        "--model-swap-seconds=2",
    )
    with serving(*flags) as server:
        yield server


@contextmanager
def serving_other_server() -> Iterator[Server]:
    """A model on another server, for NUM_ROWS answers at a time."""
    with serving() as other:
        model = entry("a", inference_server=f"vllm:{HOST}:{other.port}", max_concurrent=NUM_ROWS)
        with serving(f"--models={json.dumps([model])}") as server:
            yield server


PROBE = always(COMPLETE, prompt="Hi", max_tokens=1)
FEW_REQUESTS = partial(serving, f"--max-concurrent-requests={NUM_ROWS}")

REASONS: Mapping[str, Reason] = {
    "requests at the same time": Reason(
        FEW_REQUESTS,
        NUM_ROWS + 2,
        many_answers(200, 1000),
        {
            "OpenAI": PROBE,
            "Llama Stack": always(
                "/inference/chat_completion", messages=MESSAGES, sampling_params={"max_tokens": 1}
            ),
            "TGI": always("/generate", inputs="Hi", parameters={"max_new_tokens": 1}),
            "Neodim": always("/generate", prompt="Hi", generated_tokens_count=1, max_total_tokens=20),
        },
    ),
    "answers of a minute": Reason(
        FEW_REQUESTS, NUM_ROWS, many_answers(1500, 2000), {"OpenAI": PROBE}, min_seconds=120.0
    ),
    "several prompts": Reason(
        partial(serving, f"--max-concurrent-requests={NUM_ROWS}", "--max-sequences=6"),
        NUM_ROWS + 2,
        several_prompts,
        {"OpenAI": PROBE},
    ),
    "prompts that wait": Reason(
        partial(serving, "--max-sequences=1", "--max-queued-tokens=3000"),
        16,
        long_prompt,
        {"OpenAI": always(COMPLETE, prompt=[300] * PROMPT_TOKENS, max_tokens=1)},
    ),
    "large bodies": Reason(serving, NUM_LARGE, slow_upload, {"OpenAI": large_body}, work=None),
    "grammars": Reason(serving, 200, new_grammar, {"OpenAI": new_grammar}, work=None),
    "adapters": Reason(
        serving_adapters,
        1,
        answer_of("a", 200, 800),
        {"OpenAI": answer_of("b", 1, 1)},
        pause_s=0.5,
        is_shared=False,
    ),
    "dry runs": Reason(
        serving_tuning, 3, dry_run, {"OpenAI": dry_run}, pause_s=0.5, min_seconds=90.0, work=None
    ),
    "models on demand": Reason(
        serving_two_models,
        1,
        answer_of("a", 200, 1000),
        {"OpenAI": answer_of("b", 1, 1)},
        pause_s=0.5,
        min_seconds=90.0,
        is_shared=False,
        work=None,
    ),
    "other servers": Reason(
        serving_other_server,
        NUM_ROWS + 2,
        answer_of("a", 500, 1500),
        {"OpenAI": answer_of("a", 1, 1)},
        work=lambda server: server.metric("hearth_upstream_tokens_total"),
    ),
}
