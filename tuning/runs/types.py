"""The types of training runs: sessions of clients, runs, requests to them and results. Plain values only.

Times are Unix times in whole seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tuning.trainer.datum import Datum
from tuning.trainer.optimizers import AdamParams

CheckpointKind = Literal["weights", "sampler_weights", "external_weights"]
Category = Literal["user", "server"]  # whose fault a failure is


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The adapter of a new run.

    base_model     the name by which the client calls the served model
    seed           of the initial values; None: a random one
    train_attn     the linear layers of attention get an adapter; train_mlp: those of the MLPs;
                   train_unembed: the output layer
    """

    base_model: str
    rank: int = 32
    seed: int | None = None
    train_attn: bool = True
    train_mlp: bool = True
    train_unembed: bool = True
    user_metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardBackward:
    """A pass over some data. forward_only: no gradients."""

    data: Sequence[Datum]
    loss_fn: str
    config: Mapping[str, float] = field(default_factory=dict)
    forward_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimStep:
    params: AdamParams


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveWeights:
    """Save a checkpoint as tinker://RUN/KIND/NAME.

    kind        weights: with the optimizer's state; external_weights: the adapter alone, for a download
    ttl_s       the checkpoint is removed after so long; None: never
    overwrite   a checkpoint of this name is replaced; else it is refused
    encrypt_to  the files are encrypted with age for these public keys; empty: they are not
    """

    name: str
    kind: CheckpointKind = "weights"
    ttl_s: int | None = None
    overwrite: bool = False
    encrypt_to: tuple[str, ...] = ()
    user_metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveForSampler:
    """Save the adapter so that it answers requests.

    name         of the checkpoint; it moves on if the name exists. None: a snapshot without a path
    sampler_seq  number of the sampling session that a snapshot is for; None: the checkpoint has a name
    """

    name: str | None = None
    sampler_seq: int | None = None
    ttl_s: int | None = None
    user_metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWeights:
    """Give the run the weights of a checkpoint. with_optimizer: and the optimizer's state."""

    path: str
    with_optimizer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRequest:
    """A request that the API refused: it takes its place in the order, and fails with this message."""

    message: str
    category: Category = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRun:
    """The first request of each run. path: of the checkpoint that it begins with; empty: a new adapter."""

    session_id: str
    options: RunOptions
    path: str = ""
    with_optimizer: bool = False


RunRequest = (
    CreateRun | ForwardBackward | OptimStep | SaveWeights | SaveForSampler | LoadWeights | RejectedRequest
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCreated:
    """The result of creating a run.

    path: of the checkpoint that the run began with; None: it began with a new adapter.
    """

    run_id: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOutput:
    """The result of a pass.

    logprobs: by datum, of each target, float32 (N,) or (N, K); metrics: by name:reduction.
    """

    logprobs: Sequence[np.ndarray]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSaved:
    """The result of saving a checkpoint.

    path: None for a snapshot, which has a sampler_id instead.
    """

    path: str | None
    sampler_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsLoaded:
    path: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    message: str
    category: Category


RunResult = RunCreated | PassOutput | StepOutcome | WeightsSaved | WeightsLoaded


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSession:
    """A client's session.

    is_finished  the client has closed it
    last_sign    a sign of life from its client, to the hour; 0: none since it was created
    """

    id: str
    created: int
    user_metadata: Mapping[str, str] = field(default_factory=dict)
    display_name: str | None = None
    sdk_version: str = ""
    is_finished: bool = False
    last_sign: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A training run and its state.

    folder        name of its folder
    num_trained   trained parameters
    next_seq_id   of the next request that is to run
    state         where its whole state is: "initial": as it was created; "disk"; "memory": of the trainer
    is_corrupted  the server was killed while only the trainer had its state
    last_request  time of it
    """

    id: str
    session_id: str
    options: RunOptions
    created: int
    folder: str
    num_trained: int = 0
    next_seq_id: int = 1
    state: Literal["initial", "disk", "memory"] = "initial"
    is_corrupted: bool = False
    last_request: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCheckpoint:
    """A saved checkpoint.

    id         its path, tinker://RUN/KIND/NAME
    num_bytes  of its files
    expires    None: never
    folder     name of its folder within the run's
    is_public  a mark for listings: every key of this server reads every checkpoint
    """

    id: str
    run_id: str
    kind: CheckpointKind
    name: str
    created: int
    num_bytes: int
    folder: str
    options: RunOptions
    is_public: bool = False
    user_metadata: Mapping[str, str] = field(default_factory=dict)
    expires: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSession:
    """What requests for samples name.

    base_model  the name that the client gave, or that of the checkpoint's base
    model_path  of the checkpoint; None: the base model, or a snapshot
    adapter     the name under which the backend serves it; empty: the base model
    snapshot    folder of a snapshot, within that of all runs; empty: it is none
    num_clones  clients that have joined the first one
    """

    id: str
    session_id: str
    base_model: str
    created: int
    model_path: str | None = None
    adapter: str = ""
    snapshot: str = ""
    num_clones: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfetchedSample:
    """A request for samples whose result the client has not asked for yet."""

    id: str
    created: int
