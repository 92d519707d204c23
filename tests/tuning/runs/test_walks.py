"""Random walks: several clients train runs of different shapes at once, and none sees a bit of another."""

import threading
from random import Random

import numpy as np
import pytest

from tests.tuning.runs.conftest import RunClient, RunServers, wait_for
from tuning.runs.promise import Promise
from tuning.runs.service import TrainingRuns
from tuning.runs.types import (
    ForwardBackward,
    LoadWeights,
    OptimStep,
    PassOutput,
    RejectedRequest,
    RunRequest,
    SaveForSampler,
    SaveWeights,
    StepOutcome,
)
from tuning.trainer.datum import Datum
from tuning.trainer.optimizers import AdamParams

SHAPES = (
    {"rank": 2, "train_mlp": False},
    {"rank": 8, "seed": 5},
    {"rank": 3, "train_attn": False, "train_unembed": False},
    {"rank": 16, "seed": 7, "train_attn": False, "train_mlp": False},
)
VOCAB = 100


def random_data(random: Random) -> list[Datum]:
    lengths = [random.randint(1, 12) for _ in range(random.randint(1, 4))]
    ids = [[random.randrange(VOCAB) for _ in range(length + 1)] for length in lengths]
    return [Datum(each[:-1], each[1:], {"weights": [random.random() for _ in each[1:]]}) for each in ids]


def hostile_request(random: Random) -> RunRequest:
    data = random_data(random)
    ids = list(data[0].token_ids)
    nan = [float("nan")] * len(ids)
    return random.choice(
        (
            RejectedRequest(message="no images"),
            ForwardBackward(data=[], loss_fn="cross_entropy"),
            ForwardBackward(data=[*data, Datum([1] * 1000, [1] * 1000)], loss_fn="cross_entropy"),
            ForwardBackward(data=[*data, Datum(ids, [10**9] * len(ids))], loss_fn="cross_entropy"),
            ForwardBackward(data=[*data, Datum(ids, [-1] * len(ids))], loss_fn="cross_entropy"),
            ForwardBackward(data=[Datum(ids, [*ids, 1])], loss_fn="cross_entropy"),
            ForwardBackward(data=[Datum(ids, ids, {"weights": nan})], loss_fn="cross_entropy"),
            ForwardBackward(data=data, loss_fn="ppo"),
            ForwardBackward(data=data, loss_fn="../x"),
            ForwardBackward(data=data, loss_fn="cross_entropy", config={"beta": 1.0}),
            OptimStep(params=AdamParams(learning_rate=float("inf"))),
            OptimStep(params=AdamParams(learning_rate=0.1, eps=0.0)),
            SaveWeights(name="../../etc"),
            SaveForSampler(name="a/b"),
            LoadWeights(path="tinker://x/weights/y", with_optimizer=True),
            LoadWeights(path="/etc/passwd", with_optimizer=False),
        )
    )


def random_request(random: Random, number: int) -> RunRequest:
    kind = random.choices(("pass", "forward", "step", "save", "hostile"), (5, 2, 4, 1, 3))[0]
    if kind == "hostile":
        return hostile_request(random)
    if kind == "save":
        return SaveWeights(name=f"c{number}")
    if kind == "step":
        return OptimStep(params=AdamParams(learning_rate=2e-3, grad_clip_norm=1.0))
    return ForwardBackward(data=random_data(random), loss_fn="cross_entropy", forward_only=kind == "forward")


def send_shuffled(runs: TrainingRuns, run_id: str, requests: list[RunRequest], random: Random) -> None:
    """As a client with many connections does, some requests arriving twice."""
    arrivals = [seq_id for seq_id in range(1, len(requests) + 1) for _ in range(random.choice((1, 1, 2)))]
    random.shuffle(arrivals)
    for seq_id in arrivals:
        runs.submit(run_id, seq_id, requests[seq_id - 1])


def assert_same(promise: Promise, expected: object) -> None:
    result = wait_for(promise)
    if not isinstance(expected, PassOutput | StepOutcome):
        assert type(result) is type(expected)
        return
    assert isinstance(result, type(expected)) and result.metrics == expected.metrics
    if isinstance(result, PassOutput) and isinstance(expected, PassOutput):
        for values, others in zip(result.logprobs, expected.logprobs, strict=True):
            assert np.array_equal(values, others)


@pytest.mark.parametrize(("seed", "num_requests"), [(0, 10), pytest.param(1, 20, marks=pytest.mark.slow)])
def test_four_tenants_at_once_compute_what_each_computes_alone(
    servers: RunServers, seed: int, num_requests: int
) -> None:
    random = Random(seed)
    scripts = [[random_request(random, number) for number in range(num_requests)] for _ in SHAPES]
    client = RunClient(servers.open(max_runs=2))
    expected = []
    for number, (shape, requests) in enumerate(zip(SHAPES, scripts, strict=True)):
        run_id = client.create_run(number, **shape)
        expected.append([wait_for(client.send(run_id, request)) for request in requests])
    run_ids = [client.create_run(number, **shape) for number, shape in enumerate(SHAPES, 10)]
    senders = [
        threading.Thread(target=send_shuffled, args=(client.runs, run_id, requests, Random(seed + number)))
        for number, (run_id, requests) in enumerate(zip(run_ids, scripts, strict=True))
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    servers.close()
    client.runs = servers.open(max_runs=3)
    for run_id, results in zip(run_ids, expected, strict=True):
        for seq_id, result in enumerate(results, 1):
            assert_same(client.runs.promise(f"{run_id}:{seq_id}"), result)
        assert client.runs.run(run_id).next_seq_id == len(results) + 1
