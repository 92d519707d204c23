"""The routes of sampling: sampling sessions, asample, and the poll for all requests of a session.

Entry point: make_routes.
"""

import uuid
from functools import partial
from typing import Any

from flask import Response

from api.body.json_body import read, read_struct, to_struct
from api.hooks.concurrency_limit import acquire_permit, hand_over_permit
from api.openapi.operation import Operation
from api.tinker.bodies import (
    CreateSamplingSession,
    JoinSamplingSession,
    RetrieveFuture,
    RetrieveFutures,
    SampledModel,
)
from api.tinker.data import STABLE_REINFORCE
from api.tinker.held_promise import HOLD_S, respond_with
from api.tinker.loss_aliases import LossAliases
from api.tinker.sampling.completions import Completions, NextCompletions
from api.tinker.sampling.parse import SampleBody, parse_sample
from api.tinker.sampling.result import SampleCollector
from api.tinker.sampling.samples import CLONE, SAMPLER_MARK, Finish, current_samples
from api.tinker.tinker_route import TinkerRoute, require_runs
from inference.errors import BadRequest
from inference.models import Models
from inference.served import Served

MAX_SEQ_ID = 1 << 63
CREATE_SAMPLING_SESSION = Operation(
    "Begin to sample from a model or a checkpoint", body=CreateSamplingSession
)
JOIN_SAMPLING_SESSION = Operation("Number another client of a sampling session", body=JoinSamplingSession)
SAMPLE = Operation("Sample", "429 means that the client is to wait.", body=SampleBody, takes_permit=True)
RETRIEVE_FUTURES = Operation("Wait for the end of any request of a sampling session", body=RetrieveFutures)
CANCEL_FUTURE = Operation("Stop to sample", body=RetrieveFuture)
GET_SAMPLER = Operation("Show a sampling session")


def make_routes(models: Models, aliases: LossAliases) -> tuple[TinkerRoute, ...]:
    return (
        TinkerRoute("POST", "/create_sampling_session", create_sampling_session, CREATE_SAMPLING_SESSION),
        TinkerRoute("POST", "/join_sampling_session", join_sampling_session, JOIN_SAMPLING_SESSION),
        TinkerRoute("POST", "/asample", partial(asample, models, STABLE_REINFORCE in aliases), SAMPLE),
        TinkerRoute("POST", "/retrieve_futures", retrieve_futures, RETRIEVE_FUTURES),
        TinkerRoute("POST", "/cancel_future", cancel_future, CANCEL_FUTURE),
        TinkerRoute("GET", "/samplers/<sampler_id>", get_sampler, GET_SAMPLER),
    )


def create_sampling_session() -> dict[str, Any]:
    body = read_struct(CreateSamplingSession)
    sampler = require_runs().create_sampler(
        body.session_id,
        body.sampling_session_seq_id,
        base_model=body.base_model,
        model_path=body.model_path,
    )
    return {"type": "create_sampling_session", "sampling_session_id": sampler.id}


def join_sampling_session() -> dict[str, Any]:
    sampler = require_runs().open_sampler(read_struct(JoinSamplingSession).sampling_session_id)
    counter = require_runs().pending_samples.next_clone(sampler.id)
    return {"type": "join_sampling_session", "client_counter": counter}


def asample(models: Models, serves_stability: bool) -> dict[str, Any]:
    """Submit a request for samples.

    serves_stability: the loss that needs stability information is computed as one that needs none.
    """
    body = read()
    model = to_struct(body, SampledModel)
    request_id, served = find_sampled(model, models)
    sample_request = parse_sample(body, served.card.info, serves_stability)
    sampler_id, clone = model.sampling_session_id, (model.seq_id or 0) // CLONE
    completions = None if sampler_id is None else completions_of(sampler_id, clone)

    def start(finish: Finish) -> SampleCollector:
        return SampleCollector(served.generate(sample_request.generation), sample_request.options, finish)

    acquire_permit()
    current_samples().submit(request_id, start, hand_over_permit(), completions)
    if sampler_id is not None:
        require_runs().pending_samples.add(request_id, sampler_id, clone)
    return {
        "type": "asample",
        "request_id": request_id,
        "sample_sequence_ids": [f"{request_id}:{i}" for i in range(sample_request.options.num_samples)],
    }


def find_sampled(model: SampledModel, models: Models) -> tuple[str, Served]:
    """The id of a request for samples, and what it samples from. Raises BadRequest and NotFound."""
    runs = require_runs()
    if model.sampling_session_id is None:
        adapter = runs.served_model(model.base_model, model.model_path)
        request_id = f"{uuid.uuid4().hex}{SAMPLER_MARK}0"
    else:
        if model.seq_id is None or not 0 <= model.seq_id < MAX_SEQ_ID:
            raise BadRequest("seq_id", "must be the number of the request, from 0", model.seq_id)
        sampler = runs.open_sampler(model.sampling_session_id)
        adapter, request_id = sampler.adapter, f"{sampler.id}:{model.seq_id}"
    return request_id, models.own.with_adapter(adapter) if adapter else models.own


def retrieve_futures() -> Response:
    body = read_struct(RetrieveFutures)
    sampler = require_runs().open_sampler(body.target.sampling_session_id)
    samples = current_samples()
    for request_id in body.retrieved_request_ids:
        samples.forget(request_id)
    completions = completions_of(sampler.id, body.target.cloned_sampler_id)
    completions.acknowledge(body.prev_cursor)
    timeout_s = HOLD_S if body.timeout is None else min(max(body.timeout, 0.0), HOLD_S)
    return respond_with(NextCompletions(completions, body.prev_cursor), dict, timeout_s)


def completions_of(sampler_id: str, clone: int) -> Completions:
    return current_samples().completions(sampler_id, clone, require_runs().pending_samples)


def cancel_future() -> dict[str, Any]:
    request_id = read_struct(RetrieveFuture).request_id
    current_samples().cancel(request_id)
    return {}


def get_sampler(sampler_id: str) -> dict[str, Any]:
    sampler = require_runs().sampler(sampler_id)
    return {
        "sampler_id": sampler.id,
        "base_model": sampler.base_model,
        "model_path": sampler.model_path,
    }
