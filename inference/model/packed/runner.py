"""The packed seat: transformers' graph over one line of tokens, prompts and answers mixed, nothing padded.

For models whose attention goes through transformers' registry and whose tokens meet nowhere else. Knows a
model's inputs; not sequences nor how the next token is chosen.
"""

import torch
from transformers import PreTrainedModel

from inference.model import head
from inference.model.batch import Batch, Clear
from inference.model.inputs import takes
from inference.model.kept import keys_and_values_alone
from inference.model.packed.attention import PROBING, Attention, Kernel
from inference.model.packed.line import Line, computing, lined
from inference.model.packed.plain import plain
from inference.model.packed.pool import Pool
from inference.model.start import vocab
from inference.model.unfit import Unfit

SIZE = 16  # tokens of a page
PROBED = 4  # tokens


class PackedRunner:
    """A Runner (see batch.py) that keeps its memory in pages.

    Raises Unfit where the model cannot be driven so. Whether the logits are right is for fit.py to prove.
    """

    resumes = True
    encodes = False
    paged = True
    start_ids: tuple[int, ...] = ()

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        max_rows: int,
        context: int,
        area: int,
        size: int = SIZE,
        kernel: Kernel = plain,
        overlaps: bool = False,
    ) -> None:
        self.model, self.device, self.overlaps = model, model.device, overlaps
        pages = max(area // size, -(-context // size))
        self.max_rows, self.context = max_rows, context
        self.step, self.area = size, pages * size
        self.vocab = vocab(model)
        self.pool = Pool(pages, size)
        self.attention = Attention(model, self.pool, kernel)
        check(model)
        head.install(model)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, on its device, valid until the next call."""
        for move in batch.moves:
            assert isinstance(move, Clear), "pages are never moved"
            self.pool.clear(move.row)
        line = lined(batch, self.step, self.device)
        with self.attention.serving():
            return self.compute(line)

    def compute(self, line: Line) -> torch.Tensor:
        """The logits wanted of a line, (W, V); the model's attention is ours meanwhile."""
        with computing(line), head.picking(line):
            logits = self.model(input_ids=line.ids, position_ids=line.positions, use_cache=False).logits
        return head.chosen(logits, line)

    @torch.inference_mode()
    def probe(self) -> None:
        """Compute a few tokens in the first page: the pool is made, and each layer seen to be told what its
        mask would have said.

        Raises Unfit where it is not: a mask may hold more than a layer is told, such as chunks.
        """
        ids = range(PROBED)
        line = lined(
            Batch(ids, (0, PROBED), (0,), (0,), (PROBED - 1,), tables=((0,),)), self.step, self.device
        )
        with self.attention.serving(PROBING), computing(line):
            given = torch.ones_like(line.ids)
            self.model(input_ids=line.ids, position_ids=line.positions, attention_mask=given, use_cache=False)
        if not self.pool.modules:
            raise Unfit("attention does not go through transformers' registry")


def check(model: PreTrainedModel) -> None:
    """Raise Unfit for a model that remembers more than keys and values, or finds positions for itself."""
    if model.config.is_encoder_decoder:
        raise Unfit("reads its prompt with an encoder")
    if not keys_and_values_alone(model.config):
        raise Unfit("remembers more than keys and values")
    if not takes(model, "position_ids"):
        raise Unfit("takes no positions")
