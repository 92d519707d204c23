"""transformers' tensor processors, which say what a tensor of a GGUF file is, and those that it lacks."""

from importlib import import_module
from typing import Any

from inference.model.load.gguf import gpt_oss


def processors() -> Any:
    """transformers' module of tensor processors, completed.

    It is imported only for a GGUF file: that takes 0.3 s.
    """
    module = import_module("transformers.modeling_gguf_pytorch_utils")
    module.TENSOR_PROCESSORS.setdefault(gpt_oss.ARCHITECTURE, gpt_oss.GptOssProcessor)
    return module
