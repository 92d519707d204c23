"""What is told is what is read."""

import re
from dataclasses import dataclass, field, fields

from inference.engine.stats import Stats
from inference.metrics import Metrics
from inference.metrics.hearth import STATE


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Engine:
    """An engine's state, as Stats has it."""

    running: int = 3
    waiting: int = 2
    waiting_tokens: int = 50
    steps: int = 9
    step_seconds: float = 1.5
    preemptions: int = 1
    errands: int = 0
    room: int = 2048
    held: int = 512
    reach: int = 1024
    prompt_tokens: int = 12
    cached_tokens: int = 8
    generated_tokens: int = 6
    drafted_tokens: int = 5
    accepted_tokens: int = 4
    shortages: int = 0
    ends: dict[str, int] = field(default_factory=lambda: {"stop": 2, "length": 1})


def read(metrics: Metrics) -> dict[str, float]:
    lines = metrics.render().decode().splitlines()
    return {name: float(value) for name, value in (x.rsplit(" ", 1) for x in lines if not x.startswith("#"))}


def test_an_answer_leaves_its_counts_and_times() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    (span,) = metrics.submitted()
    for seconds, told in (
        (1.0, lambda: span.started(0.5)),
        (0.0, span.token),
        (0.02, span.token),
        (0.04, span.token),
        (1.0, lambda: span.finished("stop")),
    ):
        clock.now += seconds
        told()
    told_of = read(metrics)
    assert told_of["hearth_queue_seconds_sum"] == 0.5
    assert told_of["hearth_time_to_first_token_seconds_sum"] == 1.0
    assert round(told_of["hearth_inter_token_seconds_sum"], 6) == 0.06
    assert told_of["hearth_inter_token_seconds_count"] == 2
    assert round(told_of["hearth_answer_seconds_sum"], 6) == 2.06


def test_requests_are_counted_by_dialect_route_and_status() -> None:
    metrics = Metrics()
    for status in (200, 200, 429):
        metrics.answered("openai", "/v1/completions", status)
    told_of = read(metrics)
    labels = 'dialect="openai",route="/v1/completions"'
    assert told_of[f'hearth_requests_total{{{labels},status="200"}}'] == 2
    assert told_of[f'hearth_requests_total{{{labels},status="429"}}'] == 1


def test_the_engine_is_asked_each_time() -> None:
    engine = Engine()
    metrics = Metrics()
    metrics.watch(lambda: engine, model="m", context=64)
    assert read(metrics)["hearth_running"] == 3
    engine.running, engine.preemptions = 7, 5
    told_of = read(metrics)
    assert told_of["hearth_running"] == 7
    assert told_of["hearth_preemptions_total"] == 5
    assert told_of["hearth_step_seconds_total"] == 1.5
    assert told_of["hearth_generated_tokens_total"] == 6
    assert told_of["hearth_drafted_tokens_total"] == 5
    assert told_of["hearth_accepted_tokens_total"] == 4
    assert told_of['hearth_answers_total{reason="length"}'] == 1


def test_every_attribute_that_is_read_is_one_of_the_engines() -> None:
    assert {attribute for attribute, _, _ in STATE} <= {one.name for one in fields(Stats)}


def test_the_memory_of_the_process_is_told() -> None:
    metrics = Metrics()
    metrics.watch(Engine, model="m", context=64)
    assert read(metrics)["hearth_resident_bytes"] > 1e6


def test_two_servers_in_a_process_do_not_share_counts() -> None:
    one, other = Metrics(), Metrics()
    one.submitted()[0].finished("stop")
    assert read(other)["hearth_answer_seconds_count"] == 0


def test_every_name_begins_with_its_familys() -> None:
    metrics = Metrics()
    assert all(name.startswith("hearth_") for name in read(metrics))
    metrics.watch(Engine, model="m", context=64)
    families = {re.match("hearth_|vllm:|tgi_", name)[0] for name in read(metrics)}
    assert families == {"hearth_", "vllm:", "tgi_"}


def test_every_label_is_there_before_anything_has_happened() -> None:
    metrics = Metrics()
    metrics.watch(Engine, model="m", context=64)
    told_of = read(metrics)
    assert told_of['vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"}'] == 0
    assert told_of['tgi_request_failure{err="dropped"}'] == 0
    assert told_of['tgi_batch_inference_count{method="decode"}'] == 0


def test_buckets_of_lengths_go_as_far_as_the_context() -> None:
    metrics = Metrics()
    metrics.watch(Engine, model="m", context=64)
    edges = re.findall(r'vllm:request_prompt_tokens_bucket{.*le="([^"]+)"', metrics.render().decode())
    assert edges == ["1.0", "2.0", "5.0", "10.0", "20.0", "50.0", "+Inf"]


def test_an_end_counts_once() -> None:
    metrics = Metrics()
    (span,) = metrics.submitted()
    for reason in ("stop", "cancelled", "stop"):
        span.finished(reason)
    assert read(metrics)["hearth_answer_seconds_count"] == 1


def test_memory_is_told_by_term_as_it_was_compared_last() -> None:
    metrics = Metrics()
    metrics.remembered("RAM", 100, 90)
    metrics.remembered("RAM", 110, 105)
    assert read(metrics)['hearth_memory_predicted_bytes{term="RAM"}'] == 110
    assert read(metrics)['hearth_memory_actual_bytes{term="RAM"}'] == 105
