"""The routes of training runs, as clients of several versions call them."""

from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from api.tinker.protobuf.wire import bytes_field, integer_field, read_fields
from tests.api.tinker.pass_bodies import JSON_PASS, OWN_REQUEST, PROTOBUF
from tests.api.tinker.scripted_runs import RUN, SESSION, ScriptedRuns
from tuning.runs.types import (
    Failure,
    ForwardBackward,
    LoadWeights,
    OptimStep,
    PassOutput,
    RejectedRequest,
    RunCreated,
    RunOptions,
    RunResult,
    SaveForSampler,
    SaveWeights,
    StepOutcome,
    WeightsLoaded,
    WeightsSaved,
)
from tuning.trainer.optimizers import AdamParams


def test_a_run_is_created(api: FlaskClient, runs: ScriptedRuns) -> None:
    lora = {"rank": 8, "seed": 1, "train_unembed": False, "train_mlp": True, "train_attn": True}
    metadata = {"renderer_name": "role_colon", "epochs": 3}
    body = {"session_id": SESSION, "model_seq_id": 0, "base_model": "fake/model", "lora_config": lora}
    reply = api.post("/api/v1/create_model", json=body | {"user_metadata": metadata, "new_field": 1})
    assert reply.json == {"type": "create_model", "request_id": f"{RUN}:0", "model_id": RUN}
    texts = {"renderer_name": "role_colon", "epochs": "3"}
    options = RunOptions(base_model="fake/model", rank=8, seed=1, train_unembed=False, user_metadata=texts)
    assert runs.created == [options]


def test_another_optimizer_is_refused(api: FlaskClient) -> None:
    body = {"session_id": SESSION, "model_seq_id": 0, "base_model": "fake/model"}
    reply = api.post("/api/v1/create_model", json=body | {"optimizer_config": {"type": "dimuon"}})
    assert (reply.status_code, reply.json) == (
        400,
        {"detail": "the optimizer dimuon is not served here: set optimizer_config.type=adamw"},
    )


def test_a_pass_in_protobuf_and_in_json(api: FlaskClient, runs: ScriptedRuns) -> None:
    reply = api.post("/api/v1/forward_backward", data=OWN_REQUEST, content_type=PROTOBUF)
    assert reply.json == {"type": "forward_backward", "request_id": f"{RUN}:1", "model_id": RUN}
    ids = {"model_id": RUN, "seq_id": 2}
    api.post("/api/v1/forward_backward", json=ids | {"forward_backward_input": JSON_PASS})
    api.post("/api/v1/forward", json=ids | {"seq_id": 3, "forward_input": JSON_PASS})
    passes = [request for _, _, request in runs.submitted if isinstance(request, ForwardBackward)]
    assert [each.forward_only for each in passes] == [False, False, True]
    assert [list(each.data[0].token_ids) for each in passes] == [[10, 11, 12, 13], [1, 2], [1, 2]]
    assert [seq_id for _, seq_id, _ in runs.submitted] == [1, 2, 3]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (OWN_REQUEST[:-20], "the body is not the protobuf message"),
        (OWN_REQUEST.replace(b"cross_entropy", b"gross_entropy"), "loss_fn must be one of"),
        (bytes_field(1, RUN.encode()) + integer_field(2, 7), "loss_fn must be one of"),
    ],
    ids=["broken", "loss", "empty"],
)
def test_a_refused_pass_keeps_its_place_in_the_order(
    api: FlaskClient, runs: ScriptedRuns, body: bytes, reason: str
) -> None:
    reply = api.post("/api/v1/forward_backward", data=body, content_type=PROTOBUF)
    assert reply.status_code == 200
    ((run_id, _, request),) = runs.submitted
    assert run_id == RUN and isinstance(request, RejectedRequest) and reason in request.message


def test_a_json_pass_with_an_image_keeps_its_place(api: FlaskClient, runs: ScriptedRuns) -> None:
    image = {"model_input": {"chunks": [{"type": "image", "data": "aGk="}]}, "loss_fn_inputs": {}}
    body = {"model_id": RUN, "seq_id": 1, "forward_backward_input": JSON_PASS | {"data": [image]}}
    assert api.post("/api/v1/forward_backward", json=body).status_code == 200
    (request,) = [request for _, _, request in runs.submitted]
    assert isinstance(request, RejectedRequest) and "image is not served here" in request.message


def test_a_load_with_an_access_token_keeps_its_place(api: FlaskClient, runs: ScriptedRuns) -> None:
    body = {"model_id": RUN, "seq_id": 9, "path": "tinker://a/weights/b", "weights_access_token": "x"}
    assert api.post("/api/v1/load_weights", json=body).status_code == 200
    (request,) = [request for _, _, request in runs.submitted]
    assert isinstance(request, RejectedRequest) and "weights_access_token" in request.message


def test_bodies_without_ids_are_refused_at_once(api: FlaskClient, runs: ScriptedRuns) -> None:
    assert api.post("/api/v1/optim_step", json={"seq_id": 1}).json == {"detail": "model_id is required"}
    reply = api.post("/api/v1/forward_backward", data=b"\xff", content_type=PROTOBUF)
    assert reply.status_code == 400 and "has no model_id" in reply.json["detail"] and not runs.submitted
    compressed = {"Content-Encoding": "zstd", "Content-Type": PROTOBUF}
    reply = api.post("/api/v1/forward_backward", data=OWN_REQUEST, headers=compressed)
    assert reply.status_code == 415 and "uncompressed" in reply.json["detail"]


