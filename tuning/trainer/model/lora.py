"""LoRA adapters of a base model as peft makes, reads and writes them.

Knows peft; nothing of losses and optimizers. linear_layers.py says which layers an adapter may change.
"""

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file
from torch import Tensor, nn

from inference.errors import BadRequest, NotFound, error_line
from inference.finding import join_names
from inference.lora.file_names import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from inference.model.quantization.find_weights import ROUTERS
from tuning.trainer.durable_files import write_json, write_tensors
from tuning.trainer.model.linear_layers import LinearNames, find_linear_names
from tuning.trainer.model.lora_linear import LoraLinear
from tuning.types import JobSpec


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


def target_names(linear_names: LinearNames, options: LoraOptions) -> tuple[str, ...]:
    """The names of the layers that get an adapter, in the model's order."""
    known = (*linear_names.layers, *linear_names.output)
    unknown = [name for name in options.target_modules if name not in known]
    if unknown:
        rule = f"must be among {', '.join(linear_names.layers)}"
        raise BadRequest("lora_target_modules", rule, join_names(unknown))
    chosen = options.target_modules or tuple(name for name in linear_names.layers if name not in ROUTERS)
    return chosen + (linear_names.output if options.train_output else ())


def as_json(value: Any) -> Any:
    """The value as JSON has it: peft's configurations hold sets and enums."""
    if isinstance(value, set | tuple):
        return sorted(value)
    return value if value is None or isinstance(value, bool | int | float | str | list | dict) else str(value)
