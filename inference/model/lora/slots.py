"""Adapters in slots: a step that was captured finds a token's adapter by the number of a slot.

A captured step keeps the addresses of tensors, whose contents change between replays: which slot each token
has, and in a table of each module where the weights of a slot are. Knows modules and low-rank pairs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor

from inference.model.forward_pass.forward_context import get_forward_context
from inference.model.forward_pass.step_adapters import StepAdapters
from inference.model.lora.delta import LoraDelta
from inference.model.lora.modules import AdaptedForward, AdaptedModules, replaced_forwards
from inference.model.lora.weights import AdapterWeights

NUM_SLOTS = 128  # with slot 0, which no adapter has
MAX_RANK = 128
ALIGNMENT = 16  # bytes, of the addresses in tables

# Adds low-rank outputs in place, as triton_low_rank.add_low_rank.
AddLowRank = Callable[[Tensor, Tensor, Tensor, Tensor, int], None]


class AdapterSlots:
    """The adapters with a slot, and the tensors of fixed addresses by which kernels find them.

    adapters     by number
    tables       (NUM_SLOTS, 3) int64 of each module that an adapter has changed; see
                 triton_low_rank.add_low_rank. They stay: captured steps read them
    forwards     of these modules, also of those that no loaded adapter changes
    token_slots  (max_tokens,) int32: the slots of the step's tokens
    logits_slots the same for the tokens that reach the output layer, where they are only some
    max_rank     of all pairs that had a slot
    """

    def __init__(self, modules: AdaptedModules, add_low_rank: AddLowRank, max_tokens: int) -> None:
        self.modules, self.add_low_rank = modules, add_low_rank
        self.device, self.dtype = modules.model.device, modules.model.dtype
        self.adapters: dict[int, AdapterWeights] = {}
        self.tables: dict[str, Tensor] = {}
        self.forwards: dict[str, AdaptedForward] = {}
        self._step_slots = torch.zeros(2, max_tokens, dtype=torch.int32, device=self.device)
        self.token_slots, self.logits_slots = self._step_slots
        self.max_rank = 0
        self._slots: dict[int, int] = {}  # by the adapters' numbers
        self._free = list(range(1, NUM_SLOTS))

    def add(self, adapter: AdapterWeights) -> bool:
        """Give the adapter a slot, if it can have one; returns whether captured steps are out of date."""
        if not self._free or not self.supports(adapter):
            return False
        slot = self._slots[adapter.number] = self._free.pop()
        self.adapters[adapter.number] = adapter
        before = len(self.tables), self.max_rank
        for name, pair in adapter.deltas.items():
            assert isinstance(pair, LoraDelta)
            if name not in self.tables:
                self.tables[name] = torch.zeros(NUM_SLOTS, 3, dtype=torch.int64, device=self.device)
                self.forwards[name] = self.modules.forwards[name]
            rank = len(pair.a)
            self.tables[name][slot] = torch.tensor([pair.a.data_ptr(), pair.b_t.data_ptr(), rank])
            self.max_rank = max(self.max_rank, rank)
        return before != (len(self.tables), self.max_rank)

    def remove(self, number: int) -> None:
        """Free the adapter's slot; does nothing if it has none."""
        if number in self._slots:
            slot = self._slots.pop(number)
            for name in self.adapters.pop(number).deltas:
                self.tables[name][slot] = 0
            self._free.append(slot)

    def supports(self, adapter: AdapterWeights) -> bool:
        """Whether all that the adapter changes are low-rank pairs of the model's dtype without biases."""
        return not adapter.unbatched and all(
            type(delta) is LoraDelta
            and delta.bias is None
            and delta.a.dtype == self.dtype
            and len(delta.a) <= MAX_RANK
            and delta.a.data_ptr() % ALIGNMENT == delta.b_t.data_ptr() % ALIGNMENT == 0
            for delta in adapter.deltas.values()
        )

    def hold(self, adapters: StepAdapters) -> bool:
        """Whether all adapters of the step have slots."""
        return all(number in self._slots for number, _, _ in adapters.spans)

    def fill(self, adapters: StepAdapters) -> None:
        """Store the slots of the step's tokens, by one copy that nothing waits for; the others get slot 0."""
        # New memory for each copy, pinned: the previous copy may still be in progress.
        values = torch.zeros(self._step_slots.shape, dtype=torch.int32, pin_memory=self.device.type == "cuda")
        for slots, spans in zip(values, (adapters.spans, adapters.logits_spans), strict=True):
            for number, start, end in spans:
                slots[start:end] = self._slots[number]
        self._step_slots.copy_(values, non_blocking=True)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Within the context, modules with a table add the pairs of the slots of the step."""
        slotted = {
            each.module: partial(self.forward, each, self.tables[name])
            for name, each in self.forwards.items()
        }
        with replaced_forwards(slotted):
            yield

    def forward(self, adapted: AdaptedForward, table: Tensor, input: Tensor) -> Tensor:
        """The outputs of a module's own forward with the pairs of its table added."""
        output: Tensor = adapted.inner(input)
        context = get_forward_context()
        of_logits = adapted.is_head and context is not None and context.logits_selected
        slots = self.logits_slots if of_logits else self.token_slots
        x, rows = input.view(-1, input.shape[-1]), output.view(-1, output.shape[-1])
        self.add_low_rank(x, rows, slots[: len(x)], table, self.max_rank)
        return output
