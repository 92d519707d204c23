"""The ISA levels that a processor can run."""

from inference.native.cpu_levels import (
    HAS_AMX,
    HAS_AVX2,
    HAS_AVX512,
    HAS_AVX512_VNNI,
    HAS_AVX512F,
    HAS_NEON,
    HAS_NEON_BFLOAT16,
    HAS_NEON_DOT,
    levels_for,
)


def names(features: frozenset[str], machine: str) -> list[str]:
    return [level.name for level in levels_for(features, machine)]


def test_the_fastest_level_comes_first_and_plain_is_always_included() -> None:
    assert names(HAS_AMX, "x86_64") == ["amx", "avx512", "avx512vnni", "avx512f", "avx2", "plain"]
    assert names(HAS_AVX512, "x86_64") == ["avx512", "avx512vnni", "avx512f", "avx2", "plain"]
    assert names(HAS_AVX512_VNNI, "x86_64") == ["avx512vnni", "avx512f", "avx2", "plain"]
    assert names(HAS_AVX512F, "x86_64") == ["avx512f", "avx2", "plain"]
    assert names(HAS_AVX2 | {"avx_vnni"}, "x86_64") == ["avxvnni", "avx2", "plain"]
    assert names(HAS_AVX2, "x86_64") == ["avx2", "plain"]
    assert names(frozenset(), "x86_64") == ["plain"]


def test_a_level_is_left_out_for_one_missing_feature() -> None:
    assert names(HAS_AVX512 - {"avx512bw"}, "x86_64") == ["avx2", "plain"]


def test_arm_processors_have_levels_of_their_own() -> None:
    assert names(HAS_NEON_BFLOAT16, "aarch64") == ["neonbf16", "neondot", "neon", "plain"]
    assert names(HAS_NEON_DOT, "arm64") == ["neondot", "neon", "plain"]
    assert names(HAS_NEON, "aarch64") == ["neon", "plain"]
    assert names(HAS_AMX, "aarch64") == ["plain"]


def test_another_architecture_has_only_plain() -> None:
    assert names(HAS_AMX, "riscv64") == ["plain"]
