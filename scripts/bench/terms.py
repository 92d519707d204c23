"""What a piece is measured with: chosen on the command line, the same for all contenders."""

from dataclasses import dataclass

import torch

from inference.model.place import device_of, dtype_of, has_bfloat16
from scripts.bench.models import config_of, parameters, vocab

AUTO = "auto"
NONE, *_ = QUANTISE = "none", "int8", "int4"


@dataclass(frozen=True, slots=True)
class Terms:
    """model: a name in models.SHAPES or a folder. threads: of the processor, to compute with.
    seat: how our engine runs the model; AUTO: as it chooses by the clock, which is not the same each time.
    quantise: NONE, int8 or int4. peers: where other engines are installed. against, only: names of peers and
    of loads; none: all.
    """

    model: str
    dtype: str
    device: str
    threads: int
    batches: tuple[int, ...] = (8, 16)
    drafts: int = 8
    seat: str = AUTO
    profile: bool = False
    quantise: str = NONE
    peers: str = "peers"
    against: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    @property
    def vocab(self) -> int:
        return vocab(self.model)

    def prepare(self) -> None:
        """Make this process compute as these say."""
        torch.set_num_threads(self.threads)
        torch.manual_seed(0)


def dtype_for(model: str, asked: str, device: str) -> str:
    """The dtype the server would choose for "auto"; a shape counts as stored in bfloat16."""
    stored = str(config_of(model).dtype or "bfloat16").removeprefix("torch.")
    bfloat16 = has_bfloat16(device)
    return dtype_of(asked, device=device, stored=stored, parameters=parameters(model), bfloat16=bfloat16)


def device_for(asked: str) -> str:
    return device_of(asked)
