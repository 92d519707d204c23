"""The JSON that Tinker's clients send. Fields of newer and older clients are optional, unknown ones ignored.

asample's is in sampling/parse.py, that of forward_backward in pass_json.py.
"""

from typing import Any, Literal

from msgspec import Struct

from inference.errors import BadRequest

MAX_METADATA = 65_536  # characters of what a client attaches to a session, a run or a checkpoint
MAX_LABEL = 1000  # characters of a name for people


class Empty(Struct):
    """A body without a field that matters here."""


class SessionBody(Struct):
    session_id: str


class CreateSession(Struct):
    """A session to create.

    user_metadata  texts by name
    sdk_version    of the client
    """

    user_metadata: dict[str, Any] | None = None
    display_name: str | None = None
    sdk_version: str = ""


class LoraFields(Struct):
    """The adapter of a run. train_…: which linear layers get one.

    seed  of the initial values
    """

    rank: int = 32
    seed: int | None = None
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True


class OptimizerFields(Struct):
    type: str = "adamw"


class CreateModel(Struct):
    """A run to create.

    model_seq_id   number of the run within the session
    user_metadata  values by name; those that are no text become text
    """

    session_id: str
    model_seq_id: int
    base_model: str
    user_metadata: dict[str, Any] | None = None
    lora_config: LoraFields | None = None
    optimizer_config: OptimizerFields | None = None


class RunBody(Struct):
    model_id: str


class OrderedBody(Struct):
    """A request of a run, which are computed in their order.

    seq_id  place of the request among those of its run, from 1
    """

    model_id: str
    seq_id: int


class AdamFields(Struct):
    learning_rate: float = 0.0001
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0


class OptimStepBody(OrderedBody):
    adam_params: AdamFields


class SaveWeightsBody(OrderedBody):
    """Save a checkpoint of a run.

    path       the checkpoint's name; absent: that of its place in the order
    overwrite  replace a checkpoint of this name
    """

    path: str | None = None
    ttl_seconds: int | None = None
    overwrite: bool = False
    user_metadata: dict[str, Any] | None = None


class SaveForSamplerBody(OrderedBody):
    """Save the weights of a run to sample from.

    path                     the checkpoint's name; absent: a snapshot for one sampling session
    sampling_session_seq_id  number of that session
    """

    path: str | None = None
    sampling_session_seq_id: int | None = None
    ttl_seconds: int | None = None
    user_metadata: dict[str, Any] | None = None


class SaveExternalBody(OrderedBody):
    """Save a checkpoint to download.

    path                       the checkpoint's name
    age_encryption_recipients  public keys for which to encrypt the files
    """

    path: str
    ttl_seconds: int | None = None
    age_encryption_recipients: list[str] | None = None


class LoadWeightsBody(OrderedBody):
    """Load a checkpoint into a run.

    path       tinker://RUN/weights/NAME
    optimizer  load its optimizer's state, too
    """

    path: str
    optimizer: bool = False
    weights_access_token: str | None = None


class CreateFromBody(Struct):
    """A new run that begins with the weights of a checkpoint."""

    session_id: str
    model_seq_id: int
    path: str
    optimizer: bool = False
    base_model: str | None = None
    user_metadata: dict[str, Any] | None = None
    weights_access_token: str | None = None


class CreateSamplingSession(Struct):
    """A sampling session to create.

    model_path  a checkpoint to sample from
    base_model  the model to sample from, if no checkpoint is named
    """

    session_id: str
    sampling_session_seq_id: int
    base_model: str | None = None
    model_path: str | None = None


class JoinSamplingSession(Struct):
    sampling_session_id: str


class SampledModel(Struct):
    """What asample samples from: a sampling session, or one of the others.

    seq_id  number of the request within the sampling session
    """

    sampling_session_id: str | None = None
    seq_id: int | None = None
    base_model: str | None = None
    model_path: str | None = None


class RetrieveFuture(Struct):
    request_id: str


class FuturesTarget(Struct):
    """The sampling session whose results are collected.

    cloned_sampler_id  the requests' seq_ids begin at 10⁹ times this number
    """

    sampling_session_id: str
    cloned_sampler_id: int = 0
    type: Literal["sampling_session"] = "sampling_session"


class RetrieveFutures(Struct):
    """Wait for the results of several requests.

    prev_cursor            the cursor of the reply before
    timeout                seconds to wait for a completion; 30 at most
    retrieved_request_ids  requests whose results the client has
    """

    target: FuturesTarget
    prev_cursor: int = 0
    timeout: float | None = None
    retrieved_request_ids: list[str] = []


class WeightsInfoBody(Struct):
    tinker_path: str


class TtlBody(Struct):
    """How long a checkpoint stays.

    ttl_seconds  remove it after this time, 3600 to 315360000; null: never
    """

    ttl_seconds: int | None = None


def to_metadata(values: dict[str, Any] | None) -> dict[str, str]:
    """The values as texts: replies have no others. Raises BadRequest for more than lists can carry."""
    texts = {name: value if isinstance(value, str) else str(value) for name, value in (values or {}).items()}
    check_length("user_metadata", sum(len(name) + len(text) for name, text in texts.items()), MAX_METADATA)
    return texts


def check_length(field: str, length: int, limit: int) -> None:
    """Raises BadRequest."""
    if length > limit:
        raise BadRequest(field, f"must have at most {limit} characters", length)
