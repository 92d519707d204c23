"""What this processor does in a second: times layers of a model's shape and formats, with random weights.

Each timed call is short and repeated, because other programs delay some of the calls.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from checks.speed.estimate import PROMPT_TOKENS, Rates
from checks.speed.shape import layers_bytes, reduce_shape
from inference.model.quantization.schemes import matrix_bytes
from inference.native.sample_model import PAGE, DecoderShape, SampleModel

DECODED_AFTER = 256  # tokens of context of the decoded token
CALL_BYTES = 1 << 24  # of weights that a timed call reads
HEAD_BYTES = 1 << 25  # of the output layer that is timed
CACHES, MIN_LAYER_BYTES, MAX_LAYER_BYTES = 4, 1 << 27, 3 << 27  # sizes of the last cache to read; limits
MIN_TURNS, QUARTILE = 3, 0.25  # of the timed calls; which of their times count
BANDWIDTH_SPEEDUP = 1  # of a team that reads memory: one thread may read almost as fast
DELAYED = 1.25  # a call is delayed from so many times its CPU seconds
DECODE_S, PROMPT_S = 0.1, 0.1  # seconds of timed calls
FEW_TOKENS, CALL_S = 64, 0.05  # of a prompt's first call; seconds that a later one takes at most
FEW_NUMBERS, CALLS = 16, 2000
CACHE_SIZES = Path("/sys/devices/system/cpu/cpu0/cache")


class CallTimer:
    """Times calls of a team of threads.

    wall_s, cpu_s: seconds of all calls by the clock, and CPU seconds of a thread in them
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.wall_s = self.cpu_s = 0.0

    @property
    def other_load(self) -> float:
        """The share of the time in which other programs had the cores of the team."""
        return max(0.0, 1 - self.cpu_s / self.wall_s)

    def seconds_of(self, call: Callable[[], object], speedup: int) -> float:
        """Seconds of a call; what its CPU seconds allow if other programs delayed it.

        speedup: how many times as fast as one thread the team is known to be. The threads hardly use the
        processor while they wait for one that has no core.
        """
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        call()
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        self.wall_s, self.cpu_s = self.wall_s + wall_s, self.cpu_s + cpu_s / self.threads
        return cpu_s / speedup if wall_s > DELAYED * cpu_s / speedup else wall_s

    def typical_times(self, calls: Sequence[Callable[[], object]], min_s: float, speedup: int) -> list[float]:
        """The lower quartile of each call's seconds; they take turns for min_s, after a warm-up."""
        for call in calls:
            call()
        turns: list[list[float]] = []
        began_s = time.perf_counter()
        while len(turns) < MIN_TURNS or time.perf_counter() - began_s < min_s:
            turns.append([self.seconds_of(call, speedup) for call in calls])
        return [sorted(times)[int(QUARTILE * (len(times) - 1))] for times in zip(*turns, strict=True)]


@torch.inference_mode()
def measure_cpu(shape: DecoderShape, max_batch_tokens: int, threads: int) -> Rates:
    """The rates of a model of this shape. Takes about half a second. Raises NativeUnavailable.

    max_batch_tokens: tokens of a prompt's step
    """
    sampled = reduce_shape(shape, sample_bytes(), HEAD_BYTES)
    sample, timer = SampleModel(sampled, PROMPT_TOKENS + PAGE, threads), CallTimer(threads)
    layer_bytes, head_bytes = measure_decode(sample, timer)
    products = measure_prompt(sample, timer, min(max_batch_tokens, PROMPT_TOKENS))
    return Rates(layer_bytes, head_bytes, products, measure_call(), timer.other_load)


def sample_bytes() -> int:
    """Bytes of layers to time: more than the processor's caches hold, as a real model has."""
    sizes = [int(path.read_text("utf-8").rstrip("K\n")) << 10 for path in CACHE_SIZES.glob("index*/size")]
    return min(MAX_LAYER_BYTES, max(MIN_LAYER_BYTES, CACHES * max(sizes, default=0)))


def measure_decode(sample: SampleModel, timer: CallTimer) -> tuple[float, float]:
    """Bytes per second that one row reads: of the layers, and of the output layer."""
    shape = sample.shape
    every = range(len(shape.layers))
    all_bytes = layers_bytes(shape, every)
    count = max(1, min(len(every), round(CALL_BYTES * len(every) / all_bytes)))
    groups = [every[first : first + count] for first in every[::count]]
    calls = [sample.layers_step(1, DECODED_AFTER, group) for group in groups]
    head = sample.layers_step(1, DECODED_AFTER, range(0), shape.vocab)
    *layers_s, head_s = timer.typical_times([*calls, head], DECODE_S, BANDWIDTH_SPEEDUP)
    return all_bytes / sum(layers_s), matrix_bytes(shape.head, shape.vocab, shape.hidden) / head_s


def measure_prompt(sample: SampleModel, timer: CallTimer, max_tokens: int) -> float:
    """Multiply-adds per second of a prompt's step of max_tokens, or of fewer where they take too long."""
    num_layers = len(sample.shape.layers)
    layers = [range(number, number + 1) for number in dict.fromkeys((num_layers // 4, num_layers * 3 // 4))]
    few = min(FEW_TOKENS, max_tokens)
    few_s, *_ = timer.typical_times([sample.layers_step(few, 0, layers[0])], 0.0, timer.threads)
    num_tokens = min(max_tokens, max(few, int(few * CALL_S / few_s) // few * few))
    num_computed = (PROMPT_TOKENS - num_tokens) // 2  # the middle of the prompt
    calls = [sample.layers_step(num_tokens, num_computed, each) for each in layers]
    seconds = timer.typical_times(calls, PROMPT_S, timer.threads)
    return num_tokens * len(layers) * sample.shape.layer_values / sum(seconds)


def measure_call() -> float:
    """Seconds of a torch operation on a few numbers."""
    numbers = torch.zeros(FEW_NUMBERS)

    def call_often() -> None:
        for _ in range(CALLS):
            numbers.add_(1)

    seconds, *_ = CallTimer(1).typical_times([call_often], 0.0, 1)
    return seconds / CALLS
