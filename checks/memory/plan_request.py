"""PlanRequest: the settings that the memory plan of a model depends on."""

from dataclasses import dataclass
from pathlib import Path

from checks.memory.overhead import DEFAULT_OVERHEAD, Overhead
from inference.model.load.rope import NO_SCALING, RopeScaling


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The settings that a plan depends on.

    device                  "cpu" or "cuda"
    dtype                   a torch dtype, "stored" or "auto"
    bfloat16_devices        the devices that serve bfloat16 faster than float32
    context                 tokens of a sequence; 0: as many as fit
    max_sequences           most sequences that run at the same time
    max_batch_total_tokens  most tokens of all running sequences together; 0: no limit
    kv_memory_bytes         KV cache of all sequences and processes together; 0: the memory that is left
    trust_remote_code       the model's own Python may run
    num_shard               tensor-parallel processes
    layer_devices           the device of each layer; empty: all are on `device` (the first GPU, or the CPU)
    quantize                "none" or a key of ModelSize.quantization_savings
    imatrix                 the file by which errors of the weights are weighed; None: none
    stored_quantization     the quant_method that the weight files must have; empty: any or none
    runner                  "auto" or one of inference.model.runner_selection.RUNNERS
    kv_dtype                of keys and values, the value of KV_DTYPE
    deterministic           an answer does not depend on the other rows of its batch
    rope_scaling            scaling of the rotary position embeddings
    max_batch_tokens        most tokens of a step
    overhead                memory of the server in addition to the model
    tokenizer_config_path   a file whose chat template replaces the model's
    chat_template           a Jinja file or template that replaces both; empty: none
    num_adapter_values      numbers of the adapters in memory, in the dtype of the computation
    tuning_memory_bytes     what serving leaves to trainers on the first device of the model
    """

    device: str
    dtype: str
    bfloat16_devices: frozenset[str]
    context: int
    max_sequences: int
    kv_memory_bytes: int
    trust_remote_code: bool
    max_batch_total_tokens: int = 0
    num_shard: int = 1
    layer_devices: tuple[str, ...] = ()
    quantize: str = "none"
    imatrix: Path | None = None
    stored_quantization: str = ""
    runner: str = "auto"
    kv_dtype: str = "auto"
    deterministic: bool = False
    rope_scaling: RopeScaling = NO_SCALING
    max_batch_tokens: int = 512
    overhead: Overhead = DEFAULT_OVERHEAD
    tokenizer_config_path: Path | None = None
    chat_template: str = ""
    num_adapter_values: int = 0
    tuning_memory_bytes: int = 0
