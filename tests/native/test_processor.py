"""CPU features."""

from pathlib import Path

from inference.native.cpu_levels import processor_features


def test_processor_features_are_read_from_the_kernels_list(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor : 0\nflags\t\t: fpu avx2 amx_bf16\n\nprocessor : 1\n")
    assert processor_features(path) == {"fpu", "avx2", "amx_bf16"}
