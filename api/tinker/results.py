"""What promises resolve to, as the client reads it: JSON, or protobuf where it asks for that."""

from collections.abc import Callable, Mapping
from typing import Any

from api.tinker.protobuf.forward_backward import RECORD, write_output
from api.tinker.protobuf.sample import write_sample
from api.tinker.sampling import result as sample_result
from api.tinker.sampling.result import SampleResult
from api.tinker.tensors import Array
from tuning.runs.paths import parse_path
from tuning.runs.types import (
    CheckpointKind,
    Failure,
    PassOutput,
    RunCreated,
    RunResult,
    StepOutcome,
    WeightsLoaded,
    WeightsSaved,
)

SAVED_TYPES: Mapping[CheckpointKind, str] = {
    "weights": "save_weights",
    "sampler_weights": "save_weights_for_sampler",
    "external_weights": "save_weights_external",
}

Result = RunResult | SampleResult | Failure


def failure_json(failure: Failure) -> dict[str, Any]:
    return {"error": failure.message, "category": failure.category}


def run_created_json(result: RunCreated) -> dict[str, Any]:
    name = "load_weights" if result.path else "create_model"
    return {"type": name, "model_id": result.run_id, "path": result.path}


def pass_json(result: PassOutput) -> dict[str, Any]:
    outputs = [{"logprobs": tensor_json(logprobs)} for logprobs in result.logprobs]
    return {
        "type": "forward_backward",
        "loss_fn_output_type": RECORD,
        "loss_fn_outputs": outputs,
        "metrics": dict(result.metrics),
    }


def tensor_json(array: Array) -> dict[str, Any]:
    return {"data": array.ravel().tolist(), "dtype": "float32", "shape": list(array.shape)}


def step_json(result: StepOutcome) -> dict[str, Any]:
    return {"type": "optim_step", "metrics": dict(result.metrics)}


def saved_json(result: WeightsSaved) -> dict[str, Any]:
    snapshot = {"sampling_session_id": result.sampler_id} if result.sampler_id else {}
    kind = parse_path(result.path).kind if result.path else "sampler_weights"
    return {"type": SAVED_TYPES[kind], "path": result.path, **snapshot}


def loaded_json(result: WeightsLoaded) -> dict[str, Any]:
    return {"type": "load_weights", "path": result.path, "model_id": result.run_id}


def write_pass(result: PassOutput) -> bytes:
    return write_output(result.logprobs, result.metrics)


JSON: Mapping[type[Any], Callable[[Any], dict[str, Any]]] = {
    Failure: failure_json,
    RunCreated: run_created_json,
    PassOutput: pass_json,
    StepOutcome: step_json,
    WeightsSaved: saved_json,
    WeightsLoaded: loaded_json,
    SampleResult: sample_result.to_json,
}
PROTOBUF: Mapping[type[Any], Callable[[Any], bytes]] = {PassOutput: write_pass, SampleResult: write_sample}


def write_json(result: Result) -> dict[str, Any]:
    return JSON[type(result)](result)


def write_protobuf(result: Result) -> dict[str, Any] | bytes:
    """As protobuf if there is a message of this kind: a failure is always JSON."""
    write = PROTOBUF.get(type(result))
    return write(result) if write else write_json(result)
