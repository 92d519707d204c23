"""A row at the end of the context, computed by native code and by the packed seat: what depends on how far a
token stands does not show in the few tokens of a trial.

Knows runners and lines; what is read of a model is reader.py's.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch
from inference.model.fused.reading import Reading
from inference.model.fused.runner import FusedRunner
from inference.model.packed.line import lined
from inference.model.packed.runner import SIZE, PackedRunner


@torch.inference_mode()
def far_error(model: PreTrainedModel, reading: Reading, ids: Sequence[int], context: int) -> float:
    """The largest difference of a logit, in standard deviations of the logits."""
    ids = ids[:SIZE]
    tokens = Batch(ids, (0, len(ids)), (0,), (0,), range(len(ids)), tables=((0,),))
    line = lined(tokens, SIZE, model.device)
    line = replace(line, positions=line.positions + max(0, context - len(ids)))
    plain = PackedRunner(model, max_rows=1, context=SIZE, area=SIZE)
    with plain.attention.serving():
        truth = plain.compute(line).float()
    made = FusedRunner(model, reading, max_rows=1, context=SIZE, area=SIZE).compute(line).float()
    return ((made - truth).abs().max() / truth.std()).item()
