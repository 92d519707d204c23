"""A model on this machine as a Backend: text becomes ids, the engine's records become events.

The only bridge between the id floor and the API: knows the engine and a tokenizer, neither HTTP nor torch.
"""

from inference.local.backend import LocalBackend

__all__ = ["LocalBackend"]
