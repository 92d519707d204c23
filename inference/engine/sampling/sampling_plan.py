"""Decides once for an answer which parts of the sampler it needs, and groups the rows of a step by them.

Knows processors and warpers by their names and conditions; changes no logits.
"""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field

from inference.engine.sampling.processors import PROCESSORS, requested_processors
from inference.engine.sampling.warpers import requested_warpers
from inference.engine.sequence import LogitsProcessor, SamplingPlan, Sequence

# Native code and the Triton kernels apply these, in this order only.
KERNEL_WARPERS = ("temperature", "top_k", "top_p", "min_p")
KEEP_TOKENS = ((), ("temperature",))


def plan_sampling(sequence: Sequence) -> SamplingPlan:
    warpers = requested_warpers(sequence)
    has_kernel = warpers == tuple(name for name in KERNEL_WARPERS if name in warpers)
    return SamplingPlan(requested_processors(sequence, PROCESSORS), has_kernel, warpers in KEEP_TOKENS)


@dataclass(slots=True)
class SampledRows:
    """The rows of a step by what is done with them, each list ascending.

    greedy            rows whose token is the argmax
    kernel            sampled rows that native code and the Triton kernels can sample
    torch             other sampled rows
    processors        row → its logits processors, for rows that have some
    num_top_logprobs  row → number of top logprobs, for rows with logprobs
    processed         rows whose logprobs are those of the processed distribution
    """

    greedy: list[int] = field(default_factory=list)
    kernel: list[int] = field(default_factory=list)
    torch: list[int] = field(default_factory=list)
    processors: dict[int, tuple[LogitsProcessor, ...]] = field(default_factory=dict)
    num_top_logprobs: dict[int, int] = field(default_factory=dict)
    processed: set[int] = field(default_factory=set)


def group_rows(sequences: SequenceOf[Sequence]) -> SampledRows:
    rows = SampledRows()
    for row, sequence in enumerate(sequences):
        if sequence.sampling_plan is None:
            sequence.sampling_plan = plan_sampling(sequence)
        sampling_plan, request = sequence.sampling_plan, sequence.request
        if sampling_plan.processors:
            rows.processors[row] = sampling_plan.processors
        if request.logprobs is not None:
            rows.num_top_logprobs[row] = request.logprobs
            if request.processed_logprobs:
                rows.processed.add(row)
        if sequence.greedy:
            rows.greedy.append(row)
        elif sampling_plan.has_kernel and (sampling_plan.keeps_tokens or row not in rows.processed):
            rows.kernel.append(row)
        else:
            rows.torch.append(row)
    return rows
