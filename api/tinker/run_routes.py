"""The routes of training runs: creation, passes, steps, saves, loads, and the promises of all of them.

Entry point: make_routes.
"""

from functools import partial
from typing import Any

from flask import Response, request

from api.body.json_body import check_encoding, read, read_struct, to_struct
from api.errors import json_response
from api.hooks.tuning_access import current_service
from api.openapi.operation import Operation
from api.tinker.bodies import (
    AdamFields,
    CreateFromBody,
    CreateModel,
    LoadWeightsBody,
    LoraFields,
    OptimStepBody,
    RetrieveFuture,
    RunBody,
    SaveExternalBody,
    SaveForSamplerBody,
    SaveWeightsBody,
    to_metadata,
)
from api.tinker.data import to_forward_backward
from api.tinker.errors import NotServed
from api.tinker.held_promise import PROTOBUF_TYPE, WaitablePromise, respond_with
from api.tinker.loss_aliases import LossAliases, resolve_alias
from api.tinker.pass_body import PassBody
from api.tinker.pass_json import ForwardBackwardBody, ForwardBody, read_forward, read_forward_backward
from api.tinker.protobuf.forward_backward import read_ids, read_pass
from api.tinker.results import write_json, write_protobuf
from api.tinker.sampling.samples import SamplePromise, current_samples, is_sample_id
from api.tinker.tinker_route import TinkerRoute, require_runs, submit, submit_at
from inference.models import Models
from tuning.runs.types import ForwardBackward, LoadWeights, OptimStep, RunOptions, SaveForSampler, SaveWeights
from tuning.trainer.optimizers import AdamParams

ADAMW = "adamw"
UNLOADED = ":unloaded"  # ends the id of a promise that is resolved from the beginning
CREATE_MODEL = Operation(
    "Begin a training run", "The promise fails if memory does not suffice.", body=CreateModel
)
GET_INFO = Operation("Show a run", body=RunBody)
UNLOAD_MODEL = Operation("Free a run's memory", body=RunBody)
FORWARD_BACKWARD = Operation(
    "Compute a loss and its gradients",
    "JSON, or the protobuf message ForwardBackwardRequest.",
    body=ForwardBackwardBody,
)
FORWARD = Operation("Compute a loss", body=ForwardBody)
OPTIM_STEP = Operation("Update the weights", body=OptimStepBody)
SAVE_WEIGHTS = Operation("Save weights and the optimizer's state", body=SaveWeightsBody)
SAVE_FOR_SAMPLER = Operation("Save weights to sample from", body=SaveForSamplerBody)
SAVE_EXTERNAL = Operation("Save weights to download", body=SaveExternalBody)
LOAD_WEIGHTS = Operation("Load a checkpoint into a run, or begin a run with it", body=CreateFromBody)
RETRIEVE_FUTURE = Operation(
    "Wait for a result", "408 with type try_again after 30 s without one.", body=RetrieveFuture
)


def make_routes(models: Models, aliases: LossAliases) -> tuple[TinkerRoute, ...]:
    forward_backward = partial(submit_pass, "forward_backward", models, aliases)
    forward = partial(submit_pass, "forward", models, aliases)
    optim_step = partial(submit, "optim_step", parse_optim_step)
    save_weights = partial(submit, "save_weights", parse_save)
    save_for_sampler = partial(submit, "save_weights_for_sampler", parse_save_for_sampler)
    save_external = partial(submit, "save_weights_external", parse_save_external)
    return (
        TinkerRoute("POST", "/create_model", create_model, CREATE_MODEL),
        TinkerRoute("POST", "/get_info", partial(get_info, models), GET_INFO),
        TinkerRoute("POST", "/unload_model", unload_model, UNLOAD_MODEL),
        TinkerRoute("POST", "/forward_backward", forward_backward, FORWARD_BACKWARD),
        TinkerRoute("POST", "/forward", forward, FORWARD),
        TinkerRoute("POST", "/optim_step", optim_step, OPTIM_STEP),
        TinkerRoute("POST", "/save_weights", save_weights, SAVE_WEIGHTS),
        TinkerRoute("POST", "/save_weights_for_sampler", save_for_sampler, SAVE_FOR_SAMPLER),
        TinkerRoute("POST", "/save_weights_external", save_external, SAVE_EXTERNAL),
        TinkerRoute("POST", "/load_weights", load_weights, LOAD_WEIGHTS),
        TinkerRoute("POST", "/retrieve_future", retrieve_future, RETRIEVE_FUTURE),
    )


def create_model() -> dict[str, Any]:
    body = read_struct(CreateModel)
    if body.optimizer_config and body.optimizer_config.type != ADAMW:
        raise NotServed(f"the optimizer {body.optimizer_config.type}", f"set optimizer_config.type={ADAMW}")
    lora = body.lora_config or LoraFields()
    options = RunOptions(
        base_model=body.base_model,
        rank=lora.rank,
        seed=lora.seed,
        train_attn=lora.train_attn,
        train_mlp=lora.train_mlp,
        train_unembed=lora.train_unembed,
        user_metadata=to_metadata(body.user_metadata),
    )
    promise = require_runs().create_run(body.session_id, body.model_seq_id, options)
    return created_json("create_model", promise.request_id)


