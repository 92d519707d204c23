"""Tests with generated values take the same ones in every run and process, on a machine of any speed.

hypothesis alone would draw others in each run, and fail a test that takes long:
`pytest --hypothesis-profile default` does.
"""

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

NAME = "same everywhere"


def load() -> None:
    settings.register_profile(
        NAME, derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile(NAME)
    # Constants from the modules that a process happens to have loaded, for which all of them would be parsed.
    providers._get_local_constants = providers.Constants
