"""Times training steps of our trainer, and of peft and transformers on the same shape: QLoRA and LoRA.

A step is forward, backward and the optimizer's, for one row of TOKENS tokens, with adapters on all linear
layers and layers that compute their activations again. The weights are random.
"""

import traceback
from collections.abc import Callable, Generator, Iterator
from functools import partial
from random import Random
from statistics import median

from inference.model.quantization.schemes import INT4, NONE
from scripts.bench.load import random_token_ids
from scripts.gpu.device import peak_memory, release_memory, reset_peak_memory, time_call
from scripts.gpu.figure import Figure, WrongResult
from scripts.gpu.section import SectionRun

TOKENS, SAMPLE_TOKENS = 2048, 64
WARM_UPS, STEPS = 3, 7
SCHEMES = {"QLoRA": INT4, "LoRA": NONE}  # of the frozen weights; the peer's are NF4

Step = Callable[[], object]  # one training step


def measure_section(run: SectionRun) -> Iterator[Figure]:
    """Raises WrongResult if the device computes other gradients than the CPU, or if our trainer failed."""
    from scripts.gpu import tuning_check, tuning_steps  # need packages that the machine may lack

    run.engines.free()
    wrong = yield from tuning_check.check_device(run.bench.device)
    ids = list(random_token_ids(Random(0), run.choose(TOKENS, SAMPLE_TOKENS) + 1, run.bench.vocab_size))
    for method, scheme in SCHEMES.items():
        own_s = yield from measure_steps(
            run, method, partial(tuning_steps.trainer_step, run.bench, scheme, ids)
        )
        peer_step = partial(tuning_steps.peft_step, run.bench, scheme != NONE, ids)
        peer_s = yield from measure_steps(run, f"{method}, peft", peer_step)
        if own_s and peer_s:
            yield Figure(f"{method}, ratio", peer_s / own_s, "×", "seconds of peft and transformers ÷ ours")
        wrong += [] if own_s else [method]
    if wrong:
        raise WrongResult(", ".join(wrong))


def measure_steps(
    run: SectionRun, name: str, make_step: Callable[[], Step]
) -> Generator[Figure, None, float]:
    """The seconds of a step; 0 if it failed, so that what follows is still measured."""
    device = run.bench.device
    try:
        step = make_step()
        release_memory(device)
        reset_peak_memory(device)
        for _ in range(run.choose(WARM_UPS, 1)):
            step()
        times = [time_call(step, device) for _ in range(run.choose(STEPS, 1))]
    except ImportError as error:
        yield Figure(name, "not measured", remark=str(error))
        return 0.0
    except Exception as error:
        traceback.print_exc()
        yield Figure(name, "failed", remark=f"{type(error).__name__}: {error}"[:200])
        error.__traceback__ = None  # its frames hold the model
        return 0.0
    allocated, reserved = peak_memory(device)
    del step
    release_memory(device)
    seconds, tokens = median(times), run.choose(TOKENS, SAMPLE_TOKENS)
    yield Figure(f"{name}, step", seconds * 1e3, "ms", f"{min(times) * 1e3:.1f} to {max(times) * 1e3:.1f}")
    yield Figure(f"{name}, rate", tokens / seconds, "tokens/s")
    yield Figure(f"{name}, peak VRAM", allocated / 1e9, "GB", f"reserved {reserved / 1e9:.2f} GB")
    return seconds
