"""Recorded steps launched before the previous step's tokens are known: the engine's answers do not change."""

from dataclasses import replace

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.model.batch import Batch, PendingTokens, make_batch
from inference.model.paged.attn_metadata import build_metadata
from inference.model.paged.cuda import CudaGraphRecorder
from inference.model.paged.cuda_graphs import GraphRunner
from inference.sampling import Sampling
from tests.engine.conftest import RecordingSink
from tests.engine.engine_probe import EngineProbe
from tests.engine.generation_requests import make_request
from tests.model.paged.recorded_runner import record_runner, trace
from tests.tiny_models.families import VOCAB, tiny

GREEDY, SAMPLED = Sampling(greedy=True), Sampling(temperature=0.9, top_p=0.95)
REQUESTS = [
    make_request(
        ids,
        12 + 5 * seed,
        sampling,
        seed=seed,
        logprobs=2,
        stop_token_ids=frozenset(range(3, 9)),
        min_tokens=4,
    )
    for seed, (ids, sampling) in enumerate(
        [
            ((5, 6, 7), GREEDY),
            ((11,) * 20, SAMPLED),
            ((9, 8), GREEDY),
            ((40, 41, 42), SAMPLED),
            ((60,), SAMPLED),
        ]
    )
]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_early_replayed_steps_give_the_same_answers(device: str) -> None:
    model = tiny("mistral").to(device)
    recorder = trace if device == "cpu" else CudaGraphRecorder(model.device)
    runner = record_runner(model, recorder)
    early, plain = generate_all(runner, True), generate_all(runner, False)
    assert [(sink.token_ids, sink.finish_reason) for sink in early] == [
        (sink.token_ids, sink.finish_reason) for sink in plain
    ]
    for first, second in zip(early, plain, strict=True):
        ours, theirs = ([p for record in sink.outputs for p in record.logprobs] for sink in (first, second))
        assert ours == pytest.approx(theirs, abs=1e-3)


def test_pending_ids_are_read_on_the_device() -> None:
    """An id below 0 stands for a row without a token: its result is not used, and any id will do."""
    pending = PendingTokens([1, 3], [2, 0], torch.tensor([-1, 8, 9]))
    batch = make_batch(
        [5, 0, 6, 0],
        [0, 2, 3, 4],
        [0, 4, 2],
        [0, 1, 2],
        [1, 2, 3],
        page_table=[[0], [1], [2]],
        page_size=16,
    )
    batch = replace(batch, pending_tokens=pending)
    [metadata] = build_metadata(batch, 16, torch.device("cpu"))
    assert metadata.token_ids.tolist() == [[5, 9, 6, 0]]
    assert metadata.positions.tolist() == [[0, 1, 4, 2]]
    assert metadata.logits_indices is not None and metadata.logits_indices.tolist() == [1, 2, 3]
    assert pending.sampled_ids.tolist() == [-1, 8, 9]


@torch.inference_mode()
def generate_all(runner: GraphRunner, overlaps: bool) -> list[RecordingSink]:
    runner.capabilities = replace(runner.capabilities, overlap=overlaps)
    engine = Engine(runner, Sampler(VOCAB), EngineOptions(max_batch_tokens=64, max_queued_tokens=10_000))
    batches: list[Batch] = []
    forward, runner.forward = runner.forward, lambda batch: (batches.append(batch), forward(batch))[1]
    sinks = [RecordingSink() for _ in REQUESTS]
    engine.submit(REQUESTS, sinks)
    while engine.step():
        EngineProbe(engine).check()
    runner.forward = forward
    assert any(batch.pending_tokens is not None for batch in batches) == overlaps
    return sinks
