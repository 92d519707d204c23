"""Serving loads neither torch's compiler nor what else it does not use; what needs the compiler gets it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.forked_main import ForkedProcess

ROOT = Path(__file__).parents[3]
COMPILE_TIMEOUT_S = 500  # torch's compiler takes minutes on a machine that other programs load, too

COMPILE = """
import sys
import torch
import transformers.modeling_utils
from inference.process.imports.deferred_modules import is_deferred

@torch.compiler.disable
def plus_two(x):
    return x + 2

@torch._dynamo.allow_in_graph
def plus_three(x):
    return x + 3

assert is_deferred("torch._dynamo") and plus_two(1) == 3
assert transformers.modeling_utils.PreTrainedModel and "sympy" not in sys.modules

from torch._dynamo import utils

assert utils is sys.modules["torch._dynamo.utils"] is torch._dynamo.utils
assert utils.counters is torch._dynamo.convert_frame.counters
assert utils.__spec__.loader.get_code(utils.__name__)
graphs = []
compiled = torch.compile(
    lambda x: plus_two(plus_three(x)) * 2, backend=lambda graph, _: graphs.append(graph.code) or graph
)
assert compiled(torch.ones(2)).tolist() == [12, 12]
assert len(graphs) == 2 and "plus_three" in graphs[0] and "mul" in graphs[1]
assert not is_deferred("torch._dynamo") and not is_deferred("torch._meta_registrations")
"""

SERVE = """
import sys
from collections import Counter

import main
from inference.process.imports.deferred_imports import defer_unused_imports

defer_unused_imports(is_sharded=False)
import startup.one_model

assert not {"api", "flask", "tuning", "uvicorn"} & set(sys.modules), "imported while the model is loaded"
assert len(sys.modules) <= 2230, len(sys.modules)
import startup.serve_one

packages = Counter(name.partition(".")[0] for name in sys.modules)
assert packages.total() <= 2660, packages.most_common(40)
assert not {"aiohttp", "peft", "sympy"} & set(packages), set(packages)
assert not {"torch._decomp", "torch._prims", "torch._refs", "torch._export"} & set(sys.modules)
from checks.memory import remembered_size
from inference.process.imports.deferred_modules import is_deferred

remembered_size.read_size = lambda path: None  # as in a first start
code = main.main(["--selftest", "--model", "models/demo", "--device", "cpu"])
assert all(map(is_deferred, ("torch._dynamo", "torch.export", "torch._meta_registrations")))
assert len(sys.modules) <= 2750, len(sys.modules)
unused = {"torch._dynamo.eval_frame", "torch._inductor", "torch.distributed.tensor", "peft"}
assert not unused & set(sys.modules), unused & set(sys.modules)
sys.exit(code)
"""

EXPORT = """
import torch
from transformers import masking_utils
from inference.process.imports.deferred_modules import is_deferred

assert is_deferred("torch.export") and is_deferred("torch._meta_registrations")
with masking_utils.TransformGetItemToIndex():
    assert torch.arange(3)[torch.tensor(1)] == 1
program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
assert program.module()(torch.zeros(1, 2)).shape == (1, 2)
assert not is_deferred("torch.export") and not is_deferred("torch._meta_registrations")
"""

META = """
import sys
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from inference.process.imports.deferred_modules import is_deferred
from inference.process.imports.deferred_torch import with_meta_kernels

with torch.device("meta"):
    model = LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=8, vocab_size=9))
drawn = torch.rand(3, generator=torch.Generator().manual_seed(7))
assert is_deferred("torch._meta_registrations") and "sympy" not in sys.modules
values = torch.empty(2, device="meta")
assert with_meta_kernels(lambda: torch.where(values > 0, values, 1)).is_meta
assert not is_deferred("torch._meta_registrations")
assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(7)))
"""

COMMON = """
import torch
from torch.nn import functional as F
from checks.memory.model_size import measure_model
from inference.process.imports.deferred_modules import is_deferred
from inference.process.imports.deferred_torch import load_meta_kernels, register_common_kernels
from tests.tiny_models.families import FAMILIES

def shapes():
    ids = torch.zeros(2, 3, dtype=torch.long, device="meta")
    values = torch.empty(2, 3, 4, dtype=torch.bfloat16, device="meta")
    masked = torch.empty(2, 3, 4, dtype=torch.bfloat16, device="meta")
    tensors = (
        torch.where(ids[..., None] > 0, values, 1),
        torch.where(ids > 0, ids, 0.5),
        torch.where(ids[..., None] > 0, values, values, out=masked),
        F.embedding(ids, values[0]),
        values.index_select(-1, ids[0]),
        torch.relu(values),
        F.layer_norm(values, (4,)),
        F.scaled_dot_product_attention(values, values, values, torch.ones(3, 3, device="meta") > 0),
    )
    return [(each.shape, each.dtype, each.stride()) for each in tensors]

def sizes():
    configs = ({"model_type": name, "vocab_size": 97} | FAMILIES[name] for name in ("llama", "bloom"))
    return [measure_model(config, 0, lambda num_parameters: "bfloat16") for config in configs]

register_common_kernels()
common = shapes(), sizes()
assert is_deferred("torch._meta_registrations") and all(size.activation_bytes_per_token for size in common[1])
load_meta_kernels()
assert (shapes(), sizes()) == common
"""

PATTERNS = """
from copy import deepcopy
from transformers.core_model_loading import WeightRenaming

renaming = deepcopy(WeightRenaming("^old\\\\.", "new."))
assert "pattern" not in vars(renaming.compiled_sources)
assert renaming.rename_source_key("old.weight")[0] == "new.weight"
assert "pattern" in vars(renaming.compiled_sources)
"""

SHARDED = """
import pickle
import sys
from inference.model.tensor_parallel.rank_start import run_rank

def check(pipe):
    from transformers.distributed import tensor_parallel

    assert tensor_parallel.DTensor is sys.modules["torch.distributed.tensor"].DTensor
    assert "torch._dynamo.eval_frame" not in sys.modules

assert "torch" not in sys.modules
run_rank(pickle.dumps(check), None)
"""


def run(program: str) -> None:
    """Run it in a process that has imported nothing yet."""
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def run_imported(program: str) -> None:
    """Run it in a fork of a process that has deferred imports, and has imported what a server needs."""
    assert ForkedProcess(exec, program, {"__name__": "__main__"}).wait(COMPILE_TIMEOUT_S) == 0


@pytest.mark.slow
def test_serving_the_demo_loads_no_compiler() -> None:
    run(SERVE)


def test_a_compiled_function_gets_the_compiler_and_the_decorated_functions() -> None:
    run_imported(COMPILE)


def test_exporting_a_model_and_indexing_under_vmap_load_what_they_need() -> None:
    run_imported(EXPORT)


def test_the_meta_device_gets_kernels_in_python_when_it_needs_one() -> None:
    run_imported(META)


def test_a_first_start_measures_common_models_without_torchs_kernels_in_python() -> None:
    run_imported(COMMON)


def test_patterns_for_names_of_weights_are_compiled_when_they_are_used() -> None:
    run_imported(PATTERNS)


def test_a_rank_has_distributed_tensors_and_no_compiler() -> None:
    run(SHARDED)
