"""Values recorded in Metrics are those that /metrics reports."""

import re
from dataclasses import dataclass, field, fields, replace

from inference.engine_stats import CacheConfig, Stats, StepStats
from inference.metrics import Metrics
from inference.metrics.hearth import ENGINE_METRICS

CACHE = CacheConfig(
    page_size=16, num_pages=128, dtype="float32", prefix_caching=True, gpu_memory_fraction=None
)


class ManualClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeStats:
    """An engine's state, with the fields of Stats."""

    running: int = 3
    waiting: int = 2
    running_adapters: tuple[str, ...] = ()
    waiting_adapters: tuple[str, ...] = ()
    waiting_tokens: int = 50
    steps: int = 9
    step_seconds: float = 1.5
    preemptions: int = 1
    background_tasks: int = 0
    kv_capacity: int = 2048
    kv_used: int = 512
    kv_reserved: int = 1024
    prompt_tokens: int = 12
    cached_tokens: int = 8
    generated_tokens: int = 6
    drafts: int = 2
    drafted_tokens: int = 5
    accepted_tokens: int = 4
    oom_steps: int = 0
    finished_by_reason: dict[str, int] = field(default_factory=lambda: {"stop": 2, "length": 1})


def read(metrics: Metrics) -> dict[str, float]:
    lines = metrics.render().decode().splitlines()
    return {name: float(value) for name, value in (x.rsplit(" ", 1) for x in lines if not x.startswith("#"))}


def test_an_answer_leaves_its_counts_and_times() -> None:
    clock = ManualClock()
    metrics = Metrics(clock)
    (span,) = metrics.observe_engine(FakeStats, model="m", context=64, cache_config=CACHE).start_answers()
    for seconds, event in (
        (1.0, lambda: span.record_start(0.5)),
        (0.0, span.record_token),
        (0.02, span.record_token),
        (0.04, span.record_token),
        (1.0, lambda: span.record_finish("stop")),
    ):
        clock.now += seconds
        event()
    values = read(metrics)
    assert values["hearth_queue_seconds_sum"] == 0.5
    assert values["hearth_time_to_first_token_seconds_sum"] == 1.0
    assert round(values["hearth_inter_token_seconds_sum"], 6) == 0.06
    assert values["hearth_inter_token_seconds_count"] == 2
    assert round(values["hearth_answer_seconds_sum"], 6) == 2.06


def test_requests_are_counted_by_dialect_route_and_status() -> None:
    metrics = Metrics()
    for status in (200, 200, 429):
        metrics.record_response("openai", "/v1/completions", status, 0.1)
    values = read(metrics)
    labels = 'dialect="openai",route="/v1/completions"'
    assert values[f'hearth_requests_total{{{labels},status="200"}}'] == 2
    assert values[f'hearth_requests_total{{{labels},status="429"}}'] == 1


def test_refusals_are_timed() -> None:
    metrics = Metrics()
    for status, seconds in ((200, 5.0), (429, 0.002), (429, 0.02)):
        metrics.record_response("openai", "/v1/completions", status, seconds)
    values = read(metrics)
    assert values['hearth_refusal_seconds_bucket{le="0.005"}'] == 1
    assert values["hearth_refusal_seconds_count"] == 2


def test_the_engine_is_read_at_every_scrape() -> None:
    engine = FakeStats()
    metrics = Metrics()
    metrics.observe_engine(lambda: engine, model="m", context=64, cache_config=CACHE)
    assert read(metrics)["hearth_running"] == 3
    engine.running, engine.preemptions = 7, 5
    values = read(metrics)
    assert values["hearth_running"] == 7
    assert values["hearth_preemptions_total"] == 5
    assert values["hearth_step_seconds_total"] == 1.5
    assert values["hearth_generated_tokens_total"] == 6
    assert values["hearth_drafted_tokens_total"] == 5
    assert values["hearth_accepted_tokens_total"] == 4
    assert values['hearth_answers_total{reason="length"}'] == 1
    assert values[f"vllm:spec_decode_num_drafts_total{labelled('m')}"] == 2
    waiting = values['vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"}']
    assert waiting == values[f"vllm:num_requests_waiting{labelled('m')}"] == 2


