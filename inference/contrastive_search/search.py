"""Contrastive search: among the k most probable tokens, prefers one whose hidden state is unlike all before.

Su et al., "A Contrastive Framework for Neural Text Generation" (2022), equation 5. Runs the model with its
own cache; the runner's KV memory is neither read nor written. Knows nothing of sequences.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel

from inference.model.cache_layers import has_only_kv_cache
from inference.model.forward_pass.forward_signature import accepts
from inference.model.lora.adapted_model import with_adapter

ProcessLogits = Callable[[Tensor], Tensor]


def search(
    model: PreTrainedModel,
    ids: Sequence[int],
    encoder_ids: Sequence[int],
    *,
    k: int,
    alpha: float,
    process_logits: ProcessLogits,
    adapter_number: int = 0,
) -> Generator[int, None, None]:
    """Yield the token ids that continue `ids`, without end.

    ids             the prompt; for an encoder-decoder model the decoder's ids
    encoder_ids     the prompt of an encoder-decoder model; else empty
    k               number of candidates for each token
    alpha           weight of the dissimilarity, from 0 to 1
    process_logits  processes the logits (1, V) of the next token into float32; -inf excludes a token
    adapter_number  a loaded adapter; 0: none

    The model must pass supports_contrastive_search.
    """
    model_state = CachedModel(with_adapter(model, adapter_number), encoder_ids)
    logits, context_states = model_state.forward(torch.tensor([ids], device=model.device))  # (1, V), (n, d)
    while True:
        distribution = process_logits(logits)[0].softmax(-1)  # (V,)
        probs, candidates = distribution.topk(min(k, distribution.shape[0]))
        model_state.repeat(len(candidates))
        next_logits, states = model_state.forward(candidates[:, None])  # (k, V), (k, d)
        best = int(contrastive_scores(probs, states @ context_states.T, alpha).argmax())  # sync
        model_state.select(best)
        logits = next_logits[best : best + 1]
        context_states = torch.cat([context_states, states[best : best + 1]])
        yield int(candidates[best])


def contrastive_scores(probs: Tensor, similarities: Tensor, alpha: float) -> Tensor:
    """Equation 5: scores (k,) from probabilities (k,) and cosine similarities to n earlier tokens (k, n)."""
    weighed = (1 - alpha) * probs - alpha * similarities.amax(-1)
    return weighed.masked_fill(probs == 0, float("-inf"))


class CachedModel:
    """A model with a cache: one row, or one row per candidate after `repeat`."""

    def __init__(self, model: Any, encoder_ids: Sequence[int]) -> None:
        self.model = model
        self.is_encoder_decoder = bool(model.config.is_encoder_decoder)
        self.cache = empty_cache(model)
        self.settings: dict[str, Any] = {"use_cache": True, "output_hidden_states": True}
        if accepts(model, "logits_to_keep"):
            self.settings["logits_to_keep"] = 1
        self.encoder_outputs = self.encode(encoder_ids) if self.is_encoder_decoder else None

    @torch.inference_mode()
    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Append tokens (R, q): returns the last logits (R, V) and normalized hidden states (R·q, d)."""
        inputs = self.model_inputs(ids) | self.settings
        output = self.model(**inputs, past_key_values=self.cache)
        states = output.decoder_hidden_states if self.is_encoder_decoder else output.hidden_states
        return output.logits[:, -1], normalize(states[-1].flatten(0, 1).float(), dim=-1)

    def repeat(self, count: int) -> None:
        self.cache.batch_repeat_interleave(count)

    def select(self, index: int) -> None:
        """Keep only this candidate's row of the cache."""
        self.cache.batch_select_indices(torch.tensor([index]))  # CPU indices work for every device

    def model_inputs(self, ids: Tensor) -> dict[str, Any]:
        if self.encoder_outputs is None:
            return {"input_ids": ids}
        states = self.encoder_outputs.last_hidden_state.expand(ids.shape[0], -1, -1)
        return {
            "decoder_input_ids": ids,
            "encoder_outputs": type(self.encoder_outputs)(last_hidden_state=states),
        }

    @torch.inference_mode()
    def encode(self, encoder_ids: Sequence[int]) -> Any:
        return self.model.get_encoder()(input_ids=torch.tensor([encoder_ids], device=self.model.device))


def supports_contrastive_search(model: PreTrainedModel) -> bool:
    """Whether the model's cache can be repeated for the candidates: recurrent states cannot."""
    return accepts(model, "past_key_values") and has_only_kv_cache(model.config)


def empty_cache(model: Any) -> Any:
    if model.config.is_encoder_decoder:
        return EncoderDecoderCache(DynamicCache(), DynamicCache())
    return DynamicCache(config=model.config)
