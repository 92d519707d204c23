"""Paged attention in transformers' registry: each token attends to the pages of its own row.

A model uses the registered name while a step is computed. Knows the arguments that models pass to attention;
the kernels read the pages.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from transformers import PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from inference.model.attention import IGNORED_KWARGS, effective_kwargs
from inference.model.batch import UnsupportedModel
from inference.model.forward_pass.forward_context import ForwardContext, get_forward_context
from inference.model.paged.attn_metadata import AttnMetadata, StepMetadata
from inference.model.paged.kv_pool import KVPool, LayerKV

NAME = "hearth_paged"  # has no registered mask function, so transformers builds no mask
PROBE = "hearth_probe"  # as NAME, with a mask function that shows the pattern of each layer
MORE_THAN_WINDOW = "the attention mask is more than a sliding window"
PROBE_POSITION = 1 << 20  # larger than any window
# A chunked pattern differs between these positions.
PROBE_POSITIONS = (PROBE_POSITION, PROBE_POSITION - 1, PROBE_POSITION - 777)


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A token attends to the last `width` tokens, itself included; None: all of them.

    0 is the window of masks that some models build and do not use; no layer has it.
    """

    width: int | None

    def __str__(self) -> str:
        return "no window" if self.width is None else f"a window of {self.width}"

    def __radd__(self, scores: object) -> object:
        raise UnsupportedModel("the model adds the attention mask to its scores itself")

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedModel(f"the model reads the {name} of the attention mask itself")


class AttentionParams(NamedTuple):
    """How a layer computes attention.

    scale    factor of the scores
    window   a token attends to itself and the tokens before it in its row: to the last `window` of them, or,
             for None, to all
    softcap  c: score s is c tanh(s / c); None: no softcap
    sinks    (H,) an additional score of each head in the softmax, without a token; None: no sinks
    """

    scale: float
    window: int | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None


class AttentionKernel(Protocol):
    """Computes attention over the pages of a step.

    query (T, H, D), keys (N, S, G, D), values (N, S, G, E); returns (T, H, E).
    """

    def __call__(
        self, query: torch.Tensor, kv: LayerKV, metadata: AttnMetadata, params: AttentionParams
    ) -> torch.Tensor: ...


@dataclass(slots=True, eq=False)
class PagedContext(ForwardContext):
    """A forward pass over pages: its metadata, the pool of the pages, and the kernel that reads them."""

    metadata: StepMetadata
    pool: KVPool
    kernel: AttentionKernel


@dataclass(slots=True, eq=False)
class ProbeContext(PagedContext):
    """A forward pass that finds out what the layers require. attended: those that have computed attention."""

    attended: set[torch.nn.Module] = field(default_factory=set)


class PagedAttention:
    """Paged attention as the attention of one model. A forward pass needs a PagedContext too."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.configs = list({id(c): c for m in model.modules() if (c := getattr(m, "config", None))}.values())

    @contextmanager
    def installed(self, name: str = NAME) -> Iterator[None]:
        """Make this the model's attention within the context."""
        previous = [config._attn_implementation_internal for config in self.configs]
        try:
            for config in self.configs:
                config._attn_implementation_internal = name
            yield
        finally:
            for config, implementation in zip(self.configs, previous, strict=True):
                config._attn_implementation_internal = implementation


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of query (1, H, T, D) over the rows' pages, as (1, T, H, E).

    Raises UnsupportedModel for arguments and masks that paged attention does not support.
    """
    context = get_forward_context()
    assert isinstance(context, PagedContext), "paged attention runs only within a step"
    if not kwargs.keys() <= IGNORED_KWARGS and (unsupported := effective_kwargs(kwargs)):
        raise UnsupportedModel(f"paged attention does not support the argument {unsupported[0]}")
    window = sliding_window or None
    if isinstance(attention_mask, torch.Tensor):
        raise UnsupportedModel("the model builds its own attention mask")
    if attention_mask is not None and attention_mask != SlidingWindow(window):
        raise UnsupportedModel(
            f"the mask has {attention_mask}, but attention is called with {SlidingWindow(window)}"
        )
    pool, key, value = context.pool, key[0].transpose(0, 1), value[0].transpose(0, 1)
    kv = pool.layers.get(module) or pool.allocate(module, key, value, window)
    metadata = context.metadata[kv.group]
    slot_mapping = metadata.slot_mapping
    if slot_mapping.device != key.device:
        slot_mapping = context.copies.on_device(key.device, slot_mapping)
    pool.write(kv, key, value, slot_mapping)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    params = AttentionParams(scale, window, softcap, s_aux)
    output = context.kernel(query[0].transpose(0, 1), kv, metadata, params)
    return output[None], None


def attend_once(module: torch.nn.Module, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
    """As `attend`, in a ProbeContext. Raises UnsupportedModel for a layer with several keys of a token."""
    context = get_forward_context()
    assert isinstance(context, ProbeContext)
    if module in context.attended:
        raise UnsupportedModel("a layer computes attention several times in a step")
    context.attended.add(module)
    return attend(module, *args, **kwargs)


def rotate_and_attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    params: AttentionParams,
) -> torch.Tensor:
    """As `attend` on one device, with the rotary embedding of query and key by cos and sin (1, 1, T, D)."""
    context = get_forward_context()
    assert isinstance(context, PagedContext), "paged attention runs only within a step"
    pool = context.pool
    query, key, value = (states[0].transpose(0, 1) for states in (query, key, value))
    kv = pool.layers.get(module) or pool.allocate(module, key, value, params.window)
    metadata = context.metadata[kv.group]
    query = pool.rotate_and_write(kv, query, key, value, cos[0, 0], sin[0, 0], metadata.slot_mapping)
    return context.kernel(query, kv, metadata, params)[None]


def probe_mask(*args: Any, **kwargs: Any) -> SlidingWindow:
    """Return the sliding window of a mask pattern in place of a mask. Raises UnsupportedModel for others."""
    return window_of(kwargs["mask_function"])


ALL_ATTENTION_FUNCTIONS.register(NAME, attend)
ALL_ATTENTION_FUNCTIONS.register(PROBE, attend_once)
ALL_MASK_ATTENTION_FUNCTIONS.register(PROBE, probe_mask)


def window_of(pattern: Callable[..., torch.Tensor]) -> SlidingWindow:
    """The window of a mask function (row, head, query, column). Raises UnsupportedModel for others."""
    try:
        windows = {window_at(pattern, position) for position in PROBE_POSITIONS}
    except (RuntimeError, IndexError) as error:  # it reads a tensor on the model's device, or of the tokens
        raise UnsupportedModel(MORE_THAN_WINDOW) from error
    if len(windows) > 1:
        raise UnsupportedModel(MORE_THAN_WINDOW)
    return windows.pop()


def window_at(pattern: Callable[..., torch.Tensor], position: int) -> SlidingWindow:
    zero = torch.zeros((), dtype=torch.int64)
    columns = torch.arange(position + 2)
    visible = pattern(zero, zero, torch.tensor(position), columns).expand(len(columns))
    if not bool(visible.any()):
        return SlidingWindow(0)
    first = int(visible.int().argmax())
    if not bool(visible[first : position + 1].all()) or bool(visible[position + 1]):
        raise UnsupportedModel("the attention mask is no sliding window")
    return SlidingWindow(position + 1 - first if first else None)
