"""What passes over data cost, in tokens: that of a token in the linear products of the layers.

A token costs more in a long row, where it attends to more tokens, and more if its logits are computed. By how
much follows from the model's sizes: multiplications are counted. Knows sizes and lengths; no seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from checks.memory.activations import count_experts
from inference.model.load.layer_numbers import largest_number
from tuning.trainer.datum import Datum
from tuning.trainer.micro_batches import Layout, divide, make_layout, num_computed
from tuning.types import Hyperparameters

EXPERT_DIMENSIONS = 3  # of the stacked weights of a layer's experts
# Multiplications, relative to the width of attention, for two tokens of a row of which one attends to the
# other: two products in the forward pass, and five in the backward pass, which computes scores again.
FORWARD_PRODUCTS, BACKWARD_PRODUCTS = 2, 5
CAUSAL_SHARE = 0.5  # of these: a token attends to those before it


@dataclass(frozen=True, slots=True)
class PassCost:
    """layout: of the micro-batches.

    pair    cost of two tokens in one row
    target  cost of a token's logits
    """

    layout: Layout
    pair: float = 0.0
    target: float = 0.0

    def of(self, data: Sequence[Datum], group_size: int) -> float:
        """The cost of all passes over the data, padding included."""
        return sum(
            self._of_pass([data[index] for index in indices])
            for indices in divide(data, group_size, self.layout)
        )

    def _of_pass(self, rows: Sequence[Datum]) -> float:
        num_tokens = num_computed(rows, range(len(rows)), self.layout)
        num_rows = 1 if self.layout.packing else len(rows)
        num_pairs = num_tokens**2 / num_rows
        return num_tokens + self.pair * num_pairs + self.target * sum(map(count_targets, rows))


def make_pass_cost(causal: Any, hyperparameters: Hyperparameters, group_size: int) -> PassCost:
    """The costs of a job's passes over a model without adapters. group_size: as make_layout.

    A config of a model's own code may lack a size, which then costs nothing.
    """
    config = causal.config.get_text_config()
    names = "hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "head_dim"
    hidden_size, vocab_size, num_layers, num_heads, head_dim = (
        largest_number(config, name) for name in names
    )
    attention_size = num_heads * head_dim if head_dim else hidden_size * bool(num_heads)
    num_forward = 2 if hyperparameters.activation_checkpointing else 1
    num_backward = 2 if hyperparameters.is_full else 1
    pair_products = CAUSAL_SHARE * (FORWARD_PRODUCTS * num_forward + BACKWARD_PRODUCTS)
    token_products = max(1.0, count_multiplied(causal, config)) * (num_forward + num_backward)
    return PassCost(
        make_layout(hyperparameters, group_size),
        pair=pair_products * attention_size * num_layers / token_products,
        target=vocab_size * hidden_size * (1 + num_backward) / token_products,
    )


def count_multiplied(causal: Any, config: Any) -> float:
    """The weights of the layers that a token is multiplied with."""
    ends = {
        id(each.weight) for each in (causal.get_input_embeddings(), causal.get_output_embeddings()) if each
    }
    shapes = [weight.shape for weight in causal.parameters() if id(weight) not in ends and weight.dim() > 1]
    used_share = getattr(config, "num_experts_per_tok", 1) / max(1, count_experts(config))
    return sum(shape.numel() * (used_share if len(shape) == EXPERT_DIMENSIONS else 1) for shape in shapes)


def count_targets(datum: Datum) -> int:
    """The tokens whose logits are computed."""
    weights = np.asarray(datum.inputs["weights"]).reshape(len(datum), -1)
    return int(weights.any(axis=1).sum())
