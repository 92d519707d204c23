"""A seed generates the same values in every process. hypothesis would mix in constants from the modules that
a process happens to have loaded, for which it parses all of them.
"""

from hypothesis.internal.conjecture import providers


def ignore_modules() -> None:
    providers._get_local_constants = providers.Constants
