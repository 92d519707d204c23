"""What transformers' loader asks of a tensor processor, which says what a tensor of a GGUF file is."""

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class ProcessedTensor(NamedTuple):
    """A tensor for transformers' loader. name: None if it was placed."""

    weights: Array
    name: str | None
    metadata: dict[str, Any]


class PlainProcessor:
    """Takes every tensor as it is, and none whose name gguf-py's table lacks.

    config: fields of the model's config
    """

    def __init__(self, config: Any = None) -> None:
        self.config = config or {}

    def preprocess_name(self, hf_name: str) -> str:
        return hf_name

    def perform_fallback_tensor_mapping(
        self, gguf_to_hf_name_map: dict[str, str], suffix: str, qual_name: str, hf_name: str
    ) -> None:
        """Add the tensor of a parameter that gguf-py's table does not name."""

    def process(self, weights: Array, name: str, **options: Any) -> ProcessedTensor:
        return ProcessedTensor(weights, name, {})
