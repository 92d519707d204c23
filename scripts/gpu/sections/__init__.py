"""The sections by name, in the order of a whole run."""

from collections.abc import Mapping
from typing import NamedTuple

from scripts.gpu.budgets import BUDGETS
from scripts.gpu.section import MeasureSection
from scripts.gpu.sections import (
    adapters,
    concurrent,
    correct,
    host,
    http_server,
    kernels,
    layers,
    long_context,
    memory,
    overlap,
    placement,
    prefill,
    products,
    profile,
    quantized,
    restart,
    roofline,
    sampling,
    start,
    sync,
    tuning,
    versus_transformers,
    versus_vllm,
)


class Section(NamedTuple):
    """A section of the report. minutes: its budget."""

    measure: MeasureSection
    minutes: float


MEASURES: Mapping[str, MeasureSection] = {
    "start": start.measure_section,
    "restart": restart.measure_section,
    "roofline": roofline.measure_section,
    "overlap": overlap.measure_section,
    "profile": profile.measure_section,
    "prefill": prefill.measure_section,
    "rows256": concurrent.measure_section,
    "sampling": sampling.measure_section,
    "sync": sync.measure_section,
    "host": host.measure_section,
    "adapters": adapters.measure_section,
    "placement": placement.measure_section,
    "long": long_context.measure_section,
    "layers": layers.measure_section,
    "kernels": kernels.measure_section,
    "transformers": versus_transformers.measure_section,
    "vllm": versus_vllm.measure_section,
    "http": http_server.measure_section,
    "memory": memory.measure_section,
    "tuning": tuning.measure_section,
    "quantized": quantized.measure_section,
    "products": products.measure_section,
    "correct": correct.measure_section,
}
SECTIONS: Mapping[str, Section] = {
    name: Section(MEASURES[name], minutes) for name, minutes in BUDGETS.items()
}
