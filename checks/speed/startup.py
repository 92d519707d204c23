"""Seconds from the start of a server to its first token, where an earlier start has kept the packed weights.

Most of them are Python on one thread: imports, and work for each layer and each word of the vocabulary. They
are told in units of a sample, whose time is measured.
"""

import importlib.util
import time
from importlib.abc import InspectLoader

# Modules of Python's library that do nothing but define functions and classes.
SAMPLE = ("argparse", "ast", "configparser", "difflib", "inspect", "optparse", "tarfile", "textwrap")
TURNS = 5
# CPU seconds of the main and the loading thread ÷ those of the sample, measured with 0.5 B of 24 layers and
# 152,000 words with as many merges, and with models/demo.
IMPORTS, LAYER, WORD = 310.0, 1.5, 4.7e-4
STEPS = 4  # that read all weights: the check of their file, the proof of the runner, and the first token


def startup_s(num_layers: int, vocab: int, step_s: float, sample_s: float) -> float:
    """Seconds to the first token of a short prompt. step_s: seconds of a step that reads all weights."""
    return sample_s * (IMPORTS + LAYER * num_layers + WORD * vocab) + STEPS * step_s


def measure_sample() -> float:
    """CPU seconds that Python takes to execute the modules of SAMPLE again, under names of their own."""
    return min(execute_sample() for _ in range(TURNS))


def execute_sample() -> float:
    began_s = time.thread_time()
    for name in SAMPLE:
        spec = importlib.util.find_spec(name)
        if spec is not None and isinstance(spec.loader, InspectLoader):
            code = spec.loader.get_code(name)
            assert code is not None
            exec(code, {"__name__": name, "__file__": spec.origin})
    return time.thread_time() - began_s
