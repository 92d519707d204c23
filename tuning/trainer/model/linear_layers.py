"""The linear layers of a model that can have an adapter, by the last names of their paths.

peft finds layers by these names. Knows transformers' models; inserts nothing.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from inference.errors import BadRequest
from inference.model.quantization.find_weights import LINEAR, ROUTERS

# Layers whose weights are read without a call of the layer, by their names (peft, tuners/tuners_utils.py,
# _check_lora_target_modules_mamba).
UNCALLED_TYPES = frozenset(("mamba", "mamba2", "falcon_mamba", "falcon_h1", "nemotron_h"))
UNCALLED_NAMES = frozenset(("out_proj",))
NUMBER, ANY_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)"), "<n>"  # in the path of a module
ATTENTION = re.compile(r"(?i)(attn|attention)[^.]*\.")  # in the path of a layer's module


@dataclass(frozen=True, slots=True)
class LinearNames:
    """The last names of a model's linear layers that can have an adapter.

    layers     in its layers, in order
    output     its output layer
    attention  those of `layers` that are in a module of attention
    uncalled   a pattern of the paths that have one of `layers`, and that no text passes; empty: none
    """

    layers: tuple[str, ...]
    output: tuple[str, ...]
    attention: tuple[str, ...] = ()
    uncalled: str = ""


def find_linear_names(causal: Any, called_paths: Collection[str] | None = None) -> LinearNames:
    """called_paths: of the layers that compute texts, see recording_calls; None: all do.

    peft finds layers by their last names: one that other modules have too, such as a number, is left out.
    """
    head, modules = causal.get_output_embeddings(), list(causal.named_modules())
    left_out = set(unique_names(path for path, module in modules if not isinstance(module, LINEAR)))
    if causal.config.model_type in UNCALLED_TYPES:
        left_out |= UNCALLED_NAMES
    named = [item for item in modules if isinstance(item[1], LINEAR) and last_name(item[0]) not in left_out]
    layers = [path for path, module in named if module is not head]
    called = [path for path in layers if called_paths is None or any_layer(path) in called_paths]
    names = unique_names(called)
    uncalled = {any_layer(path) for path in layers if last_name(path) in names}.difference(
        map(any_layer, called)
    )
    return LinearNames(
        names,
        unique_names(path for path, module in named if module is head),
        unique_names(path for path in called if ATTENTION.search(path)),
        "|".join(re.escape(path).replace(ANY_NUMBER, r"\d+") for path in sorted(uncalled)),
    )


def kinds_to_names(linear_names: LinearNames, *, attention: bool, mlp: bool, output: bool) -> tuple[str, ...]:
    """The names of the linear layers of these kinds. Raises BadRequest if the model has none of them.

    A name that attention and MLP share, such as GPT-2's c_proj, counts as attention.
    """
    chosen = [name for name in linear_names.attention if attention]
    chosen += [name for name in linear_names.layers if mlp and is_mlp(name, linear_names)]
    chosen += [name for name in linear_names.output if output]
    if not chosen:
        raise BadRequest("lora_config", "must train attention, MLP or output layers that the model has")
    return tuple(dict.fromkeys(chosen))


def is_mlp(name: str, linear_names: LinearNames) -> bool:
    return name not in ROUTERS and name not in linear_names.attention


@contextmanager
def recording_calls(causal: Any) -> Iterator[set[str]]:
    """Within the block, the paths of the linear layers that are called are added to the set.

    A path stands for those of all layers and experts: a text does not pass each expert.
    """
    called_paths = set[str]()

    def record(path: str, *_: Any) -> None:
        called_paths.add(any_layer(path))

    hooks = [
        module.register_forward_pre_hook(partial(record, path))
        for path, module in causal.named_modules()
        if isinstance(module, LINEAR)
    ]
    try:
        yield called_paths
    finally:
        for hook in hooks:
            hook.remove()


def any_layer(path: str) -> str:
    """The path with a sign in place of each number."""
    return NUMBER.sub(ANY_NUMBER, path)


def last_name(path: str) -> str:
    return path.rpartition(".")[2]


def unique_names(paths: Iterable[str]) -> tuple[str, ...]:
    """The last components of the paths, each once."""
    return tuple(dict.fromkeys(map(last_name, paths)))
