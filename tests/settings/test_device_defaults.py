"""Settings whose default depends on the device: 0 is replaced, a value that somebody set is not."""

import pytest

from settings.device_defaults import DEFAULTS, fill_defaults
from settings.schema import Settings
from tests.settings.conftest import CONFIG, Resolved


@pytest.mark.parametrize("device", DEFAULTS)
def test_a_setting_that_is_0_gets_the_default_of_the_device(device: str, resolved: Resolved) -> None:
    settings = fill_defaults(resolved(), device)
    assert {name: getattr(settings, name) for name in DEFAULTS[device]} == DEFAULTS[device]


def test_a_set_value_stays(resolved: Resolved) -> None:
    settings = fill_defaults(resolved(MAX_SEQUENCES="3"), "cuda")
    assert settings.max_sequences == 3 and settings.max_batch_tokens == 2048


def test_each_of_these_settings_is_0_in_config_py() -> None:
    names = {name for defaults in DEFAULTS.values() for name in defaults}
    assert all(CONFIG.values[name.upper()] == 0 for name in names)
    assert all(defaults.keys() == names for defaults in DEFAULTS.values())
    assert names <= set(Settings.__annotations__)
