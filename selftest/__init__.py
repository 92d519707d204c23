"""The proof for the model that is served: the same prompts in every way that an engine computes them.

One door: selftest. Knows what was opened, and tells its findings; starts no thread and opens no port.
"""

from selftest.proof import selftest

__all__ = ["selftest"]
