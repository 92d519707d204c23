"""The metrics that vLLM's and TGI's dashboards read: exact after a known run of a real engine."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families
from werkzeug.test import TestResponse

from api import create_app
from inference.backend import Backend
from inference.events import Started
from inference.factory import open_backend, open_engine
from inference.metrics import Metrics
from inference.sampling import Sampling
from inference.types import GenerationRequest
from settings.groups import BackendSettings, EngineSettings, ModelSettings, ServerSettings
from tests.fakes.fake_backend import make_models

DEMO = Path(__file__).parent.parent.parent / "models" / "demo"
CONTEXT = 200
VLLM = {"model_name": "demo", "engine": "0"}
BODY = {"model": "demo", "prompt": "What is", "temperature": 0, "ignore_eos": True, "max_tokens": 5}


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture(scope="module")
def backend(metrics: Metrics) -> Iterator[Backend]:
    opened = open_engine(
        DEMO,
        ModelSettings(dtype="float32", device="cpu"),
        EngineSettings(
            context=CONTEXT,
            max_sequences=4,
            kv_memory_bytes=1 << 26,
            max_batch_tokens=64,
            max_queued_tokens=10_000,
        ),
    )
    backend = open_backend(opened, BackendSettings(), model_id="demo", metrics=metrics)
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def client(backend: Backend, metrics: Metrics) -> FlaskClient:
    return create_app(make_models(backend), ServerSettings(), metrics).test_client()


class Figures:
    """The values of /metrics as a Prometheus parser reads them, minus those of `before`."""

    def __init__(self, text: str, before: "Figures | None" = None) -> None:
        self.families = list(text_string_to_metric_families(text))
        self.before = before
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def vllm(self, name: str, **labels: str) -> float:
        return self.sample(f"vllm:{name}", VLLM | labels)

    def tgi(self, name: str, **labels: str) -> float:
        return self.sample(f"tgi_{name}", labels)

    def sample(self, name: str, labels: dict[str, str]) -> float:
        """The value, or its change: a series that did not exist before was 0."""
        key = name, frozenset(labels.items())
        return self.samples[key] - (self.before.samples.get(key, 0.0) if self.before else 0.0)


@pytest.fixture
def figures(client: FlaskClient) -> Callable[[], Figures]:
    """A call returns the change of all metrics since the test began."""
    before = Figures(client.get("/metrics").text)
    return lambda: Figures(client.get("/metrics").text, before)


Now = Callable[[], Figures]


def post(client: FlaskClient, path: str, body: dict[str, Any]) -> TestResponse:
    """The response, read to its end: a request is counted once its response is closed."""
    return client.post(path, json=body, buffered=True)


def test_vllms_figures_are_exact(client: FlaskClient, figures: Now) -> None:
    usage = post(client, "/v1/completions", BODY).json["usage"]
    usage_of_two = post(client, "/v1/completions", BODY | {"n": 2, "temperature": 1, "max_tokens": 7}).json[
        "usage"
    ]
    delta, prompt = figures(), usage["prompt_tokens"]
    assert (usage["completion_tokens"], usage_of_two["completion_tokens"]) == (5, 14)
    assert delta.vllm("prompt_tokens_total") == delta.vllm("prefix_cache_queries_total") == 3 * prompt
    assert delta.vllm("generation_tokens_total") == 19
    assert delta.vllm("request_success_total", finished_reason="length") == 3
    assert delta.vllm("request_success_total", finished_reason="stop") == 0
    assert delta.vllm("time_to_first_token_seconds_count") == 3
    for name in ("inter_token_latency_seconds", "time_per_output_token_seconds"):
        assert delta.vllm(f"{name}_count") == 16
    for name in ("queue_time", "inference_time", "prefill_time", "decode_time", "time_per_output_token"):
        assert delta.vllm(f"request_{name}_seconds_count") == 3
    assert delta.vllm("e2e_request_latency_seconds_count") == 3
    assert delta.vllm("request_prompt_tokens_sum") == 3 * prompt
    assert delta.vllm("request_generation_tokens_sum") == 19
    assert delta.vllm("request_generation_tokens_bucket", le="5.0") == 1
    assert delta.vllm("request_params_max_tokens_sum") == 5 + 7 + 7
    assert (delta.vllm("request_params_n_count"), delta.vllm("request_params_n_sum")) == (2, 3)
    assert delta.vllm("request_max_num_generation_tokens_sum") == 5 + 7
    assert delta.vllm("num_requests_running") == delta.vllm("num_requests_waiting") == 0
    assert delta.vllm("num_requests_waiting_by_reason", reason="capacity") == 0
    assert delta.vllm("kv_cache_usage_perc") == delta.vllm("gpu_cache_usage_perc") == 0
    assert delta.vllm("num_preemptions_total") == 0
    assert delta.vllm("spec_decode_num_drafts_total") == 0
    assert delta.vllm("spec_decode_num_draft_tokens_total") == 0
    assert delta.vllm("spec_decode_num_accepted_tokens_total") == 0


def test_the_steps_of_an_answer_count_its_whole_prompt_and_each_of_its_tokens(
    client: FlaskClient, figures: Now
) -> None:
    """Whatever the prefix cache supplies, and in however many chunks the rest is computed."""
    prompt = [9] * 150  # more than max_batch_tokens
    for _ in range(2):
        usage = post(client, "/v1/completions", BODY | {"prompt": prompt}).json["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (150, 5)
    delta = figures()
    assert delta.vllm("prefix_cache_hits_total") > 0
    assert delta.vllm("iteration_tokens_total_sum") == 2 * (150 + 5)
    assert delta.vllm("iteration_tokens_total_count") == 2 * 5
    assert delta.vllm("iteration_tokens_total_bucket", le="128.0") == 2 * 4


def test_prompt_tokens_are_reported_by_their_source(client: FlaskClient, figures: Now) -> None:
    for _ in range(2):
        post(client, "/v1/completions", BODY | {"prompt": [8] * 100})
    delta = figures()
    cached = delta.vllm("prompt_tokens_cached_total")
    assert 0 < cached < 100
    assert delta.vllm("prompt_tokens_by_source_total", source="local_cache_hit") == cached
    assert delta.vllm("prompt_tokens_by_source_total", source="local_compute") == 200 - cached
    assert delta.vllm("request_prefill_kv_computed_tokens_sum") == 200 - cached
    assert delta.vllm("gpu_prefix_cache_hits_total") == delta.vllm("prefix_cache_hits_total") == cached
    assert delta.vllm("gpu_prefix_cache_queries_total") == 200


def test_vllms_dashboard_finds_every_series_that_it_queries(client: FlaskClient, metrics: Metrics) -> None:
    """The names in grafana.json among vLLM's examples."""
    post(client, "/v1/completions", BODY)
    names = {
        name for name, labels in Figures(metrics.render().decode()).samples if set(VLLM.items()) <= labels
    }
    histograms = {
        *("e2e_request_latency_seconds", "time_per_output_token_seconds", "time_to_first_token_seconds"),
        *("inter_token_latency_seconds", "request_prompt_tokens", "request_generation_tokens"),
        *("request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds"),
        "request_max_num_generation_tokens",
    }
    queried = {f"{name}_{suffix}" for name in histograms for suffix in ("bucket", "sum", "count")}
    queried |= {"prompt_tokens_total", "generation_tokens_total", "request_success_total"}
    queried |= {"num_requests_running", "num_requests_waiting", "gpu_cache_usage_perc", "kv_cache_usage_perc"}
    assert {f"vllm:{name}" for name in queried} <= names


