"""The selftest of a loaded model: the same prompts must get the same answers in every scenario.

Exports selftest(loaded_engine), which returns findings. Starts no thread and opens no port.
"""

from selftest.run import selftest

__all__ = ["selftest"]
