"""Sampling: its routes, its requests and their results."""