def test_the_kv_cache_is_described_in_vllms_labels(backend: Backend, metrics: Metrics) -> None:
    samples = Figures(metrics.render().decode()).samples
    (labels,) = (dict(labels) for name, labels in samples if name == "vllm:cache_config_info")
    assert samples["vllm:cache_config_info", frozenset(labels.items())] == 1
    num_tokens = samples["tgi_batch_max_total_tokens", frozenset()]
    assert int(labels["block_size"]) * int(labels["num_gpu_blocks"]) == num_tokens
    assert {
        "cache_dtype": "float32",
        "enable_prefix_caching": "True",
        "gpu_memory_utilization": "None",
        "kv_cache_size_tokens": str(int(num_tokens)),
        "model_name": "demo",
    }.items() <= labels.items()


def test_a_cached_prefix_is_a_hit(backend: Backend, client: FlaskClient, figures: Now) -> None:
    request = GenerationRequest([7] * 50, Sampling(greedy=True), max_tokens=1)
    events = [*backend.generate(request), *backend.generate(request)]
    cached = [event.cached_tokens for event in events if isinstance(event, Started)]
    assert cached[1] > 0 and figures().vllm("prefix_cache_hits_total") == sum(cached)


def test_tgis_figures_are_exact(client: FlaskClient, figures: Now) -> None:
    body = {"inputs": "What is", "parameters": {"max_new_tokens": 6, "decoder_input_details": True}}
    details = post(client, "/generate", body).json["details"]
    assert post(client, "/generate", {"inputs": ""}).status_code == 422
    assert post(client, "/v1/completions", BODY).status_code == 200
    assert post(client, "/v1/completions", BODY | {"temperature": -1}).status_code == 400
    post(client, "/tokenize", {"inputs": "What is"})
    client.get("/")
    delta, prompt = figures(), len(details["prefill"])
    assert delta.tgi("request_count_total") == 4
    assert delta.tgi("request_success_total") == 2
    assert delta.tgi("request_failure_total", err="validation") == 2
    for name in ("duration", "validation_duration", "queue_duration", "inference_duration"):
        assert delta.tgi(f"request_{name}_count") == 2
    assert delta.tgi("request_mean_time_per_token_duration_count") == 2
    assert delta.tgi("request_generated_tokens_sum") == details["generated_tokens"] + 5
    assert delta.tgi("request_input_length_sum") == 2 * prompt
    assert delta.tgi("request_max_new_tokens_sum") == 6 + 5
    assert delta.tgi("batch_inference_count_total", method="prefill") == 2
    assert delta.tgi("batch_next_size_count") == delta.tgi("batch_next_size_sum") == 2
    decoded = details["generated_tokens"] + 5 - 2
    assert delta.tgi("batch_inference_success_total", method="decode") == decoded
    assert delta.tgi("batch_inference_duration_count", method="decode") == decoded
    assert delta.tgi("batch_inference_failure_total", method="decode") == 0
    assert delta.tgi("batch_current_size") == delta.tgi("queue_size") == 0


