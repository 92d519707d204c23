"""The slots seat for encoder-decoder models: the prompt is the encoder's, the rows hold decoder tokens.

A row that begins has its source encoded alone; what the decoder keeps of it stays with the row. Knows the
sources' lengths; everything else is slots.py's.
"""

from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import Cache, EncoderDecoderCache, PreTrainedModel

from inference.model.batch import Batch, Clear, Copy, Move, Shape, Swap
from inference.model.slots.call import Call
from inference.model.slots.layers import Sources
from inference.model.slots.runner import SlotRunner
from inference.model.start import start_ids


class SourceRunner(SlotRunner):
    """A Runner (see batch.py) with `encodes`: Batch.sources has the encoder input of each row that begins.

    The context limits the decoder's tokens. Rows that begin are computed apart from those that go on.
    """

    encodes = True
    positions_name = "decoder_position_ids"

    def __init__(self, model: PreTrainedModel, **settings: Any) -> None:
        super().__init__(model, **settings)
        self.start_ids = start_ids(model)
        self.read = [Sources(self.memory) for _ in self.cache.layers]
        self.both = EncoderDecoderCache(self.cache, Cache(layers=list(self.read)))
        self.lengths: list[int] = []
        self.encoded: dict[int, torch.Tensor] = {}

    def forward(self, batch: Batch) -> torch.Tensor:
        for move in batch.moves:
            self.lengths = moved(self.lengths, move)
        self.encode(batch)
        return super().forward(batch)

    @torch.inference_mode()
    def encode(self, batch: Batch) -> None:
        """Encode each source of the batch alone, as (K, d)."""
        encoder = self.model.get_encoder()
        for row, ids in batch.sources.items():
            source = torch.tensor([ids], device=self.device)
            output = encoder(input_ids=source)
            self.encoded[row], self.kind = output.last_hidden_state[0], type(output)
            self.lengths[row] = len(ids)

    def inputs(self, call: Call) -> dict[str, Any]:
        rows = range(call.first, call.first + call.num_rows)
        lengths = [self.lengths[row] for row in rows]
        widest = max(lengths)
        for layer in self.read:
            layer.show(call, widest)
        self.both.is_updated = dict.fromkeys(range(len(self.read)), not call.fresh)
        seen = torch.arange(widest)[None] < torch.tensor(lengths)[:, None]
        return {
            "decoder_input_ids": call.ids,
            "encoder_outputs": self.kind(last_hidden_state=self.outputs(call, widest)),
            "attention_mask": seen.long().to(self.device) if min(lengths) < widest else None,
            "past_key_values": self.both,
        }

    def outputs(self, call: Call, widest: int) -> torch.Tensor:
        """What the encoder made of the sources of rows that begin, (R, K, d); else only the shape is read."""
        if call.fresh:
            rows = range(call.first, call.first + call.num_rows)
            outputs = pad_sequence([self.encoded.pop(row) for row in rows], batch_first=True)
            self.blank = outputs.new_zeros(1, 1, outputs.shape[2])
            return outputs
        return self.blank.expand(call.num_rows, widest, -1)


def moved(lengths: list[int], move: Move) -> list[int]:
    lengths = list(lengths)
    if isinstance(move, Shape):
        return (lengths + [0] * move.rows)[: move.rows]
    if isinstance(move, Swap):
        lengths[move.a], lengths[move.b] = lengths[move.b], lengths[move.a]
    elif isinstance(move, Copy):
        lengths[move.target] = lengths[move.source]
    elif isinstance(move, Clear):
        lengths[move.row] = 0
    return lengths
