"""A row at the end of the context, computed by native code and by the packed seat: what depends on how far a
token stands does not show in the few tokens of a trial.

Knows runners and lines; what is read of a model is reader.py's.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch
from inference.model.fused.lists import listed
from inference.model.fused.reading import Reading
from inference.model.fused.runner import FusedRunner
from inference.model.packed.line import lined
from inference.model.packed.runner import SIZE, PackedRunner


@torch.inference_mode()
def far_error(model: PreTrainedModel, reading: Reading, ids: Sequence[int], context: int) -> float:
    """The largest difference of a logit, in standard deviations of the logits."""
    count = min(SIZE, context)
    positions = range(context - count, context)
    tokens = Batch(ids[:count], (0, count), (0,), (0,), range(count), tables=((0,),))
    packed = PackedRunner(model, max_rows=1, context=SIZE, area=SIZE)
    with packed.attention.serving():
        line = replace(lined(tokens, SIZE, model.device), positions=torch.tensor([positions]))
        truth = packed.compute(line).float()
    fused = FusedRunner(model, reading, max_rows=1, context=SIZE, area=SIZE)
    made = fused.run(listed(tokens, SIZE)._replace(positions=list(positions))).float()
    return ((made - truth).abs().max() / truth.std()).item()
