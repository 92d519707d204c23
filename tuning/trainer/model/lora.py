"""LoRA adapters of a base model as peft makes, reads and writes them.

Knows peft, and which layers of a model an adapter may change; nothing of losses and optimizers.
"""

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from inference.errors import BadRequest, NotFound, error_line
from inference.finding import join_names
from inference.lora.file_names import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from inference.model.quantization.find_weights import ROUTERS
from tuning.trainer.durable_files import write_json, write_tensors
from tuning.trainer.model.lora_linear import LoraLinear
from tuning.types import JobSpec

LINEAR = (nn.Linear, Conv1D)
# Layers whose weights are read without a call of the layer, by their names (peft, tuners/tuners_utils.py,
# _check_lora_target_modules_mamba).
UNCALLED_TYPES = frozenset(("mamba", "mamba2", "falcon_mamba", "falcon_h1", "nemotron_h"))
UNCALLED_NAMES = frozenset(("out_proj",))
NUMBER, ANY_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)"), "<n>"  # in the path of a module
ATTENTION = re.compile(r"(?i)(attn|attention)[^.]*\.")  # in the path of a layer's module


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraOptions:
    """The shape of a new adapter.

    target_modules  names of linear layers, such as q_proj; empty: all linears of the layers
    train_output    the output layer gets an adapter, too; with tied embeddings it changes the output only
    seed            of the initial values
    """

    rank: int = 16
    alpha: float = 32.0
    target_modules: tuple[str, ...] = ()
    use_dora: bool = False
    use_rslora: bool = False
    train_output: bool = False
    seed: int = 0


def lora_options(spec: JobSpec) -> LoraOptions:
    """The shape of the adapter that a job trains, unless it goes on from another one."""
    hyperparameters = spec.hyperparameters
    return LoraOptions(
        rank=hyperparameters.lora_rank,
        alpha=hyperparameters.lora_alpha,
        target_modules=hyperparameters.target_modules,
        use_dora=hyperparameters.use_dora,
        use_rslora=hyperparameters.use_rslora,
        train_output=hyperparameters.train_output,
        seed=spec.seed,
    )


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


