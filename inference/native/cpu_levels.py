"""The CPU levels that the library can be built for, each with the instructions that it may use.

Knows which levels a processor supports; build.py compiles them.
"""

import platform
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

X86 = ("x86_64", "AMD64")


@dataclass(frozen=True, slots=True)
class Level:
    """A CPU level.

    loops  the suffix of its kernels: multiply_{loops}.c
    flags  compiler flags
    needs  required processor features, by their names in /proc/cpuinfo
    """

    name: str
    loops: str
    flags: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()


AVX2 = ("-mavx2", "-mfma", "-mf16c", "-mbmi2")
AVX_VNNI = (*AVX2, "-mavxvnni")
AVX512F = (*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl")
AVX512_VNNI = (*AVX512F, "-mavx512vnni")
AVX512 = (*AVX512_VNNI, "-mavx512bf16")
WIDE = "-mprefer-vector-width=512"
AMX = ("-mamx-tile", "-mamx-bf16", "-mamx-int8")

HAS_AVX2 = frozenset({"avx2", "fma", "f16c", "bmi2"})
HAS_AVX512F = HAS_AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
HAS_AVX512_VNNI = HAS_AVX512F | {"avx512_vnni"}
HAS_AVX512 = HAS_AVX512_VNNI | {"avx512_bf16"}
BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # any of them
HAS_AMX = HAS_AVX512 | {"amx_tile", "amx_bf16", "amx_int8"}

PLAIN = Level("plain", "plain")
# Fastest first.
LEVELS = (
    Level("amx", "amx", (*AVX512, *AMX, WIDE), HAS_AMX),
    Level("avx512", "avx512", (*AVX512, WIDE), HAS_AVX512),
    Level("avx512vnni", "avx512", (*AVX512_VNNI, WIDE), HAS_AVX512_VNNI),
    Level("avx512f", "avx512", (*AVX512F, WIDE), HAS_AVX512F),
    Level("avxvnni", "avx2", AVX_VNNI, HAS_AVX2 | {"avx_vnni"}),
    Level("avx2", "avx2", AVX2, HAS_AVX2),
    PLAIN,
)
# The AMX kernels with emulated tiles, for tests on processors without AMX; -O1 halves the time to compile.
# Used only if requested by name.
EMULATED = Level("emulated", "amx", (*AVX512, WIDE, "-DTILES_EMULATED", "-O1"), HAS_AVX512)


def levels_for(features: Set[str], machine: str | None = None) -> list[Level]:
    """The levels that a processor with these features can run, fastest first; always includes PLAIN."""
    if (machine or platform.machine()) not in X86:
        return [PLAIN]
    return [level for level in LEVELS if level.needs <= features]


def processor_features(path: Path = Path("/proc/cpuinfo")) -> set[str]:
    """The processor's features, by their names in /proc/cpuinfo; empty if the file does not exist."""
    if not path.exists():
        return set()
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return next(
        (set(value.split()) for key, _, value in lines if key.strip() in ("flags", "Features")), set()
    )


def multiplies_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 natively."""
    return bool(processor_features() & BFLOAT16)
