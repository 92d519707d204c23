"""A fake device that computes nothing until the host waits for a sample, then all before it, in order.

What the host gets before that are placeholders. A host that reads one, or that changes something which the
device has yet to read, gets wrong tokens.
"""

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from inference.engine import sequence as engine_sequence
from inference.engine.sampling.sampler import PendingSample, SampledToken, Sampler
from inference.model.batch import Batch
from tests.engine.conftest import VOCAB
from tests.walks.paged_echo_runner import PagedEchoRunner

MAX_ROWS = 10_000  # of one step


@dataclass
class AsyncDevice:
    """The work that is still to be done, and the results of the work that is done.

    Result i of work n has the placeholder -1 - i - n * MAX_ROWS. The result of work that failed is its error.

    events  what the host did: "launch", "sample" or "wait", and the number of the step
    """

    work: list[Callable[[], Sequence[Any]]] = field(default_factory=list)
    results: list[Sequence[Any] | Exception] = field(default_factory=list)
    events: list[tuple[str, int]] = field(default_factory=list)
    num_launched: int = 0
    num_sampled: int = 0

    def enqueue(self, work: Callable[[], Sequence[Any]], num_results: int) -> list[int]:
        """The placeholders of the results."""
        self.work.append(work)
        return [-1 - i - (len(self.work) - 1) * MAX_ROWS for i in range(num_results)]

    def result(self, placeholder: int) -> Any:
        number, index = divmod(-1 - placeholder, MAX_ROWS)
        results = self.results[number]
        if isinstance(results, Exception):
            raise results
        return results[index]

    def run_until(self, number: int) -> Sequence[Any]:
        """Do all work up to this one, and return its results."""
        while len(self.results) <= number:
            try:
                self.results.append(self.work[len(self.results)]())
            except Exception as error:
                self.results.append(error)
        results = self.results[number]
        if isinstance(results, Exception):
            raise results
        return results


class AsyncEchoRunner:
    """A PagedEchoRunner on an AsyncDevice. `on_forward` is called at the launch.

    early  steps launched before the tokens of the step before were known
    """

    def __init__(self, **shape: Any) -> None:
        self.runner = PagedEchoRunner(**shape | {"overlap": True})
        self.device = AsyncDevice()
        self.on_forward: Callable[[Batch, bool], None] = lambda batch, moved: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runner, name)

    def forward(self, batch: Batch) -> torch.Tensor:
        self.on_forward(batch, False)
        try:
            self.on_forward(batch, True)
        except Exception:
            self.device.enqueue(lambda: self.runner.carry_out(batch.cache_ops) or (), 0)
            raise
        pending = batch.pending_tokens
        launched = replace(deepcopy(replace(batch, pending_tokens=None)), pending_tokens=pending)

        def compute() -> Sequence[Any]:
            if pending is None:
                return self.runner.forward(launched)
            sampled_ids = torch.tensor([self.device.result(int(id)) for id in pending.sampled_ids])
            return self.runner.forward(
                replace(launched, pending_tokens=replace(pending, sampled_ids=sampled_ids.long()))
            )

        self.device.events.append(("launch", self.device.num_launched))
        self.device.num_launched += 1
        rows = self.device.enqueue(compute, len(batch.logits_indices))
        return torch.tensor(rows, dtype=torch.float64)[:, None].expand(-1, VOCAB)


class AsyncSampler(Sampler):
    """A Sampler on the AsyncDevice of a runner. The host's part of a sample is done when it is launched."""

    def __init__(self, runner: AsyncEchoRunner) -> None:
        super().__init__(VOCAB)
        self.device = runner.device

    def sample_async(
        self,
        logits: torch.Tensor,
        sequences: Sequence[engine_sequence.Sequence],
        checked: torch.Tensor | None = None,
    ) -> PendingSample:
        device = self.device
        as_launched = [copy_sequence(sequence) for sequence in sequences]

        def compute() -> list[Any]:
            sample = super(AsyncSampler, self).sample_async(
                self.rows(logits), as_launched, None if checked is None else self.rows(checked)
            )
            return [*sample.token_ids.tolist(), sample]

        number, step = len(device.work), device.num_launched - 1
        ids = device.enqueue(compute, len(sequences))
        device.events.append(("sample", step))

        def wait() -> list[SampledToken]:
            device.events.append(("wait", step))
            tokens: list[SampledToken] = device.run_until(number)[-1].wait()
            return tokens

        return PendingSample(
            torch.tensor(ids, dtype=torch.int64), wait, lambda: device.run_until(number)[-1].wait_finite()
        )

    def prompt_logprobs(self, logits: torch.Tensor, *args: Any) -> Any:
        self.device.run_until(len(self.device.work) - 1)
        return super().prompt_logprobs(self.rows(logits), *args)

    def rows(self, placeholders: torch.Tensor) -> torch.Tensor:
        rows = [self.device.result(int(each)) for each in placeholders[:, 0]]
        return torch.stack(rows) if rows else torch.empty(0, VOCAB)


def copy_sequence(sequence: engine_sequence.Sequence) -> engine_sequence.Sequence:
    copied = copy(sequence)
    copied.token_ids = list(sequence.token_ids)
    return copied