def test_a_step_that_finishes_no_tokens_is_no_iteration() -> None:
    metrics = Metrics()
    model = metrics.observe_engine(FakeStats, model="m", context=64, cache_config=CACHE)
    for num_processed_tokens in (0, 50, 1):
        model.record_step(StepStats(32, num_processed_tokens, 1, True, 0.1, failed=False))
    values = read(metrics)
    assert values[f"vllm:iteration_tokens_total_sum{labelled('m')}"] == 51
    assert values[f"vllm:iteration_tokens_total_count{labelled('m')}"] == 2
    assert values['tgi_batch_inference_count{method="prefill"}'] == 3


def test_each_models_kv_cache_has_a_line_of_its_own() -> None:
    metrics = Metrics()
    on_gpu = replace(CACHE, dtype="float16", prefix_caching=False, gpu_memory_fraction=0.9)
    for model, cache_config in (("small", CACHE), ("large", on_gpu)):
        metrics.observe_engine(FakeStats, model=model, context=64, cache_config=cache_config)
    lines = [name for name in read(metrics) if name.startswith("vllm:cache_config_info")]
    assert lines == [
        'vllm:cache_config_info{block_size="16",cache_dtype="float32",enable_prefix_caching="True",engine="0",'
        'gpu_memory_utilization="None",kv_cache_size_tokens="2048",model_name="small",num_gpu_blocks="128"}',
        'vllm:cache_config_info{block_size="16",cache_dtype="float16",enable_prefix_caching="False",engine="0",'
        'gpu_memory_utilization="0.9",kv_cache_size_tokens="2048",model_name="large",num_gpu_blocks="128"}',
    ]


def test_every_attribute_that_is_read_exists_in_stats() -> None:
    assert {attribute for attribute, _, _ in ENGINE_METRICS} <= {one.name for one in fields(Stats)}


def test_the_memory_of_the_process_is_reported() -> None:
    metrics = Metrics()
    metrics.observe_engine(FakeStats, model="m", context=64, cache_config=CACHE)
    assert read(metrics)["hearth_resident_bytes"] > 1e6


def test_two_servers_in_a_process_do_not_share_counts() -> None:
    first, second = Metrics(), Metrics()
    first_model = first.observe_engine(FakeStats, model="m", context=64, cache_config=CACHE)
    first_model.start_answers()[0].record_finish("stop")
    assert read(second)["hearth_answer_seconds_count"] == 0


def test_every_name_has_its_familys_prefix() -> None:
    metrics = Metrics()
    assert all(name.startswith("hearth_") for name in read(metrics))
    metrics.observe_engine(FakeStats, model="m", context=64, cache_config=CACHE)
    families = {re.match("hearth_|vllm:|tgi_", name)[0] for name in read(metrics)}
    assert families == {"hearth_", "vllm:", "tgi_"}


def test_every_label_exists_before_anything_has_happened() -> None:
    metrics = Metrics()
    metrics.observe_engine(FakeStats, model="m", context=64, cache_config=CACHE)
    values = read(metrics)
    assert values['vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"}'] == 0
    assert values['tgi_request_failure{err="dropped"}'] == 0
    assert values['tgi_batch_inference_count{method="decode"}'] == 0


def test_length_buckets_end_at_the_context() -> None:
    metrics = Metrics()
    metrics.observe_engine(FakeStats, model="m", context=64, cache_config=CACHE)
    edges = re.findall(r'vllm:request_prompt_tokens_bucket{.*le="([^"]+)"', metrics.render().decode())
    assert edges == ["1.0", "2.0", "5.0", "10.0", "20.0", "50.0", "+Inf"]


def test_an_answer_finishes_once() -> None:
    metrics = Metrics()
    (span,) = metrics.observe_engine(FakeStats, model="m", context=64, cache_config=CACHE).start_answers()
    for reason in ("stop", "cancelled", "stop"):
        span.record_finish(reason)
    assert read(metrics)["hearth_answer_seconds_count"] == 1