class PeftAdapters:
    """The adapters that are inserted into one base model. At most one is in effect at a time.

    linear_names  as they were before the first adapter was inserted
    """

    def __init__(self, causal: Any, called_paths: Collection[str] | None = None) -> None:
        self.causal = causal
        self.linear_names = find_linear_names(causal, called_paths)
        self.peft_model: PeftModel | None = None
        self._active = ""

    def new_config(self, options: LoraOptions) -> LoraConfig:
        """peft's configuration of a new adapter. Raises BadRequest for layers that the model lacks."""
        return LoraConfig(
            r=options.rank,
            lora_alpha=options.alpha,  # type: ignore[arg-type]  # peft computes with floats, too
            target_modules=list(target_names(self.linear_names, options)),
            exclude_modules=self.linear_names.uncalled or None,
            lora_dropout=0.0,
            use_dora=options.use_dora,
            use_rslora=options.use_rslora,
            bias="none",
            task_type="CAUSAL_LM",
            base_model_name_or_path=str(self.causal.name_or_path),
        )

    def add(self, name: str, config: LoraConfig, seed: int) -> None:
        """Insert a new adapter that changes nothing yet: A is random, B is 0. A failure inserts nothing."""
        torch.manual_seed(seed)
        self._active = ""
        config._register_custom_module({nn.Linear: LoraLinear})
        try:
            with warnings.catch_warnings(action="ignore"):  # peft's remarks on tied weights and Conv1D
                if self.peft_model is None:
                    self.peft_model = get_peft_model(self.causal, config, adapter_name=name)
                else:
                    self.peft_model.add_adapter(name, config)
        except ValueError as error:  # layers that peft has no adapter for
            layers = ", ".join(self.linear_names.layers)
            rule = f"must name layers that can have an adapter, among {layers}: {error_line(error, 400)}"
            self._take_out(name)
            raise BadRequest("lora_target_modules", rule) from error
        except BaseException:  # memory may be short in the middle
            self._take_out(name)
            raise

    def _take_out(self, name: str) -> None:
        """Remove what peft has inserted of an adapter before it failed."""
        layers = [item for item in self.causal.named_modules() if isinstance(item[1], BaseTunerLayer)]
        if self.peft_model is None:
            for path, layer in layers:
                self.causal.set_submodule(path, layer.get_base_layer())
            return
        for _, layer in layers:
            layer.delete_adapter(name)
        self.peft_model.peft_config.pop(name, None)

    def remove(self, name: str) -> None:
        self._active = ""
        with warnings.catch_warnings(action="ignore"):  # another one becomes active
            self._model.delete_adapter(name)

    def activate(self, name: str) -> None:
        """Compute with this adapter; its weights alone require gradients."""
        if self._active != name:  # peft visits every module: a GPU would wait for it in each pass
            self._model.set_adapter(name)
            self._active = name

    def parameters(self, name: str) -> dict[str, nn.Parameter]:
        """The trained weights of the active adapter `name`, by their names without that of the adapter."""
        trained = [item for item in self.causal.named_parameters() if item[1].requires_grad]
        return {key.replace(f".{name}", ""): weight for key, weight in trained}

    def save(self, name: str, folder: Path) -> None:
        """Write the adapter into `folder` as peft reads it."""
        with warnings.catch_warnings(action="ignore"):
            state = get_peft_model_state_dict(self._model, adapter_name=name, save_embedding_layers=False)
        write_tensors(folder / ADAPTER_WEIGHTS, {key: value.contiguous() for key, value in state.items()})
        config = self._model.peft_config[name].to_dict() | {"inference_mode": True}
        write_json(folder / ADAPTER_CONFIG, {key: as_json(value) for key, value in config.items()})

    def load(self, name: str, folder: Path) -> None:
        """Give the adapter the weights in `folder`. Raises BadRequest if they are not this adapter's."""
        state = load_file(folder / ADAPTER_WEIGHTS)
        self._check_keys(name, state)
        set_peft_model_state_dict(self._model, state, adapter_name=name)

    def _check_keys(self, name: str, state: Mapping[str, Tensor]) -> None:
        own = get_peft_model_state_dict(self._model, adapter_name=name, save_embedding_layers=False)
        shapes = {key: tuple(value.shape) for key, value in own.items()}
        for key in sorted({*shapes, *state}):
            shape = tuple(state[key].shape) if key in state else None
            if shape != shapes.get(key):
                rule = f"does not fit: {key} has the shape {shape}, the model needs {shapes.get(key)}"
                raise BadRequest("adapter", rule)

    @property
    def _model(self) -> PeftModel:
        if self.peft_model is None:
            raise NotFound("the base model has no adapter")
        return self.peft_model


def read_config(folder: Path) -> LoraConfig:
    """The configuration of a saved adapter, to train it on."""
    return LoraConfig.from_pretrained(str(folder))


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


def target_names(linear_names: LinearNames, options: LoraOptions) -> tuple[str, ...]:
    """The names of the layers that get an adapter, in the model's order."""
    known = (*linear_names.layers, *linear_names.output)
    unknown = [name for name in options.target_modules if name not in known]
    if unknown:
        rule = f"must be among {', '.join(linear_names.layers)}"
        raise BadRequest("lora_target_modules", rule, join_names(unknown))
    chosen = options.target_modules or tuple(name for name in linear_names.layers if name not in ROUTERS)
    return chosen + (linear_names.output if options.train_output else ())


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


def as_json(value: Any) -> Any:
    """The value as JSON has it: peft's configurations hold sets and enums."""
    if isinstance(value, set | tuple):
        return sorted(value)
    return value if value is None or isinstance(value, bool | int | float | str | list | dict) else str(value)
