"""The CPU levels that the library can be built for, each with the instructions that it may use.

Knows which levels a processor supports; build.py compiles them.
"""

import platform
import subprocess
from collections.abc import Collection, Set
from dataclasses import dataclass
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Level:
    """A CPU level.

    loops  the suffix of its kernels: multiply_{loops}.c
    flags  compiler flags
    needs  required processor features, by Linux's names in /proc/cpuinfo
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
NEON = ("-march=armv8-a",)
NEON_DOT = ("-march=armv8.2-a+dotprod",)
NEON_BFLOAT16 = ("-march=armv8.2-a+dotprod+i8mm+bf16",)

HAS_AVX2 = frozenset({"avx2", "fma", "f16c", "bmi2"})
HAS_AVX512F = HAS_AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
HAS_AVX512_VNNI = HAS_AVX512F | {"avx512_vnni"}
HAS_AVX512 = HAS_AVX512_VNNI | {"avx512_bf16"}
# By Apple's names (developer.apple.com: Determining instruction set characteristics).
MACOS_FEATURES = {
    "hw.optional.AdvSIMD": "asimd",
    "hw.optional.arm.FEAT_DotProd": "asimddp",
    "hw.optional.arm.FEAT_I8MM": "i8mm",
    "hw.optional.arm.FEAT_BF16": "bf16",
}
BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # any of them
HAS_AMX = HAS_AVX512 | {"amx_tile", "amx_bf16", "amx_int8"}

HAS_NEON = frozenset({"asimd"})
HAS_NEON_DOT = HAS_NEON | {"asimddp"}
HAS_NEON_BFLOAT16 = HAS_NEON_DOT | {"i8mm", "bf16"}

PLAIN = Level("plain", "plain")
# Fastest first.
X86_LEVELS = (
    Level("amx", "amx", (*AVX512, *AMX, WIDE), HAS_AMX),
    Level("avx512", "avx512", (*AVX512, WIDE), HAS_AVX512),
    Level("avx512vnni", "avx512", (*AVX512_VNNI, WIDE), HAS_AVX512_VNNI),
    Level("avx512f", "avx512", (*AVX512F, WIDE), HAS_AVX512F),
    Level("avxvnni", "avx2", AVX_VNNI, HAS_AVX2 | {"avx_vnni"}),
    Level("avx2", "avx2", AVX2, HAS_AVX2),
)
ARM_LEVELS = (
    Level("neonbf16", "neon", NEON_BFLOAT16, HAS_NEON_BFLOAT16),  # Graviton 3, Grace, Apple M2
    Level("neondot", "neon", NEON_DOT, HAS_NEON_DOT),  # Graviton 2, Ampere Altra, Apple M1, Raspberry Pi 5
    Level("neon", "neon", NEON, HAS_NEON),
)
LEVELS = (*X86_LEVELS, *ARM_LEVELS, PLAIN)
LEVELS_OF = {"x86_64": X86_LEVELS, "AMD64": X86_LEVELS, "aarch64": ARM_LEVELS, "arm64": ARM_LEVELS}
# The AMX kernels with emulated tiles, for tests on processors without AMX; -O1 halves the time to compile.
# Used only if requested by name.
EMULATED = Level("emulated", "amx", (*AVX512, WIDE, "-DTILES_EMULATED", "-O1"), HAS_AVX512)


def levels_for(features: Set[str], machine: str | None = None) -> list[Level]:
    """The levels that a processor with these features can run, fastest first; always includes PLAIN."""
    levels = LEVELS_OF.get(machine or platform.machine(), ())
    return [level for level in (*levels, PLAIN) if level.needs <= features]


def processor_features(path: Path = CPUINFO) -> set[str]:
    """The processor's features, by Linux's names in /proc/cpuinfo; empty where nothing tells them."""
    return set(first_value(path, ("flags", "Features")).split()) or macos_features()


def processor_name(path: Path = CPUINFO) -> str:
    """The processor's model name from the kernel, or else its architecture."""
    return first_value(path, ("model name",)) or platform.processor() or platform.machine()


def first_value(path: Path, keys: Collection[str]) -> str:
    """The value of the first line with one of these keys; empty if there is none."""
    if not path.exists():
        return ""
    with path.open(encoding="utf-8") as lines:
        pairs = (line.partition(":") for line in lines)
        return next((value.strip() for key, _, value in pairs if key.strip() in keys), "")


def macos_features() -> set[str]:
    """The features of an Apple processor, by Linux's names; empty on another system."""
    if platform.system() != "Darwin":
        return set()
    printed = subprocess.run(("sysctl", "hw.optional"), capture_output=True, text=True, timeout=10).stdout
    return {name for key, name in MACOS_FEATURES.items() if f"{key}: 1" in printed.splitlines()}


def multiplies_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 natively."""
    return bool(processor_features() & BFLOAT16)
