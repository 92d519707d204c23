"""The sections by name, in the order of a whole run, each with its budget in minutes."""

from collections.abc import Mapping
from typing import NamedTuple

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
    roofline,
    sampling,
    start,
    sync,
    tuning,
    versus_transformers,
    versus_vllm,
)


class Section(NamedTuple):
    """A section of the report, and its time.

    minutes  after them no further figure is measured; a section starts only if half of them are left
    """

    measure: MeasureSection
    minutes: float


SECTIONS: Mapping[str, Section] = {
    "start": Section(start.measure_section, 1.5),
    "roofline": Section(roofline.measure_section, 0.5),
    "overlap": Section(overlap.measure_section, 1.0),
    "profile": Section(profile.measure_section, 1.0),
    "prefill": Section(prefill.measure_section, 0.7),
    "rows256": Section(concurrent.measure_section, 0.8),
    "sampling": Section(sampling.measure_section, 0.6),
    "sync": Section(sync.measure_section, 0.3),
    "host": Section(host.measure_section, 0.6),
    "adapters": Section(adapters.measure_section, 1.2),
    "placement": Section(placement.measure_section, 1.0),
    "long": Section(long_context.measure_section, 1.0),
    "layers": Section(layers.measure_section, 1.5),
    "kernels": Section(kernels.measure_section, 4.0),
    "transformers": Section(versus_transformers.measure_section, 3.5),
    "vllm": Section(versus_vllm.measure_section, 4.0),
    "http": Section(http_server.measure_section, 2.0),
    "memory": Section(memory.measure_section, 3.0),
    "tuning": Section(tuning.measure_section, 1.5),
    "quantized": Section(quantized.measure_section, 2.0),
    "products": Section(products.measure_section, 0.6),
    "correct": Section(correct.measure_section, 4.0),
}
