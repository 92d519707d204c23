"""The frozen base model of a trainer: loaded once, split into its backbone and its output layer.

Knows transformers' causal models; not what is trained. Its weights are those that the server computes with.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from inference.errors import BadRequest, Unavailable
from inference.model.load import loader
from inference.model.load.architecture import auto_class_of
from inference.model.load.device_dtype import has_bfloat16, resolve_device, resolve_dtype
from inference.model.load.formats import FORMATS, WeightsFormat
from inference.model.load.generation_config import vocab_size_of
from inference.model.load.meta_model import count_parameters
from inference.model.load.rope import freeze_frequencies
from inference.model.quantization.quantize import pack_on, read_importance
from inference.model.quantization.replace import compute_in_float32, packed_weights, rounds_activations
from inference.model.quantization.schemes import INT4, INT8, NONE
from inference.model.weights.mapped_model import mapped_file, mapped_format
from inference.native.build import NativeUnavailable
from settings.groups import ModelSettings
from tuning.trainer.model.fused_norms import fuse_norms
from tuning.trainer.model.linear_layers import recording_calls

PROBE_IDS = (1, 5, 2, 7, 3, 6, 4, 8)  # arbitrary token ids for which both ways to the logits are compared
ATTENTION_DROPOUT = "attention_dropout"  # the attribute of attention modules in transformers
AUTO = "auto"
QLORA_SCHEMES = {"cpu": INT8, "cuda": INT4}  # of a quantized base, by the type of device
# Largest accepted difference, in standard deviations. Half precision rounds otherwise in another order.
MAX_PROBE_ERROR = {torch.float32: 1e-3, torch.bfloat16: 0.2}
MAX_PACKED_PROBE_ERROR = 0.2  # products with packed weights round their inputs to 8 bits


@dataclass(frozen=True, slots=True)
class BaseModel:
    """A causal model whose weights are frozen, and its tokenizer.

    causal        the model with its output layer; LoRA layers may be inserted into it
    backbone      its submodel, which computes the hidden states
    context       most tokens of a sequence
    called_paths  of the linear layers that compute texts
    """

    causal: Any
    backbone: Any
    tokenizer: Any
    vocab_size: int
    context: int
    called_paths: Collection[str] | None = None

    @property
    def device(self) -> torch.device:
        return next(self.causal.parameters()).device

    def hidden_states(self, ids: Tensor, position_ids: Tensor | None) -> Any:
        """The backbone's output for ids (B, T); its last_hidden_state is (B, T, H).

        position_ids  (B, T) where several sequences follow one another in a row; None: one sequence a row
        """
        positions = {} if position_ids is None else {"position_ids": position_ids}
        return self.backbone(input_ids=ids, use_cache=False, **positions)

    def has_frozen_output(self) -> bool:
        """Whether no weight in training is used behind the backbone; tied embeddings are used there, too."""
        inside = {id(weight) for weight in self.backbone.parameters()}
        head = self.causal.get_output_embeddings()
        behind = [weight for weight in self.causal.parameters() if id(weight) not in inside]
        behind += [] if head is None else head.parameters()
        return not any(weight.requires_grad for weight in behind)

    def logits(self, output: Any, hidden: Tensor) -> Tensor:
        """The logits (M, V) of hidden states (M, H), which belong to the backbone's `output`.

        The whole model is called, with the hidden states in place of what its backbone would compute: some
        architectures scale or cap their logits.
        """
        ids = torch.zeros(1, hidden.shape[0], dtype=torch.long, device=hidden.device)
        with returns(self.backbone, replace(output, last_hidden_state=hidden[None])):
            return self.causal(input_ids=ids, use_cache=False).logits.flatten(0, 1)


@contextmanager
def returns(module: nn.Module, output: Any) -> Iterator[None]:
    """Within the block, a call of the module returns `output`."""
    module.forward = lambda *args, **kwargs: output
    try:
        yield
    finally:
        del module.forward


def load_base(folder: Path, settings: ModelSettings, *, context: int = 0, weight_file: str = "") -> BaseModel:
    """Load and freeze the model in `folder`. Raises BadRequest, or Unavailable without kernels to quantize.

    settings     "auto" is the dtype that the server chooses, and a GPU if there is one; `quantize` packs the
                 weights (QLoRA), by the importance of inputs in the file of `imatrix` if there is one
    context      most tokens of a sequence, for which frequencies that depend on the length are computed; 0:
                 the model's own
    weight_file  of the server, with the weights packed by this scheme: mapped if it exists; empty: none
    """
    device, scheme = resolve_device(settings.device), settings.quantize
    num_weights = count_weights(folder, settings.trust_remote_code)
    as_stored = replace(
        settings,
        dtype=training_dtype(settings.dtype, device, num_weights),
        device=device if scheme == NONE else "cpu",  # a GPU need not hold the weights as they are stored
    )
    loaded = loader.load(folder, as_stored, formats_of(folder, weight_file))
    model, context = loaded.model, context or loaded.context
    if loaded.is_encoder_decoder:
        raise not_a_decoder(model.config.model_type)
    prepare_frozen(model, device, scheme, settings.imatrix)
    freeze_frequencies(model, context)
    return split_model(model, loaded.tokenizer, vocab_size_of(model), context)


def not_a_decoder(model_type: Any) -> BadRequest:
    return BadRequest("model", "cannot be fine-tuned here: only decoder models can", model_type)


def formats_of(folder: Path, weight_file: str) -> Sequence[WeightsFormat]:
    """How the weights are loaded: the first format that matches."""
    plain = next((each for each in FORMATS if each.matches(folder)), None)
    return (
        FORMATS if plain is None or not weight_file else (mapped_format(Path(weight_file), plain), *FORMATS)
    )


def qlora_scheme(quantize_base: bool, device: str) -> str:
    """The scheme of a job's frozen weights on a device."""
    return QLORA_SCHEMES[resolve_device(device)] if quantize_base else NONE


