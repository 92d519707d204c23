"""What vLLM's metrics of answers show: the histograms with their buckets, and the counters of prompts.

Names and buckets: vLLM, vllm/v1/metrics/loggers.py.
"""

from collections.abc import Callable
from operator import attrgetter

from inference.metrics.request_stats import CONTEXT_BUCKETS, AnswerStats, Buckets, CounterSpec, HistogramSpec

FIRST_TOKEN_S: Buckets = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0),
    *(40.0, 80.0, 160.0, 640.0, 2560.0),
)
INTER_TOKEN_S: Buckets = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0),
    *(40.0, 80.0),
)
REQUEST_S: Buckets = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0),
    *(960.0, 1920.0, 7680.0),
)
CHOICE_COUNTS: Buckets = (1, 2, 5, 10, 20)
STEP_TOKENS: Buckets = tuple(1 << power for power in (0, *range(3, 15)))


def first_step_to_last_token_s(answer_stats: AnswerStats) -> float:
    return answer_stats.prefill_s + answer_stats.decode_s


def num_computed_tokens(answer_stats: AnswerStats) -> int:
    """Prompt tokens that the prefix cache did not have."""
    return max(0, answer_stats.request.prompt_tokens - answer_stats.num_cached_tokens)


def mean_inter_token_s(answer_stats: AnswerStats) -> float:
    return answer_stats.decode_s / (answer_stats.num_tokens - 1) if answer_stats.num_tokens > 1 else 0.0


ANSWER_HISTOGRAMS = (
    HistogramSpec(
        "e2e_request_latency_seconds", "Seconds from submission to the end", REQUEST_S, attrgetter("total_s")
    ),
    HistogramSpec(
        "request_queue_time_seconds",
        "Seconds from submission to the first step",
        REQUEST_S,
        attrgetter("queue_time_s"),
    ),
    HistogramSpec(
        "request_prefill_time_seconds",
        "Seconds from first step to first token",
        REQUEST_S,
        attrgetter("prefill_s"),
    ),
    HistogramSpec(
        "request_decode_time_seconds", "Seconds from first token to last", REQUEST_S, attrgetter("decode_s")
    ),
    HistogramSpec(
        "request_inference_time_seconds",
        "Seconds from first step to last token",
        REQUEST_S,
        first_step_to_last_token_s,
    ),
    HistogramSpec(
        "request_time_per_output_token_seconds",
        "Mean seconds between two tokens of an answer",
        INTER_TOKEN_S,
        mean_inter_token_s,
    ),
    HistogramSpec(
        "request_prompt_tokens", "Prompt tokens", CONTEXT_BUCKETS, attrgetter("request.prompt_tokens")
    ),
    HistogramSpec(
        "request_prefill_kv_computed_tokens",
        "Prompt tokens that were computed: without those from the prefix cache",
        CONTEXT_BUCKETS,
        num_computed_tokens,
    ),
    HistogramSpec("request_generation_tokens", "Generated tokens", CONTEXT_BUCKETS, attrgetter("num_tokens")),
    HistogramSpec(
        "request_params_max_tokens",
        "Most tokens that an answer may have",
        CONTEXT_BUCKETS,
        attrgetter("request.max_tokens"),
    ),
)
REQUEST_HISTOGRAMS = (
    HistogramSpec(
        "request_params_n", "Answers per request", CHOICE_COUNTS, attrgetter("request.num_answers")
    ),
    HistogramSpec(
        "request_max_num_generation_tokens",
        "Tokens of the longest answer to a request",
        CONTEXT_BUCKETS,
        attrgetter("request.longest_output"),
    ),
)

# Counted when an answer starts, with the whole prompt.
PROMPT_COUNTERS = (
    CounterSpec(
        "prompt_tokens", "Prompt tokens of answers that have started", attrgetter("request.prompt_tokens")
    ),
    CounterSpec(
        "prompt_tokens_cached", "Prompt tokens from the prefix cache", attrgetter("num_cached_tokens")
    ),
    CounterSpec(
        "prefix_cache_queries",
        "Prompt tokens looked up in the prefix cache",
        attrgetter("request.prompt_tokens"),
    ),
    CounterSpec("prefix_cache_hits", "Prompt tokens from the prefix cache", attrgetter("num_cached_tokens")),
    CounterSpec(
        "gpu_prefix_cache_queries", "Older name of prefix_cache_queries", attrgetter("request.prompt_tokens")
    ),
    CounterSpec("gpu_prefix_cache_hits", "Older name of prefix_cache_hits", attrgetter("num_cached_tokens")),
)
# The label `source` of prompt_tokens_by_source, and the tokens of an answer's prompt that have it.
PROMPT_SOURCES: dict[str, Callable[[AnswerStats], int]] = {
    "local_compute": num_computed_tokens,
    "local_cache_hit": attrgetter("num_cached_tokens"),
}