def test_memory_is_reported_by_term_as_last_compared() -> None:
    metrics = Metrics()
    metrics.record_memory("RAM", 100, 90)
    metrics.record_memory("RAM", 110, 105)
    assert read(metrics)['hearth_memory_predicted_bytes{term="RAM"}'] == 110
    assert read(metrics)['hearth_memory_actual_bytes{term="RAM"}'] == 105


def labelled(model: str) -> str:
    return f'{{engine="0",model_name="{model}"}}'


def test_a_second_model_adds_series_to_vllms_metrics_and_registers_nothing_twice() -> None:
    clock = ManualClock()
    metrics = Metrics(clock)
    small = metrics.observe_engine(FakeStats, model="small", context=64, cache_config=CACHE)
    families = set(re.findall(r"# TYPE (\S+)", metrics.render().decode()))
    large = metrics.observe_engine(
        lambda: FakeStats(running=5, waiting=0), model="large", context=4096, cache_config=CACHE
    )
    for model, prompt_tokens in ((small, 3), (large, 100)):
        (span,) = model.start_answers(prompt_tokens)
        span.record_start(0.5)
        for _ in range(prompt_tokens):
            clock.now += 0.02
            span.record_token()
        span.record_finish("stop")
        model.record_step(StepStats(7, prompt_tokens, 1, True, 0.1, failed=False))
    assert families == set(re.findall(r"# TYPE (\S+)", metrics.render().decode()))
    values = read(metrics)
    for name, prompt_tokens, running in (("small", 3, 3), ("large", 100, 5)):
        labels = labelled(name)
        assert values[f"vllm:prompt_tokens_total{labels}"] == prompt_tokens
        assert values[f"vllm:generation_tokens_total{labels}"] == prompt_tokens
        assert values[f"vllm:num_requests_running{labels}"] == running
        assert values[f"vllm:iteration_tokens_total_sum{labels}"] == prompt_tokens
        assert values[f"vllm:inter_token_latency_seconds_count{labels}"] == prompt_tokens - 1
        assert values[f"vllm:e2e_request_latency_seconds_count{labels}"] == 1


def test_metrics_without_a_model_label_count_all_models() -> None:
    clock = ManualClock()
    metrics = Metrics(clock)
    for name, context in (("small", 64), ("large", 4096)):
        model = metrics.observe_engine(FakeStats, model=name, context=context, cache_config=CACHE)
        (span,) = model.start_answers(10)
        for _ in range(4):
            clock.now += 0.02
            span.record_token()
        span.record_finish("stop")
        model.record_step(StepStats(10, 10, 1, True, 0.1, failed=False))
    values = read(metrics)
    assert (values["hearth_running"], values["hearth_steps_total"]) == (6, 18)
    assert values['hearth_answers_total{reason="stop"}'] == 4
    assert values["hearth_inter_token_seconds_count"] == 6
    assert values['hearth_inter_token_seconds_bucket{le="0.025"}'] == 6
    assert values["hearth_answer_seconds_count"] == 2
    assert (values["tgi_queue_size"], values["tgi_batch_max_total_tokens"]) == (4, 4096)
    assert values["tgi_request_generated_tokens_sum"] == 8
    assert values['tgi_batch_inference_count{method="prefill"}'] == 2
    assert values['tgi_request_input_length_bucket{le="64.0"}'] == 2


def test_the_adapters_of_answers_are_named_as_in_vllm() -> None:
    metrics = Metrics()
    stats = FakeStats(running_adapters=("cook", "poet"), waiting_adapters=("poet",))
    metrics.observe_engine(lambda: stats, model="m", context=64, cache_config=CACHE, max_loras=8)
    labels = 'max_lora="8",running_lora_adapters="cook,poet",waiting_lora_adapters="poet"'
    assert read(metrics)[f"vllm:lora_requests_info{{{labels}}}"] > 1.7e9
