"""The options of a benchmark, from the command line. They are the same for all engines."""

from dataclasses import dataclass

import torch

from inference.model.load.device_dtype import resolve_dtype, serves_bfloat16
from inference.model.quantization.schemes import INT4, INT8, NONE, Q4_K_M, Q8_0
from scripts.bench.models import config_of, num_parameters, vocab_size

AUTO = "auto"
GGUF_FORMATS = Q8_0, Q4_K_M  # of a file that llama.cpp's quantizer makes and both engines load
PRECISIONS = NONE, INT8, INT4
QUANTIZE = *PRECISIONS, *GGUF_FORMATS


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Options that some workloads do not use.

    model            a name in models.SHAPES, or a folder
    dtype            of the weights and activations: float32, bfloat16 or float16
    device           cpu or cuda
    threads          CPU threads of each engine
    batch_sizes      batch sizes of transformers' generate in the workload `loads`
    speculate        most draft tokens per step in the workload `speculation`
    runner           the runner of our engine; AUTO: the one that is fastest at its start, which may vary
    profile          whether to profile our engine
    quantize         one of QUANTIZE
    engines_folder   where other engines are installed
    checkout         the folder of another version of this project, for the workload `checkouts`
    against          names of the other engines in the workload `engines`; empty: all
    only             names of the loads of the workload `engines`; empty: all
    """

    model: str
    dtype: str
    device: str
    threads: int
    batch_sizes: tuple[int, ...] = (8, 16)
    speculate: int = 8
    runner: str = AUTO
    profile: bool = False
    quantize: str = NONE
    engines_folder: str = "engines"
    checkout: str = ""
    against: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    @property
    def vocab_size(self) -> int:
        return vocab_size(self.model)

    def prepare(self) -> None:
        """Set the number of threads and the seed of this process."""
        torch.set_num_threads(self.threads)
        torch.manual_seed(0)


def dtype_for(model: str, requested: str, device: str) -> str:
    """`requested`, or for "auto" the dtype that the server selects; shapes count as stored in bfloat16."""
    stored = str(config_of(model).dtype or "bfloat16").removeprefix("torch.")
    return resolve_dtype(
        requested,
        device=device,
        stored=stored,
        parameters=num_parameters(model),
        bfloat16=serves_bfloat16(device),
    )
