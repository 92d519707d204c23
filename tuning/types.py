"""The types that the tuning endpoints, the job queue and the trainer share. Plain values only.

Times are Unix times in whole seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

Method = Literal["supervised", "dpo", "orpo", "kto"]
FinetuningType = Literal["lora", "full"]
Status = Literal["validating_files", "queued", "running", "paused", "succeeded", "failed", "cancelled"]
Level = Literal["info", "warn", "error"]
EventType = Literal["message", "metrics"]

METHODS: tuple[Method, ...] = get_args(Method)
WAITING: frozenset[Status] = frozenset(("validating_files", "queued"))
FINISHED: frozenset[Status] = frozenset(("succeeded", "failed", "cancelled"))
# Checkpoints of a job that stay, the last ones: a whole model takes as much disk as the base.
NUM_CHECKPOINTS: Mapping[FinetuningType, int] = {"lora": 3, "full": 1}
OWN_WEIGHTS: Mapping[str, Any] = {"weight_file": "", "shares_weights": False}  # of a trainer that maps none


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """The hyperparameters of a job once every "auto" has become a number.

    finetuning_type           lora trains an adapter over frozen weights; full trains all weights
    learning_rate             at the end of the warm-up, multiplied already
    learning_rate_multiplier  what the automatic learning rate was multiplied by
    target_modules            names of the linear layers that get an adapter; empty: all linears of the layers
    train_output              the output layer (lm_head) gets an adapter, too
    max_length                most tokens of a row; 0: the model's context
    max_steps                 optimizer steps; 0: as many as n_epochs take
    batch_size                rows of a micro-batch; a step has gradient_accumulation_steps of these
    beta, loss_type           of the preference losses
    warmup_steps              None: 3 % of all steps
    eval_steps                optimizer steps between two evaluations; 0: one at the end of each epoch
    early_stopping_patience   evaluations without a better loss after which the job ends; 0: it never does
    keep_best                 the result is the checkpoint with the best loss on the validation file
    train_on_input            the loss includes the tokens of the prompt
    rehearsal                 texts of its own that the model rehearses beside each row, to keep what it knows
    """

    n_epochs: int
    batch_size: int
    learning_rate: float
    learning_rate_multiplier: float = 1.0
    finetuning_type: FinetuningType = "lora"
    lora_rank: int = 16
    lora_alpha: float = 32.0
    target_modules: tuple[str, ...] = ()
    use_dora: bool = False
    use_rslora: bool = False
    quantize_base: bool = False
    train_output: bool = False
    max_length: int = 0
    packing: bool = False
    max_steps: int = 0
    gradient_accumulation_steps: int = 1
    beta: float = 0.1
    loss_type: str = "sigmoid"
    weight_decay: float = 0.0
    warmup_steps: int | None = None
    optimizer: str = "adamw"
    grad_clip: float = 1.0
    activation_checkpointing: bool = False
    shuffle: bool = True
    eval_steps: int = 0
    early_stopping_patience: int = 0
    keep_best: bool = True
    train_on_input: bool = False
    rehearsal: float = 0.0

    @property
    def is_full(self) -> bool:
        """Whether all weights are trained, not an adapter."""
        return self.finetuning_type == "full"

    @property
    def rows_per_step(self) -> int:
        return self.batch_size * self.gradient_accumulation_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What the trainer's process reads from job.json in the job's folder.

    model_folder     the base model's folder, or its GGUF file
    initial_adapter  folder of the adapter that the training starts from; empty: a new adapter
    validation_file  empty: none
    threads          CPU threads to compute with
    device           cpu or cuda; "auto": a GPU if there is one
    context          and num_processes, weight_file, shares_weights: as TrainingBase
    rope_scaling     and rope_factor, allow_pickle: as the settings
    """

    job_id: str
    method: Method
    hyperparameters: Hyperparameters
    seed: int
    model_folder: str
    dtype: str
    chat_template: str
    tokenizer_config_path: str
    trust_remote_code: bool
    initial_adapter: str
    training_file: str
    validation_file: str
    threads: int
    device: str = "auto"
    context: int = 0
    num_processes: int = 1
    rope_scaling: str = "none"
    rope_factor: float = 1.0
    allow_pickle: bool = False
    weight_file: str = ""
    shares_weights: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingBase:
    """The served model as a trainer loads it.

    names           its names for clients; the first one's last part is in the names of fine-tuned models
    model_folder    or its GGUF file
    context         most tokens of a row; 0: the model's
    rope_scaling    and rope_factor, allow_pickle: as the settings
    quantize        the scheme by which the served weights are packed; a job decides for itself
    imatrix         the file by which that scheme weighs its errors; empty: none
    threads         CPU threads of a trainer
    device          of trainers, as in JobSpec
    num_processes   of a trainer, which divide the rows of a batch; GPU n is that of process n
    weight_file     of the served weights, packed, which a trainer maps if it exists; empty: there is none
    shares_weights  the server has mapped it, too: both have the same memory
    """

    names: tuple[str, ...]
    model_folder: str
    context: int
    dtype: str = "auto"
    quantize: str = "none"
    imatrix: str = ""
    chat_template: str = ""
    tokenizer_config_path: str = ""
    trust_remote_code: bool = False
    threads: int = 1
    device: str = "auto"
    num_processes: int = 1
    max_lora_rank: int = 256
    rope_scaling: str = "none"
    rope_factor: float = 1.0
    allow_pickle: bool = False
    weight_file: str = ""
    shares_weights: bool = False


