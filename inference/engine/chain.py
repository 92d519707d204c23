"""The names of full pages: each stands for all tokens up to its page's last.

Two sequences whose pages have the same name begin with the same tokens: a name is a digest, long enough that
nobody can make two texts meet in one.
"""

from array import array
from collections.abc import Sequence as Ids
from hashlib import blake2b
from itertools import takewhile

BYTES = 20


def lengthen(chain: list[bytes], tokens: Ids[int], size: int) -> None:
    """Name the pages of `size` tokens that are full and not yet in the chain."""
    for end in range((len(chain) + 1) * size, len(tokens) + 1, size):
        before = chain[-1] if chain else b""
        page = array("q", tokens[end - size : end]).tobytes()
        chain.append(blake2b(before + page, digest_size=BYTES).digest())


def shared(a: Ids[bytes], b: Ids[bytes]) -> int:
    """How many pages two chains share."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
