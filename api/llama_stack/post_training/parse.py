"""Converts the body of a post-training request to a JobRequest, which the job queue checks further."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from api.body import json_body
from api.body.json_body import to_struct
from api.llama_stack.post_training.hyperparameters import (
    adapter_hyperparameters,
    loss_hyperparameters,
    notes,
    training_hyperparameters,
)
from api.llama_stack.post_training.inline_datasets import DatasetIds
from api.llama_stack.post_training.protocol import (
    PostTrainingRequest,
    PreferenceOptimizeRequest,
    SupervisedFineTuneRequest,
)
from inference.errors import BadRequest
from inference.lora.fence import Fence
from inference.models import Models
from tuning.types import JobRequest, Method

JOB_UUID = re.compile(r"[A-Za-z0-9._-]{1,200}")
JOB_UUID_RULE = "must be 1 to 200 of A-Z, a-z, 0-9 and ._-"
CONFIGS_AS_TEXT = ("training_config", "algorithm_config")  # which a command line sends as text
FACE = "llama_stack"
NOTES = "notes"  # key of the job's metadata
REPEATED_DOTS = re.compile(r"\.{2,}")  # no model's name has them
MAX_SUFFIX_CHARS = 64  # of the name of the fine-tuned model

RequestType = TypeVar("RequestType", bound=PostTrainingRequest)


def read_request(request_type: type[RequestType]) -> RequestType:
    """The body, in the format of any generation. Raises BadRequest."""
    value = json_body.read()
    if isinstance(value, dict):
        value = value | {
            name: json_body.parse(value[name].encode())
            for name in CONFIGS_AS_TEXT
            if isinstance(value.get(name), str)
        }
    body = to_struct(value, request_type)
    if not JOB_UUID.fullmatch(body.job_uuid):
        raise BadRequest("job_uuid", JOB_UUID_RULE, body.job_uuid)
    return body


@dataclass(frozen=True, slots=True)
class RequestParser:
    """Converts bodies to JobRequests.

    models: the served ones; fence: around the folders that a client may name.
    """

    models: Models
    fence: Fence

    def supervised(self, body: SupervisedFineTuneRequest, datasets: DatasetIds) -> JobRequest:
        return self._job_request(body, datasets, "supervised", body.model, adapter_hyperparameters(body))

    def preference(self, body: PreferenceOptimizeRequest, datasets: DatasetIds) -> JobRequest:
        return self._job_request(body, datasets, "dpo", body.finetuned_model, loss_hyperparameters(body))

    def _job_request(
        self,
        body: PostTrainingRequest,
        datasets: DatasetIds,
        method: Method,
        model: str | None,
        method_hyperparameters: Mapping[str, Any],
    ) -> JobRequest:
        if body.checkpoint_dir and not self.fence.encloses(body.checkpoint_dir):
            raise BadRequest("checkpoint_dir", "must be null, or a folder below ADAPTER_DIRS")
        return JobRequest(
            job_id=body.job_uuid,
            model=self.models.resolve(model).card.name,
            method=method,
            training=datasets.training,
            validation=datasets.validation,
            suffix=REPEATED_DOTS.sub(".", body.job_uuid)[:MAX_SUFFIX_CHARS],
            metadata={NOTES: " ".join(notes(body))},
            hyperparameters={**training_hyperparameters(body), **method_hyperparameters},
            face=FACE,
        )
