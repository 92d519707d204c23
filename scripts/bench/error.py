"""What fewer bits cost, ours beside llama.cpp's: python -m scripts.bench.error --model 0.5b --peers FOLDER

All of one set of random weights, over the same random tokens, teacher-forced, in float32 but for the last
lines: the weights that a GGUF file says are put in the model's place, and those that our matrices compute
with; so this is the error of the weights alone. Peers round what is multiplied besides, which is not in their
figures; "as served" has ours.
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

from inference.model.weights.loss import Loss, loss
from inference.model.weights.swap import swap
from inference.native.matrix import Matrix, ready
from scripts.bench.load import words
from scripts.bench.models import SHAPES, build, vocab
from scripts.bench.peers.llama_cpp import HOME, LLAMA_CPP
from scripts.bench.peers.peer import INT4, INT8
from scripts.bench.table import table
from scripts.bench.terms import Terms

PROMPTS, LENGTH = 2, 64  # of tokens


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="0.5b", help=f"one of {', '.join(SHAPES)}, or a folder")
    parser.add_argument("--peers", default=os.environ.get("PEERS", "peers"), help="where llama.cpp is")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    terms = Terms(options.model, "bfloat16", "cpu", torch.get_num_threads(), peers=options.peers)
    rows = [["weights", "error sd", "largest", "same choice", "divergence"]]
    for name, lost in losses(terms):
        print(f"{name}: {lost}", file=sys.stderr, flush=True)
        rows.append([name, *told(lost)])
    print("\n".join(table(rows)))


def told(lost: Loss) -> list[str]:
    same = f"{lost.same} of {lost.tokens}"
    return [f"{lost.typical:.4f}", f"{lost.largest:.2f}", same, f"{lost.divergence:.2e}"]


def losses(terms: Terms) -> Iterator[tuple[str, Loss]]:
    random = Random(1)
    prompts = [words(random, LENGTH, vocab(terms.model)) for _ in range(PROMPTS)]
    ready()
    truths = logits(exact(terms), prompts)
    yield "bfloat16, computed in it", loss(truths, logits(build(terms.model, "bfloat16", "cpu"), prompts))
    for form in (INT8, INT4):
        yield f"ours, {form}", loss(truths, logits(ours(terms, form), prompts))
        if LLAMA_CPP.installed(terms):
            name = LLAMA_CPP.forms[form]
            yield f"llama.cpp, {name}", loss(truths, logits(theirs(terms, name), prompts))
        yield f"ours, {form}, as served", loss(truths, logits(served(terms, form), prompts))


def exact(terms: Terms) -> Any:
    """The model in float32, with the values that its bfloat16 weights have."""
    return build(terms.model, "bfloat16", "cpu").float()


def served(terms: Terms, form: str) -> Any:
    model = build(terms.model, "bfloat16", "cpu")
    swap(model, form, Matrix.pack)
    return model


def ours(terms: Terms, form: str) -> Any:
    quantised, model = served(terms, form), exact(terms)
    for name, weight in quantised.named_parameters():
        values = weight.values() if hasattr(weight, "values") and hasattr(weight, "matrix") else weight
        model.get_parameter(name).copy_(values)
    return model


def theirs(terms: Terms, form: str) -> Any:
    """With the weights of its file."""
    sys.path.insert(0, str(Path(terms.peers, HOME, "gguf-py").resolve()))
    import gguf

    model = exact(terms)
    reader = gguf.GGUFReader(LLAMA_CPP.model(terms, form))
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
def logits(model: Any, prompts: list[tuple[int, ...]]) -> list[Tensor]:
    """(T, V) for each."""
    return [model(input_ids=torch.tensor([ids])).logits[0] for ids in prompts]


if __name__ == "__main__":
    main()
