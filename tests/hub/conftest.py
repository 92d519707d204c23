"""Fixtures of the tests of hub."""

from tests.checks.preflight_fixtures import client, fake, look_up, machine, planned, tiny_repo

__all__ = ["client", "fake", "look_up", "machine", "planned", "tiny_repo"]
