"""Runs as clients train them: passes, steps, checkpoints, refusals, several runs at once."""

import numpy as np
import pytest

from inference.errors import BadRequest, NotFound
from inference.finding import format_size
from tests.tuning.runs.conftest import RunClient, RunServers, make_options, wait_for
from tests.tuning.runs.passes import DATA, FORWARD, PASS, STEP, loss
from tuning.runs import scheduler
from tuning.runs.run_queue import bytes_of
from tuning.runs.types import (
    Failure,
    ForwardBackward,
    LoadWeights,
    OptimStep,
    RejectedRequest,
    SaveForSampler,
    SaveWeights,
)
from tuning.trainer.datum import Datum
from tuning.trainer.optimizers import AdamParams


def test_steps_lower_the_loss(client: RunClient) -> None:
    run_id = client.create_run(0)
    losses = []
    for _ in range(3):
        losses.append(loss(client.call(run_id, PASS)))
        metrics = client.call(run_id, STEP).metrics
    assert losses == sorted(losses, reverse=True) and metrics["step:max"] == 3
    output = client.call(run_id, FORWARD)
    assert [len(values) for values in output.logprobs] == [4, 2]
    assert loss(output) == pytest.approx(-sum(values.sum() for values in output.logprobs), rel=1e-5)


def test_runs_of_different_shapes_in_turn_compute_what_each_computes_alone(client: RunClient) -> None:
    shapes = {"rank": 2, "train_mlp": False}, {"rank": 8, "seed": 5}, {"rank": 3, "train_attn": False}
    alone, together = [], []
    for number, shape in enumerate(shapes, 10):
        run_id = client.create_run(number, **shape)
        alone.append([client.call(run_id, request) for request in (PASS, STEP, PASS, STEP, FORWARD)][-1])
    run_ids = [client.create_run(number, **shape) for number, shape in enumerate(shapes, 20)]
    for request in (PASS, STEP, PASS, STEP, FORWARD):
        together = [client.send(run_id, request) for run_id in run_ids]
    for promise, expected in zip(together, alone, strict=True):
        output = client.expect(promise)
        for values, expected_values in zip(output.logprobs, expected.logprobs, strict=True):
            assert np.array_equal(values, expected_values)


def test_a_run_goes_on_from_a_checkpoint_as_if_it_had_never_ended(client: RunClient) -> None:
    first = client.create_run(30)
    for request in (PASS, STEP):
        client.call(first, request)
    path = client.call(first, SaveWeights(name="one")).path
    client.expect(client.runs.create_run_from(client.session_id, 31, path, with_optimizer=True))
    second = f"{client.session_id}:train:31"
    for request in (PASS, STEP):
        assert client.call(first, request).metrics == client.call(second, request).metrics
    client.call(first, LoadWeights(path=path, with_optimizer=True))
    assert loss(client.call(first, FORWARD)) != loss(client.call(second, FORWARD))


def test_a_run_begins_with_the_weights_of_a_checkpoint_alone(client: RunClient) -> None:
    first = client.create_run(32)
    for request in (PASS, STEP):
        client.call(first, request)
    path = client.call(first, SaveWeights(name="one")).path
    client.expect(client.runs.create_run_from(client.session_id, 33, path, with_optimizer=False))
    second = f"{client.session_id}:train:33"
    assert loss(client.call(first, FORWARD)) == loss(client.call(second, FORWARD))
    assert client.call(second, STEP).metrics["step:max"] == 1, "its optimizer is a new one"


def test_a_checkpoint_has_its_name_and_replaces_none_without_overwrite(
    client: RunClient, shared_servers: RunServers
) -> None:
    run_id = client.create_run(40)
    path = client.call(run_id, SaveWeights(name="a")).path
    assert path == f"tinker://{run_id}/weights/a"
    assert "overwrite" in client.fail(run_id, SaveWeights(name="a")).message
    client.call(run_id, SaveWeights(name="a", overwrite=True, ttl_s=3600))
    for name in ("../x", "", "a/b", ".a", "a" * 129):
        assert "1 to 128 letters" in client.fail(run_id, SaveWeights(name=name)).message
    sampler_path = client.call(run_id, SaveForSampler(name="s")).path
    former = shared_servers.adapters.loaded[sampler_path]
    assert client.call(run_id, SaveForSampler(name="s")).path == sampler_path
    assert shared_servers.adapters.loaded[sampler_path] != former and not former.exists()
    assert [each.id for each in client.runs.checkpoints(run_id)] == [sampler_path, path]
    assert (
        "cannot be trained on"
        in client.fail(run_id, LoadWeights(path=sampler_path, with_optimizer=False)).message
    )
    client.runs.delete_checkpoint(sampler_path)
    assert sampler_path not in shared_servers.adapters.loaded
    with pytest.raises(NotFound):
        client.runs.checkpoint_folder(sampler_path)


def test_a_snapshot_is_a_sampling_session(client: RunClient, shared_servers: RunServers) -> None:
    run_id = client.create_run(50)
    saved = client.call(run_id, SaveForSampler(sampler_seq=7))
    assert saved.path is None and saved.sampler_id == f"{client.session_id}:sample:7"
    assert client.runs.sampler(saved.sampler_id).adapter == saved.sampler_id
    cards = {card.name: card.source for card in shared_servers.adapters.cards()}
    assert cards[saved.sampler_id] == ""  # in no list of models
    assert client.runs.checkpoints(run_id) == []


