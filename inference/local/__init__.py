"""The Backend of a local model: turns prompts into token ids, and the engine's outputs into events.

The only link between the API and the engine. Knows the engine and a tokenizer; knows no HTTP and no torch.
"""

from inference.local.backend import LocalBackend
from inference.local.backend_model import BackendModel

__all__ = ["BackendModel", "LocalBackend"]
