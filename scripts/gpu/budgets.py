"""The sections in the order of a whole run, each with its budget. Imports no library."""

from collections.abc import Mapping

# Minutes after which no further figure is measured. A section starts only if half of them are left. The first
# section that needs an engine builds it, in up to 35 seconds of its budget.
BUDGETS: Mapping[str, float] = {
    "start": 1.5,
    "restart": 1.5,
    "roofline": 1.0,
    "overlap": 1.0,
    "profile": 1.0,
    "prefill": 0.7,
    "rows256": 0.8,
    "sampling": 0.6,
    "sync": 0.3,
    "host": 0.6,
    "adapters": 1.2,
    "placement": 1.0,
    "long": 1.5,
    "layers": 1.5,
    "kernels": 4.0,
    "transformers": 3.5,
    "vllm": 4.0,
    "http": 2.0,
    "memory": 3.0,
    "tuning": 1.5,
    "quantized": 2.0,
    "products": 0.6,
    "correct": 4.0,
}