def test_a_training_checkpoint_can_be_sampled(client: RunClient, shared_servers: RunServers) -> None:
    path = client.call(client.create_run(51), SaveWeights(name="a")).path
    sampler = client.runs.create_sampler(client.session_id, 8, model_path=path)
    assert (
        sampler.adapter == path
        and path in shared_servers.adapters.loaded
        and sampler.base_model == "fake/model"
    )
    assert client.runs.served_model("alias:variant", path) == path
    assert client.runs.served_model("alias:variant", None) == ""
    with pytest.raises(BadRequest, match="base_model must be one of"):
        client.runs.served_model("other", None)
    named = client.runs.create_sampler(client.session_id, 9, base_model="alias", model_path=path)
    assert (named.adapter, named.base_model) == (path, "alias"), "tinker-cookbook's evaluation sends both"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (RejectedRequest(message="no images"), "no images"),
        (ForwardBackward(data=[], loss_fn="cross_entropy"), "data"),
        (ForwardBackward(data=[*DATA, Datum([1], [10**6])], loss_fn="cross_entropy"), r"data[2]"),
        (ForwardBackward(data=DATA, loss_fn="ppo"), "inputs must have"),
        (ForwardBackward(data=DATA, loss_fn="custom"), "loss_fn must be one of"),
        (ForwardBackward(data=DATA, loss_fn="cross_entropy", config={"x": 1.0}), "loss_fn_config"),
        (OptimStep(params=AdamParams(learning_rate=float("nan"))), "adam_params.learning_rate"),
        (OptimStep(params=AdamParams(learning_rate=1.0, beta1=1.0)), "adam_params.beta1"),
        (SaveWeights(name="a", ttl_s=3599), "ttl_seconds must be 3600 to"),
        (SaveForSampler(name="a", ttl_s=1 << 60), "ttl_seconds must be 3600 to"),
        (LoadWeights(path="tinker://a:train:0/weights/x", with_optimizer=True), "no checkpoint"),
    ],
)
def test_a_refused_request_uses_up_its_number_and_changes_nothing(
    client: RunClient, request_: object, message: str
) -> None:
    run_id = f"{client.session_id}:train:60"
    if run_id not in client.seq_ids:
        client.create_run(60)
    before = loss(client.call(run_id, FORWARD))
    failure = client.fail(run_id, request_)  # type: ignore[arg-type]
    assert message in failure.message and failure.category == "user"
    assert loss(client.call(run_id, FORWARD)) == before


def test_an_adapter_of_nothing_is_refused_and_nothing_is_left_of_its_run(client: RunClient) -> None:
    options = make_options(train_attn=False, train_mlp=False, train_unembed=False)
    failure = wait_for(client.runs.create_run(client.session_id, 70, options))
    assert "lora_config" in failure.message  # type: ignore[union-attr]
    with pytest.raises(NotFound):
        client.runs.run(f"{client.session_id}:train:70")
    with pytest.raises(BadRequest, match="rank must be 1 to 256"):
        client.runs.create_run(client.session_id, 71, make_options(rank=257))
    with pytest.raises(BadRequest, match="seed must be -9223372036854775808 to 18446744073709551615"):
        client.runs.create_run(client.session_id, 71, make_options(seed=1 << 64))


def test_repeated_requests_are_the_same(client: RunClient) -> None:
    first = client.runs.create_run(client.session_id, 80, make_options())
    assert client.runs.create_run(client.session_id, 80, make_options()) is first
    run_id = f"{client.session_id}:train:80"
    promise = client.send(run_id, PASS)
    assert client.runs.submit(run_id, 1, PASS) is promise is client.runs.promise(f"{run_id}:1")
    client.expect(promise)
    for unknown in (f"{run_id}:2", f"{run_id}:x", "x:train:0:1", "", f"{run_id}:{10**30}"):
        with pytest.raises(NotFound):
            client.runs.promise(unknown)


def test_a_finished_session_shows_no_run_and_no_result(client: RunClient) -> None:
    finished = RunClient(client.runs)
    run_id = finished.create_run()
    promise = finished.send(run_id, FORWARD)
    finished.expect(promise)
    client.runs.finish(finished.session_id)
    for call, name in ((client.runs.promise, promise.request_id), (client.runs.open_run, run_id)):
        with pytest.raises(BadRequest, match="session_id is finished: create a new session"):
            call(name)
    assert client.runs.run(run_id).id == run_id  # in lists


def test_runs_share_the_memory_of_what_waits_for_missing_requests(
    client: RunClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 2 * bytes_of(PASS)
    monkeypatch.setattr(scheduler, "MAX_GAP_BYTES", size)
    first, second = client.create_run(90), client.create_run(91)
    promises = [client.runs.submit(run_id, seq_id, PASS) for run_id in (first, second) for seq_id in (3, 2)]
    for run_id in (first, second):
        client.call(run_id, PASS)
    results = [wait_for(promise) for promise in promises]
    failures = [result.message for result in results if isinstance(result, Failure)]
    waiting, limit = format_size(size), format_size(size // 2)
    assert failures == [f"{waiting} would wait for seq_id 1, at most {limit} may: send it first"]
