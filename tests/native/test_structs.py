"""The ctypes structs have the sizes and offsets that the C compiler gives."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from inference.native import structs
from inference.native.build import C_SOURCES, NativeUnavailable, compiler_of

STRUCTS = (
    structs.Matrix,
    structs.Inputs,
    structs.Layer,
    structs.Model,
    structs.Delta,
    structs.LayerDeltas,
    structs.AdapterSpan,
    structs.Step,
    structs.Logits,
    structs.CutoffParams,
)
HEADERS = ("packing/matrix.h", "gemm/multiply.h", "step/step.h", "sampling/cutoffs.h")


def in_python() -> list[str]:
    lines = []
    for struct in STRUCTS:
        name = struct.__name__
        lines.append(f"{name} {ctypes.sizeof(struct)}")
        lines += [f"{name}.{field[0]} {getattr(struct, field[0]).offset}" for field in struct._fields_]
    enums = (structs.NativeDtype, structs.Activation)
    return lines + [f"{member.name} {member.value}" for enum in enums for member in enum]


def in_c(folder: Path) -> list[str]:
    prints = []
    for line in in_python():
        name = line.split()[0]
        struct, _, field = name.partition(".")
        size = f"offsetof({struct}, {field})" if field else name if name.isupper() else f"sizeof({name})"
        prints.append(f'printf("{name} %d\\n", (int){size});')
    source = folder / "sizes.c"
    includes = "\n".join(f"#include <{header}>" for header in ("stdio.h", *HEADERS))
    source.write_text(f"{includes}\nint main(void) {{\n" + "\n".join(prints) + "\n}\n")
    program = folder / "sizes"
    subprocess.run((*compiler_of(), f"-I{C_SOURCES}", source, "-o", program), check=True)
    return subprocess.run((program,), check=True, capture_output=True, text=True).stdout.splitlines()


def test_c_and_python_agree_on_every_field(tmp_path: Path) -> None:
    try:
        compiler_of()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))
    assert in_c(tmp_path) == in_python()