def created_json(name: str, request_id: str) -> dict[str, Any]:
    """The run's id is that of its creation without the place in the order."""
    return {"type": name, "request_id": request_id, "model_id": request_id.rpartition(":")[0]}


def load_weights() -> dict[str, Any]:
    """Into a run, at a place in its order; or into a new run, which the session's id and a number name."""
    body = read()
    if not isinstance(body, dict) or body.get("model_id") is not None:
        return submit("load_weights", parse_load)
    new = to_struct(body, CreateFromBody)
    check_access_token(new.weights_access_token)
    promise = require_runs().create_run_from(
        new.session_id,
        new.model_seq_id,
        new.path,
        with_optimizer=new.optimizer,
        base_model=new.base_model or "",
        user_metadata=to_metadata(new.user_metadata),
    )
    return created_json("load_weights", promise.request_id)


def get_info(models: Models) -> dict[str, Any]:
    run = require_runs().open_run(read_struct(RunBody).model_id)
    info = models.own.card.info
    model_name = run.options.base_model
    return {
        "type": "get_info",
        "model_id": run.id,
        "model_data": {
            "arch": info.details.get("architecture", ""),
            "model_name": model_name,
            "tokenizer_id": info.id,
        },
        "is_lora": True,
        "lora_rank": run.options.rank,
        "model_name": model_name,
        "optimizer_config": {"type": ADAMW},
    }


def unload_model() -> dict[str, Any]:
    run_id = read_struct(RunBody).model_id
    require_runs().unload(run_id)
    return {"type": "unload_model", "request_id": f"{run_id}{UNLOADED}", "model_id": run_id}


def submit_pass(name: str, models: Models, aliases: LossAliases) -> dict[str, Any]:
    """Submit forward_backward or forward, from JSON or protobuf, with the base model's limits."""
    info = models.own.card.info

    def parse(body: PassBody) -> ForwardBackward:
        return to_forward_backward(resolve_alias(body, aliases), info)

    if request.mimetype == PROTOBUF_TYPE:
        check_encoding()
        data = request.get_data(cache=False)
        run_id, seq_id = read_ids(data)
        return submit_at(name, run_id, seq_id, lambda: parse(read_pass(data)))
    read_body = read_forward if name == "forward" else read_forward_backward
    return submit(name, lambda body: parse(read_body(body)))


def parse_optim_step(body: Any) -> OptimStep:
    fields = to_struct(body, OptimStepBody).adam_params
    return OptimStep(
        params=AdamParams(**{name: getattr(fields, name) for name in AdamFields.__struct_fields__})
    )


def parse_save(body: Any) -> SaveWeights:
    fields = to_struct(body, SaveWeightsBody)
    return SaveWeights(
        name=fields.path or f"{fields.seq_id:06d}",
        ttl_s=fields.ttl_seconds,
        overwrite=fields.overwrite,
        user_metadata=to_metadata(fields.user_metadata),
    )


def parse_save_for_sampler(body: Any) -> SaveForSampler:
    fields = to_struct(body, SaveForSamplerBody)
    has_name = fields.path is not None or fields.sampling_session_seq_id is None
    return SaveForSampler(
        name=fields.path or f"{fields.seq_id:06d}" if has_name else None,
        sampler_seq=None if has_name else fields.sampling_session_seq_id,
        ttl_s=fields.ttl_seconds,
        user_metadata=to_metadata(fields.user_metadata),
    )


def parse_save_external(body: Any) -> SaveWeights:
    fields = to_struct(body, SaveExternalBody)
    return SaveWeights(
        name=fields.path,
        kind="external_weights",
        ttl_s=fields.ttl_seconds,
        encrypt_to=tuple(fields.age_encryption_recipients or ()),
    )


def parse_load(body: Any) -> LoadWeights:
    fields = to_struct(body, LoadWeightsBody)
    check_access_token(fields.weights_access_token)
    return LoadWeights(path=fields.path, with_optimizer=fields.optimizer)


def check_access_token(token: str | None) -> None:
    if token is not None:
        raise NotServed("weights_access_token", "leave it out: a key of this server reads every checkpoint")


def retrieve_future() -> Response:
    request_id = read_struct(RetrieveFuture).request_id
    if request_id.endswith(UNLOADED):
        return json_response(200, {"type": "unload_model", "model_id": request_id.removesuffix(UNLOADED)})
    promise = sample_promise(request_id) if is_sample_id(request_id) else require_runs().promise(request_id)
    accepts_protobuf = PROTOBUF_TYPE in request.headers.get("Accept", "")
    return respond_with(WaitablePromise(promise), write_protobuf if accepts_protobuf else write_json)


def sample_promise(request_id: str) -> SamplePromise:
    """The promise of samples. Who asks for it needs no poll to learn of its end.

    Raises UnknownSample, and BadRequest once the session is finished.
    """
    service = current_service()
    if service is not None:
        service.runs.require_unfinished(request_id)
        service.runs.pending_samples.remove(request_id)
    return current_samples().find(request_id)
