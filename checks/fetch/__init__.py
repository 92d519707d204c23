"""Fetch a model from the Hub, whatever happens on the way: one door, fetch(source, hub)."""

from checks.fetch.fetch import fetch

__all__ = ["fetch"]