def base_fields(base: TrainingBase) -> dict[str, Any]:
    """What a JobSpec has of the served model."""
    names = {each.name for each in fields(JobSpec)}
    return {each.name: getattr(base, each.name) for each in fields(base) if each.name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job as a client orders it.

    model            name of the base model, or of a fine-tuned one to go on from
    training         id of a file or of a dataset
    validation       as `training`; empty: none
    suffix           part of the new model's name
    seed             None: a random one
    hyperparameters  values by the names of Hyperparameters; "auto" and absent ones are chosen
    job_id           empty: a new id
    face             the API that the request came through, which shows its own jobs
    """

    model: str
    method: Method
    training: str
    validation: str = ""
    suffix: str = ""
    seed: int | None = None
    metadata: Mapping[str, str] | None = None
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    job_id: str = ""
    face: str = "openai"


@dataclass(frozen=True, slots=True)
class JobError:
    """Why a job failed. param: the field of the request that is to blame; None: none is."""

    code: str
    message: str
    param: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The last step of a job. time: of the step; eta_s: seconds from it to the job's end; None: unknown."""

    time: int = 0
    step: int = 0
    total_steps: int = 0
    epoch: float = 0.0
    train_loss: float | None = None
    tokens_per_second: float | None = None
    eta_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job and its state.

    model             name that the result will have
    folder            name of its folder
    base_model        the fully fine-tuned model under the adapter that it trains; empty: the served model
    hyperparameters   as requested; the numbers of Hyperparameters once the files are validated
    fine_tuned_model  `model` once it answers requests; None until then
    trained_tokens    tokens with a weight in the loss, over all epochs; None until the training began
    num_examples      rows of the training file that are trained on; 0 until they are validated
    memory_plan       bytes of the trainer's memory by term
    result_files      ids of the files with the job's metrics
    """

    id: str
    request: JobRequest
    model: str
    status: Status
    seed: int
    created: int
    folder: str
    base_model: str = ""
    started: int | None = None
    finished: int | None = None
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    fine_tuned_model: str | None = None
    trained_tokens: int | None = None
    num_examples: int = 0
    memory_plan: Mapping[str, int] = field(default_factory=dict)
    result_files: tuple[str, ...] = ()
    error: JobError | None = None
    progress: JobProgress = JobProgress()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """A line of a job's log. data: the figures of a step, for the type "metrics"; else None."""

    id: str
    created: int
    level: Level
    message: str
    type: EventType = "message"
    data: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """An adapter saved within a job. model: the name under which it answers; folder: of its files."""

    id: str
    job_id: str
    model: str
    created: int
    step: int
    epoch: float
    metrics: Mapping[str, float | None]
    folder: str
