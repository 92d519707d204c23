"""Compares our quantization error with llama.cpp's.

    python -m scripts.bench.quantization_error --model 0.5b --engines-folder DIR

All rows of the table have the same weights and the same random prompts. The dequantized weights, ours or
those of a GGUF file, replace the model's weights, and the logits are computed in float32: this is the error
of the weights alone. The engines also quantize or round activations; our rows "as served" include that.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch
import transformers
from torch import Tensor

from inference.model.quantization.error import QuantError, measure_quant_error
from inference.model.quantization.replace import replace_weights
from inference.native.packed_matrix import PackedMatrix, ensure_library
from scripts.bench.engines.llama_cpp import HOME, LLAMA_CPP
from scripts.bench.load import random_token_ids
from scripts.bench.models import SHAPES, build_model, vocab_size
from scripts.bench.options import INT4, INT8, BenchOptions
from scripts.bench.table import format_table

PROMPTS, LENGTH = 2, 64  # of tokens


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="0.5b", help=f"one of {', '.join(SHAPES)}, or a folder")
    parser.add_argument(
        "--engines-folder",
        default=os.environ.get("BENCH_ENGINES", "engines"),
        help="where llama.cpp is installed (default: %(default)s)",
    )
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    options = BenchOptions(
        args.model, "bfloat16", "cpu", torch.get_num_threads(), engines_folder=args.engines_folder
    )
    rows = [["weights", "rms error", "largest", "same choice", "divergence"]]
    for name, quant_error in measure_errors(options):
        print(f"{name}: {quant_error}", file=sys.stderr, flush=True)
        rows.append([name, *row_cells(quant_error)])
    print("\n".join(format_table(rows)))


def row_cells(quant_error: QuantError) -> list[str]:
    same_choice = f"{quant_error.same_argmax} of {quant_error.tokens}"
    return [
        f"{quant_error.rms:.4f}",
        f"{quant_error.max_error:.2f}",
        same_choice,
        f"{quant_error.divergence:.2e}",
    ]


def measure_errors(options: BenchOptions) -> Iterator[tuple[str, QuantError]]:
    random = Random(1)
    prompts = [random_token_ids(random, LENGTH, vocab_size(options.model)) for _ in range(PROMPTS)]
    ensure_library()
    reference = compute_logits(exact_model(options), prompts)
    yield (
        "bfloat16, computed in bfloat16",
        measure_quant_error(
            reference, compute_logits(build_model(options.model, "bfloat16", "cpu"), prompts)
        ),
    )
    for scheme in (INT8, INT4):
        yield (
            f"ours, {scheme}",
            measure_quant_error(reference, compute_logits(our_model(options, scheme), prompts)),
        )
        if LLAMA_CPP.is_installed(options):
            name = LLAMA_CPP.weight_formats[scheme]
            yield (
                f"llama.cpp, {name}",
                measure_quant_error(reference, compute_logits(llama_cpp_model(options, name), prompts)),
            )
        yield (
            f"ours, {scheme}, as served",
            measure_quant_error(reference, compute_logits(served_model(options, scheme), prompts)),
        )


def exact_model(options: BenchOptions) -> Any:
    """The model in float32, with the values of the bfloat16 weights."""
    return build_model(options.model, "bfloat16", "cpu").float()


def served_model(options: BenchOptions, scheme: str) -> Any:
    model = build_model(options.model, "bfloat16", "cpu")
    replace_weights(model, scheme, PackedMatrix.pack)
    return model


def our_model(options: BenchOptions, scheme: str) -> Any:
    quantized, model = served_model(options, scheme), exact_model(options)
    for name, weight in quantized.named_parameters():
        values = weight.values() if hasattr(weight, "values") and hasattr(weight, "matrix") else weight
        model.get_parameter(name).copy_(values)
    return model


def llama_cpp_model(options: BenchOptions, scheme: str) -> Any:
    """The model in float32, with the dequantized weights of its GGUF file."""
    sys.path.insert(0, str(Path(options.engines_folder, HOME, "gguf-py").resolve()))
    import gguf

    model = exact_model(options)
    reader = gguf.GGUFReader(LLAMA_CPP.prepare_model(options, scheme))
    arch = str(reader.get_field("general.architecture").contents())
    arch_id = next(id for id, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(arch_id, model.config.num_hidden_layers)
    stored = {tensor.name: tensor for tensor in reader.tensors}
    for name, weight in model.named_parameters():
        if tensor := stored.get(names.get_name(name, try_suffixes=(".weight", ".bias"))):
            values = torch.tensor(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
            weight.copy_(values.reshape(weight.shape))
    return model


@torch.inference_mode()
def compute_logits(model: Any, prompts: list[tuple[int, ...]]) -> list[Tensor]:
    """The logits (T, V) of each prompt."""
    return [model(input_ids=torch.tensor([ids])).logits[0] for ids in prompts]


if __name__ == "__main__":
    main()
