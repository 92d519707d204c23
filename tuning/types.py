"""The types that the tuning endpoints, the job queue and the trainer share. Plain values only."""

from dataclasses import dataclass
from typing import Literal

Method = Literal["supervised", "dpo", "orpo", "kto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """The hyperparameters of a job once every "auto" has become a number.

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
    """

    n_epochs: int
    batch_size: int
    learning_rate: float
    learning_rate_multiplier: float = 1.0
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What the trainer's process reads from job.json in the job's folder.

    model_folder     the base model's folder, or its GGUF file
    initial_adapter  folder of the adapter that the training starts from; empty: a new adapter
    validation_file  empty: none
    threads          CPU threads to compute with
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
