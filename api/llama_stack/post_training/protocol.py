"""The JSON of Llama Stack's post-training routes: requests and responses of all protocol versions.

Types only: parse.py checks values. Unknown fields are ignored, and every optional field accepts null.
"""

from typing import Any

from msgspec import Struct, field

from api.llama_stack.datasets.protocol import InlineDataset


class AlgorithmConfig(Struct):
    """How to train: the adapter of supervised fine-tuning, or the loss of preference optimization.

    type                LoRA, or Full: all weights are trained; QAT is not served
    lora_attn_modules   linears of the attention: q_proj, k_proj, v_proj, output_proj
    apply_lora_to_mlp   the linears of the MLP get an adapter, too
    apply_lora_to_output  lm_head gets one, too
    rank, alpha         of the adapter
    use_dora            train a magnitude for each output, too
    quantize_base       QLoRA: the base is quantized while it is trained
    beta, loss_type     of preference optimization: sigmoid, hinge or ipo
    reward_scale, reward_clip, epsilon, gamma  fields of clients before 0.2.18: they have no meaning
    """

    type: str | None = None
    lora_attn_modules: list[str] | None = None
    apply_lora_to_mlp: bool | None = None
    apply_lora_to_output: bool | None = None
    rank: int | None = None
    alpha: float | None = None
    use_dora: bool | None = None
    quantize_base: bool | None = None
    beta: float | None = None
    loss_type: str | None = None
    reward_scale: float | None = None
    reward_clip: float | None = None
    epsilon: float | None = None
    gamma: float | None = None


class DataConfig(Struct):
    """The rows. packed: several rows in one sequence; train_on_input: the loss includes the prompts.

    data_format is ignored: the columns of the rows say what they are.
    """

    dataset_id: str
    batch_size: int | None = None
    shuffle: bool | None = None
    data_format: str | None = None
    validation_dataset_id: str | None = None
    packs_rows: bool | None = field(default=None, name="packed")
    train_on_input: bool | None = None


class OptimizerConfig(Struct):
    """The optimizer of a job. The learning rate falls to 0.

    optimizer_type  adam, adamw or sgd
    lr_min          has no effect
    """

    optimizer_type: str | None = None
    lr: float | None = None
    lr_min: float | None = None
    weight_decay: float | None = None
    num_warmup_steps: int | None = None


class EfficiencyConfig(Struct):
    enable_activation_checkpointing: bool | None = None
    enable_activation_offloading: bool | None = None
    fsdp_cpu_offload: bool | None = None
    memory_efficient_fsdp_wrap: bool | None = None


class TrainingConfig(EfficiencyConfig):
    """How long to train, on what and with which optimizer.

    max_steps_per_epoch  0 or less: no limit
    n_iters, batch_size, shuffle and the fields of EfficiencyConfig  of clients before 0.0.54
    """

    n_epochs: int | None = None
    max_steps_per_epoch: int | None = None
    gradient_accumulation_steps: int | None = None
    max_validation_steps: int | None = None
    dtype: str | None = None
    data_config: DataConfig | None = None
    optimizer_config: OptimizerConfig | None = None
    efficiency_config: EfficiencyConfig | None = None
    n_iters: int | None = None
    batch_size: int | None = None
    shuffle: bool | None = None


class PostTrainingRequest(Struct, kw_only=True):
    """The fields of both methods. The configs may be text that contains their JSON.

    job_uuid        name of the new job
    checkpoint_dir  null, or a folder below ADAPTER_DIRS
    algorithm       full, lora, qlora, dora or dpo, of clients before 0.0.54
    dataset, dataset_id, optimizer_config  of these clients, too: since then they are in training_config
    """

    job_uuid: str
    training_config: TrainingConfig | None = None
    algorithm_config: AlgorithmConfig | None = None
    hyperparam_search_config: dict[str, Any] | None = None
    logger_config: dict[str, Any] | None = None
    checkpoint_dir: str | None = None
    algorithm: str | None = None
    dataset_id: str | None = None
    dataset: InlineDataset | None = None
    validation_dataset_id: str | None = None
    validation_dataset: InlineDataset | None = None
    optimizer_config: OptimizerConfig | None = None


class SupervisedFineTuneRequest(PostTrainingRequest, kw_only=True):
    """A supervised job.

    model  the base, or a fine-tuned model to go on from; null: the base
    """

    model: str | None = None


class PreferenceOptimizeRequest(PostTrainingRequest, kw_only=True):
    """A job that learns preferences (DPO and others).

    finetuned_model  the base, or a fine-tuned model to go on from; null: the base
    """

    finetuned_model: str | None = None


class CancelRequest(Struct):
    job_uuid: str


class PostTrainingJob(Struct):
    job_uuid: str


class ListPostTrainingJobs(Struct):
    data: list[PostTrainingJob]


class TrainingMetrics(Struct):
    """The figures of a checkpoint.

    perplexity  of the validation set
    """

    epoch: int
    train_loss: float
    validation_loss: float
    perplexity: float


class TrainingCheckpoint(Struct):
    """An adapter that a job has saved. identifier: name of the model with it, which answers at once."""

    identifier: str
    created_at: str
    epoch: int
    post_training_job_id: str
    path: str
    training_metrics: TrainingMetrics | None


class JobArtifacts(Struct):
    job_uuid: str
    checkpoints: list[TrainingCheckpoint]


class JobStatus(Struct, kw_only=True):
    """A job. resources_allocated: its steps and loss, why it failed, and which fields had no effect."""

    job_uuid: str
    status: str
    scheduled_at: str
    started_at: str | None
    completed_at: str | None
    resources_allocated: dict[str, Any]
    checkpoints: list[TrainingCheckpoint]


class JobLogs(Struct):
    job_uuid: str
    log_lines: list[str]