def test_the_kv_capacity_is_reported(backend: Backend, metrics: Metrics) -> None:
    assert Figures(metrics.render().decode()).tgi("batch_max_total_tokens") >= CONTEXT


def test_tgis_counters_have_no_suffix(client: FlaskClient) -> None:
    post(client, "/generate", {"inputs": "What is", "parameters": {"max_new_tokens": 2}})
    kinds = dict(re.findall(r"# TYPE (tgi_\S+) (\w+)", client.get("/metrics").text))
    counters = {name for name, kind in kinds.items() if kind == "counter"}
    assert "tgi_request_count" in counters and not [name for name in counters if name.endswith("_total")]


def test_a_client_that_hangs_up_counts_as_abort_and_as_dropped(client: FlaskClient, figures: Now) -> None:
    body = BODY | {"stream": True, "max_tokens": 150}
    response = client.post("/v1/completions", json=body)
    next(response.response)
    response.close()
    delta = figures()
    assert delta.vllm("request_success_total", finished_reason="abort") == 1
    assert delta.vllm("e2e_request_latency_seconds_count") == 0
    assert delta.tgi("request_failure_total", err="dropped") == 1
    assert delta.tgi("request_count_total") == 1 and delta.tgi("request_success_total") == 0


def test_every_family_has_a_type(client: FlaskClient, figures: Now) -> None:
    post(client, "/v1/completions", BODY)
    kinds = {family.type for family in figures().families}
    assert kinds == {"counter", "gauge", "histogram"}


@pytest.mark.parametrize(
    ("dialect", "route", "counts"),
    (
        ("tgi", "/", True),
        ("ops", "/", False),
        ("shared", "/generate", True),
        ("shared", "/tokenize", False),
        ("openai", "/v1/chat/completions", True),
        ("openai", "/v1/embeddings", False),
        ("llama_stack", "/inference/batch chat completion", True),
        ("none", "none", False),
    ),
)
def test_only_generating_routes_count_as_requests(
    dialect: str, route: str, counts: bool, metrics: Metrics, figures: Now
) -> None:
    metrics.record_response(dialect, route, 200, 0.1)
    assert figures().tgi("request_count_total") == counts


@pytest.mark.parametrize(
    ("status", "error"),
    (
        (400, "validation"),
        (401, "validation"),
        (422, "validation"),
        (424, "generation"),
        (429, "overloaded"),
        (499, "dropped"),
        (500, "generation"),
        (503, "overloaded"),
    ),
)
def test_a_failure_is_reported_by_its_status(status: int, error: str, metrics: Metrics, figures: Now) -> None:
    metrics.record_response("tgi", "/", status, 0.1)
    assert figures().tgi("request_failure_total", err=error) == 1