def count_weights(folder: Path, trust_remote_code: bool) -> int:
    """The number of the model's parameters, which are not loaded."""
    config = loader.config_of(folder, trust_remote_code)
    with torch.device("meta"):
        return count_parameters(
            auto_class_of(config).from_config(config, trust_remote_code=trust_remote_code)
        )


def training_dtype(dtype: str, device: str, num_parameters: int) -> str:
    """The dtype of the frozen weights: float16 has too small a range for gradients without a loss scale."""
    if dtype not in (AUTO, "float16"):
        return dtype
    return resolve_dtype(
        AUTO, device=device, stored="bfloat16", parameters=num_parameters, bfloat16=has_bfloat16(device)
    )


def prepare_frozen(model: Any, device: str, quantize: str, imatrix: str = "") -> None:
    """Change a loaded model into one that is fast to train on the device.

    Raises Unavailable, and BadRequest for an imatrix that is not of this model.

    Over quantized weights on a CPU, the base computes in float32, whatever their dtype: the server's native
    code has float32 between its layers, and the log probabilities of both must agree.
    """
    disable_dropout(model)
    if quantize != NONE and mapped_file(model) is None:
        quantize_frozen(model, device, quantize, imatrix)
    if rounds_activations(model):
        compute_in_float32(model)
    if device != "cpu":
        fuse_norms(model)


def disable_dropout(model: nn.Module) -> None:
    """Set every dropout to 0: layers that recompute their activations must be in training mode."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, ATTENTION_DROPOUT, None), float):
            setattr(module, ATTENTION_DROPOUT, 0.0)


def split_model(causal: Any, tokenizer: Any, vocab_size: int, context: int) -> BaseModel:
    """Find the backbone of a model.

    Raises Unavailable if none and the output layer give its logits, or if these depend on later tokens.
    """
    with recording_calls(causal) as called_paths:
        # Llama 4's text model names neither, and has its backbone where others have it.
        for backbone in (causal.base_model, causal.get_decoder(), getattr(causal, "model", causal)):
            base = BaseModel(causal, backbone, tokenizer, vocab_size, context, called_paths)
            if backbone is not causal and is_right_split(base):
                check_causal(base)
                return base
    kind = causal.config.model_type
    raise Unavailable(f"{kind} cannot be fine-tuned here: backbone and output layer do not give its logits")


@torch.no_grad()
def is_right_split(base: BaseModel) -> bool:
    """Whether backbone and output layer together compute the model's own logits."""
    ids = torch.tensor([PROBE_IDS], device=base.device).clamp(max=base.vocab_size - 1)
    expected = base.causal(input_ids=ids, use_cache=False).logits[0]
    output = base.hidden_states(ids, None)
    return is_close(base, base.logits(output, output.last_hidden_state[0]), expected)


@torch.no_grad()
def check_causal(base: BaseModel) -> None:
    """Raise Unavailable if a hidden state depends on later tokens: rows are padded behind their end."""
    ids = torch.tensor([PROBE_IDS], device=base.device).clamp(max=base.vocab_size - 1)
    half = ids.shape[1] // 2
    expected = base.hidden_states(ids[:, :half], None).last_hidden_state[0]
    if not is_close(base, base.hidden_states(ids, None).last_hidden_state[0, :half], expected):
        kind = base.causal.config.model_type
        raise Unavailable(f"{kind} cannot be fine-tuned here: it reads the tokens that it shall predict")


@torch.no_grad()
def check_packing(base: BaseModel) -> None:
    """Raise BadRequest if sequences that follow one another in a row change each other's hidden states.

    Models with positions of their own, such as ALiBi, and recurrent ones ignore position ids that restart.
    """
    ids = torch.tensor([PROBE_IDS], device=base.device).clamp(max=base.vocab_size - 1)
    positions = torch.arange(ids.shape[1], device=base.device)[None]
    expected = base.hidden_states(ids, None).last_hidden_state[0]
    neighbours = base.hidden_states(ids.repeat(1, 2), positions.repeat(1, 2)).last_hidden_state[0]
    if not is_close(base, neighbours[ids.shape[1] :], expected):
        kind = base.causal.config.model_type
        raise BadRequest("packing", f"must be false: {kind} cannot keep sequences in a row apart")


def is_close(base: BaseModel, values: Tensor, expected: Tensor) -> bool:
    difference = (values.float() - expected.float()).abs().max()
    is_packed = bool(packed_weights(base.causal))
    max_error = MAX_PACKED_PROBE_ERROR if is_packed else MAX_PROBE_ERROR[expected.dtype]
    return bool(difference <= max_error * expected.float().std())


def quantize_frozen(model: Any, device: str, quantize: str, imatrix: str) -> None:
    """Pack the weights, wherever they are, into matrices on the device; move the rest. Raises Unavailable."""
    try:
        pack_on(model, quantize, device, read_importance(model, Path(imatrix) if imatrix else None))
    except NativeUnavailable as reason:
        raise Unavailable(f"quantize_base has no kernels: {reason}; set it to false") from reason