def test_steps_saves_and_loads(api: FlaskClient, runs: ScriptedRuns) -> None:
    adam = {"learning_rate": 0.1, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12, "weight_decay": 0.0}
    bodies = {
        "optim_step": {"adam_params": adam | {"grad_clip_norm": 1.0}},
        "save_weights": {"path": "0001", "ttl_seconds": 3600, "user_metadata": {"a": 1}},
        "save_weights_for_sampler": {"path": "s1", "kind": "snapshot"},
        "save_weights_external": {"path": "x", "age_encryption_recipients": ["age1x"]},
        "load_weights": {"path": f"tinker://{RUN}/weights/0001", "optimizer": True},
    }
    for seq_id, (path, body) in enumerate(bodies.items(), 1):
        reply = api.post(f"/api/v1/{path}", json={"model_id": RUN, "seq_id": seq_id} | body)
        assert reply.json == {"type": path, "request_id": f"{RUN}:{seq_id}", "model_id": RUN}
    assert [request for _, _, request in runs.submitted] == [
        OptimStep(params=AdamParams(learning_rate=0.1, beta1=0.9, beta2=0.95, eps=1e-12, grad_clip_norm=1.0)),
        SaveWeights(name="0001", ttl_s=3600, user_metadata={"a": "1"}),
        SaveForSampler(name="s1"),
        SaveWeights(name="x", kind="external_weights", encrypt_to=("age1x",)),
        LoadWeights(path=f"tinker://{RUN}/weights/0001", with_optimizer=True),
    ]


def test_a_snapshot_needs_no_path(api: FlaskClient, runs: ScriptedRuns) -> None:
    body = {"model_id": RUN, "seq_id": 1, "sampling_session_seq_id": 4, "kind": "snapshot"}
    api.post("/api/v1/save_weights_for_sampler", json=body)
    assert runs.submitted[0][2] == SaveForSampler(sampler_seq=4)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (RunCreated(run_id=RUN), {"type": "create_model", "model_id": RUN, "path": None}),
        (RunCreated(run_id=RUN, path="p"), {"type": "load_weights", "model_id": RUN, "path": "p"}),
        *(
            (WeightsSaved(path=path), {"type": name, "path": path})
            for name, path in (
                ("save_weights", f"tinker://{RUN}/weights/1"),
                ("save_weights_for_sampler", f"tinker://{RUN}/sampler_weights/1"),
                ("save_weights_external", f"tinker://{RUN}/external_weights/1"),
            )
        ),
        (
            WeightsSaved(path=None, sampler_id="i"),
            {"type": "save_weights_for_sampler", "path": None, "sampling_session_id": "i"},
        ),
        (WeightsLoaded(path="p", run_id=RUN), {"type": "load_weights", "path": "p", "model_id": RUN}),
        (StepOutcome(metrics={"step:max": 1.0}), {"type": "optim_step", "metrics": {"step:max": 1.0}}),
        (Failure(message="no", category="user"), {"error": "no", "category": "user"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_promise_resolves_to_its_result(
    api: FlaskClient, runs: ScriptedRuns, result: RunResult | Failure, expected: dict[str, Any]
) -> None:
    runs.promise_of("p").resolve(result)
    for accepted in ("application/json", PROTOBUF):
        reply = api.post("/api/v1/retrieve_future", json={"request_id": "p"}, headers={"Accept": accepted})
        assert reply.json == expected and reply.content_type == "application/json"


def test_the_result_of_a_pass_in_json_and_in_protobuf(api: FlaskClient, runs: ScriptedRuns) -> None:
    logprobs = [np.array([[-1, -2], [-3, -4]], np.float32)]
    runs.promise_of("p").resolve(PassOutput(logprobs=logprobs, metrics={"loss:sum": 3.0}))
    reply = api.post("/api/v1/retrieve_future", json={"request_id": "p", "allow_metadata_only": True})
    output = {"logprobs": {"data": [-1, -2, -3, -4], "dtype": "float32", "shape": [2, 2]}}
    assert reply.json["loss_fn_outputs"] == [output] and reply.json["metrics"] == {"loss:sum": 3.0}
    headers = {"Accept": PROTOBUF}
    reply = api.post("/api/v1/retrieve_future", json={"request_id": "p"}, headers=headers)
    assert reply.content_type == PROTOBUF and read_fields(reply.data)[1] == [b"ArrayRecord"]


def test_an_unknown_promise_is_not_found(api: FlaskClient) -> None:
    reply = api.post("/api/v1/retrieve_future", json={"request_id": "p"})
    assert (reply.status_code, reply.json) == (404, {"detail": "there is no request p"})


def test_the_model_that_a_run_is_of(api: FlaskClient) -> None:
    reply = api.post("/api/v1/get_info", json={"model_id": RUN}).json
    assert reply["model_name"] == reply["model_data"]["model_name"] == "alias"
    assert (reply["model_data"]["tokenizer_id"], reply["lora_rank"]) == ("fake/model", 32)


def test_unloading_is_done_at_once(api: FlaskClient) -> None:
    request_id = api.post("/api/v1/unload_model", json={"model_id": RUN}).json["request_id"]
    reply = api.post("/api/v1/retrieve_future", json={"request_id": request_id}).json
    assert reply == {"type": "unload_model", "model_id": RUN}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("get_info", {"model_id": "closed:train:0"}),
        ("retrieve_future", {"request_id": "closed:sample:0:3"}),
        ("retrieve_futures", {"target": {"sampling_session_id": "closed:sample:0"}}),
    ],
)
def test_a_finished_session_shows_nothing_more(api: FlaskClient, path: str, body: dict[str, Any]) -> None:
    reply = api.post(f"/api/v1/{path}", json=body)
    assert reply.status_code == 400
    assert reply.json == {"detail": "session_id is finished: create a new session, got 'closed'"}
