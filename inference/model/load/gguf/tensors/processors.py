"""transformers' tensor processors, which say what a tensor of a GGUF file is, and those that it lacks."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any

import gguf

from inference.model.load.gguf.tensors.added_processors import (
    LOADER,
    FalconProcessor,
    Gemma4Processor,
    LlamaProcessor,
    Phi2Processor,
    Qwen2MoeProcessor,
    StablelmProcessor,
)
from inference.model.load.gguf.tensors.gpt_oss import GptOssProcessor

PROCESSORS: dict[str, Any] = {
    "falcon": FalconProcessor,
    "gemma4": Gemma4Processor,
    "gpt-oss": GptOssProcessor,
    "llama": LlamaProcessor,
    "phi2": Phi2Processor,
    "qwen2moe": Qwen2MoeProcessor,
    "stablelm": StablelmProcessor,
}
# Model types whose tensors have the names of another architecture.
ARCHITECTURES: Mapping[str, str] = {"mixtral": "llama", "falcon_mamba": "mamba", "phi": "phi2"}


@cache
def processors() -> Any:
    """transformers' module of tensor processors, completed. It is imported only for a GGUF file."""
    module: Any = import_module(LOADER)
    module.TENSOR_PROCESSORS.update(PROCESSORS | {"gemma": module.Gemma2TensorProcessor})
    map_names_of_type = module.get_gguf_hf_weights_map

    def map_names_of_model(
        model: Any, processor: Any, model_type: str | None = None, *rest: Any, **more: Any
    ) -> Any:
        architecture = model_type or ARCHITECTURES.get(model.config.model_type)
        return map_names_of_type(model, processor, architecture, *rest, **more)

    module.get_gguf_hf_weights_map = map_names_of_model
    return module


def has_processor(architecture: str) -> bool:
    """Whether transformers maps the tensors; it lists some architectures only by their own name."""
    module = processors()
    return architecture in module.GGUF_SUPPORTED_ARCHITECTURES or architecture in module.TENSOR_PROCESSORS


def map_names(architecture: str, skeleton: Any, config: Any) -> tuple[Any, dict[str, str]]:
    """transformers' processor for an architecture, and the parameters' names by those of tensors."""
    module = processors()
    processor = module.TENSOR_PROCESSORS.get(architecture, module.TensorProcessor)(config=config.to_dict())
    with cached_name_map():
        return processor, module.get_gguf_hf_weights_map(skeleton, processor)


def map_known_names(architecture: str, skeleton: Any) -> tuple[Any, dict[str, str]]:
    """As map_names; no names of a model whose tensors transformers does not name."""
    if has_processor(architecture):
        with suppress(NotImplementedError):  # of transformers, for a model that gguf-py does not know
            return map_names(architecture, skeleton, skeleton.config)
    return None, {}


@contextmanager
def cached_name_map() -> Iterator[None]:
    """Within the context gguf-py makes its table of names once: transformers asks for it at each module."""
    create = gguf.get_tensor_name_map
    gguf.get_tensor_name_map = cache(create)
    try:
        yield
    finally:
        gguf.get_tensor_name_map = create
