"""The levels of processors that the library is built for, each with the instructions it may use.

A table and who fits it; how a level is compiled is build's affair.
"""

import platform
from collections.abc import Set
from dataclasses import dataclass

X86 = ("x86_64", "AMD64")


@dataclass(frozen=True, slots=True)
class Level:
    """needs: features, as the kernel names them. loops: of its multiply_*.c."""

    name: str
    loops: str
    flags: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()


AVX2 = ("-mavx2", "-mfma", "-mf16c", "-mbmi2")
AVX512 = (*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mavx512bf16")
WIDE = "-mprefer-vector-width=512"
AMX = ("-mamx-tile", "-mamx-bf16", "-mamx-int8")

HAS_AVX2 = frozenset({"avx2", "fma", "f16c", "bmi2"})
HAS_AVX512 = HAS_AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16"}
HAS_AMX = HAS_AVX512 | {"amx_tile", "amx_bf16", "amx_int8"}

PLAIN = Level("plain", "plain")
# The fastest first.
LEVELS = (
    Level("amx", "amx", (*AVX512, *AMX, WIDE), HAS_AMX),
    Level("avx512", "avx512", (*AVX512, WIDE), HAS_AVX512),
    Level("avx2", "avx2", AVX2, HAS_AVX2),
    PLAIN,
)
# The loops of amx on a processor without it, to test them: chosen by its name alone.
EMULATED = Level("emulated", "amx", (*AVX512, WIDE, "-DTILES_EMULATED"), HAS_AVX512)


def levels_for(features: Set[str], machine: str | None = None) -> list[Level]:
    """The levels that a processor of this kind can run, the fastest first; plain always."""
    if (machine or platform.machine()) not in X86:
        return [PLAIN]
    return [level for level in LEVELS if level.needs <= features]
