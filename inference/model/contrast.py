"""Contrastive search: of the k most probable tokens, one that is unlike all that came before.

Su et al., "A Contrastive Framework for Neural Text Generation" (2022), equation 5. Knows a model and a memory
of its own, outside of any call: the rows' is neither read nor written. Nothing of sequences.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel

from inference.model.inputs import accepts
from inference.model.kept import keys_and_values_alone

Edit = Callable[[Tensor], Tensor]


def search(
    model: PreTrainedModel, ids: Sequence[int], source: Sequence[int], *, k: int, alpha: float, edit: Edit
) -> Iterator[int]:
    """The ids that follow ids (a decoder's, where the source is its encoder's), one a step, without end.

    alpha weighs unlikeness against probability. `edit` is shown the logits (1, V) of each next token and
    returns those to choose by, float32; a token with -inf is never chosen. For models that `repeats`.
    """
    reader = Reader(model, source)
    logits, seen = reader.read(torch.tensor([ids], device=model.device))  # (1, V), (n, d)
    while True:
        likely = edit(logits)[0].softmax(-1)  # (V,)
        probs, candidates = likely.topk(min(k, likely.shape[0]))
        reader.spread(len(candidates))
        after, states = reader.read(candidates[:, None])  # (k, V), (k, d)
        chosen = int(scores(probs, states @ seen.T, alpha).argmax())  # sync
        reader.keep(chosen)
        logits, seen = after[chosen : chosen + 1], torch.cat([seen, states[chosen : chosen + 1]])
        yield int(candidates[chosen])


def scores(probs: Tensor, likeness: Tensor, alpha: float) -> Tensor:
    """Equation 5 for candidates of probabilities (k,), with their likeness to each earlier token (k, n)."""
    weighed = (1 - alpha) * probs - alpha * likeness.amax(-1)
    return weighed.masked_fill(probs == 0, float("-inf"))


class Reader:
    """Reads tokens behind those it has read: of one text, or, once spread, of a candidate each."""

    def __init__(self, model: PreTrainedModel, source: Sequence[int]) -> None:
        self.model = model
        self.encodes = bool(model.config.is_encoder_decoder)
        self.cache = cache_of(model)
        self.settings: dict[str, Any] = {"use_cache": True, "output_hidden_states": True}
        if accepts(model, "logits_to_keep"):
            self.settings["logits_to_keep"] = 1
        self.encoded = self.encode(source) if self.encodes else None

    @torch.inference_mode()
    def read(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Of tokens (R, q): logits behind the last (R, V), and the directions of hidden states (R q, d)."""
        inputs = self.inputs(ids) | self.settings
        output = self.model(**inputs, past_key_values=self.cache)
        states = output.decoder_hidden_states if self.encodes else output.hidden_states
        return output.logits[:, -1], normalize(states[-1].flatten(0, 1).float(), dim=-1)

    def spread(self, count: int) -> None:
        self.cache.batch_repeat_interleave(count)

    def keep(self, chosen: int) -> None:
        """Of the candidates read, go on with this one."""
        self.cache.batch_select_indices(torch.tensor([chosen]))  # indices of the CPU go for every device

    def inputs(self, ids: Tensor) -> dict[str, Any]:
        if self.encoded is None:
            return {"input_ids": ids}
        states = self.encoded.last_hidden_state.expand(ids.shape[0], -1, -1)
        return {"decoder_input_ids": ids, "encoder_outputs": type(self.encoded)(last_hidden_state=states)}

    @torch.inference_mode()
    def encode(self, source: Sequence[int]) -> Any:
        return self.model.get_encoder()(input_ids=torch.tensor([source], device=self.model.device))


def repeats(model: PreTrainedModel) -> bool:
    """Whether the model's memory can be repeated for candidates: that of a recurrent one cannot."""
    return accepts(model, "past_key_values") and keys_and_values_alone(model.config)


def cache_of(model: PreTrainedModel) -> Any:
    """An empty memory for the model."""
    if model.config.is_encoder_decoder:
        return EncoderDecoderCache(DynamicCache(), DynamicCache())
    return DynamicCache(config=model.config)
