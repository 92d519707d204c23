"""Downloads a model from the Hub; the entry point is fetch(repository, hub)."""

from hub.download.fetch import fetch

__all__ = ["fetch"]
