"""transformers' tensor processors, which say what a tensor of a GGUF file is, and those that it lacks."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any

import gguf

from inference.model.load.gguf import gpt_oss


def processors() -> Any:
    """transformers' module of tensor processors, completed.

    It is imported only for a GGUF file: that takes 0.3 s.
    """
    module = import_module("transformers.modeling_gguf_pytorch_utils")
    module.TENSOR_PROCESSORS.setdefault(gpt_oss.ARCHITECTURE, gpt_oss.GptOssProcessor)
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
