"""A second device on a machine that has only a CPU: its tensors are told apart as a GPU's are.

Computed on the CPU all the same. As with a GPU, an operation over tensors of both devices is an error, save
for copies, numbers and indices; what is put there stays there. torch calls the device "privateuseone".
"""

from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

OTHER = torch.device("privateuseone", 0)
aten = torch.ops.aten
COPIES = {aten._to_copy.default, aten.copy_.default, aten._copy_from.default}
# torch takes indices from the CPU for tensors that are anywhere.
INDEXED = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}


class Elsewhere(torch.Tensor):
    """A tensor that says it is on the other device. `held` is the CPU's tensor of its numbers."""

    held: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls: type, held: torch.Tensor) -> "Elsewhere":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=OTHER,
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(op, args, kwargs or {})

    def __repr__(self) -> str:
        return f"Elsewhere({self.held})"


class OtherDevice(TorchDispatchMode):
    """While it is on, what is to be made on the other device is made there."""

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(op, args, kwargs or {})


def strided(size: Any, stride: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Elsewhere:
    return Elsewhere(torch.empty_strided(size, stride, dtype=dtype))


def copied(source: torch.Tensor, target: Elsewhere, non_blocking: bool = False) -> Elsewhere:
    target.held.copy_(getattr(source, "held", source))
    return target


def computed(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What op makes, on the device that it is asked for, or else on that of what it is given."""
    if op is aten._has_compatible_shallow_copy_type.default:
        return False  # so that a module that moves gets new tensors
    leaves = pytree.tree_leaves((args, kwargs))
    given = [value for value in leaves if isinstance(value, torch.Tensor)]
    asked = [value for value in leaves if isinstance(value, torch.device)]
    if not asked and op not in COPIES:
        check(op, args, given)
    device = next((value.device for value in given if value.dim()), given[0].device if given else None)
    device = asked[0] if asked else device
    owners = {id(value.held): value for value in given if isinstance(value, Elsewhere)}
    out = op(*pytree.tree_map(taken, args), **pytree.tree_map(taken, kwargs))
    return pytree.tree_map(lambda value: put(value, owners) if device == OTHER else value, out)


def taken(value: Any) -> Any:
    """The value as the CPU is given it."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.held if isinstance(value, Elsewhere) else value


def put(value: Any, owners: dict[int, Elsewhere]) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    owner = owners.get(id(value))
    return Elsewhere(value) if owner is None else owner


def check(op: Any, args: tuple[Any, ...], given: list[torch.Tensor]) -> None:
    """Raise RuntimeError where tensors of both devices meet; numbers and indices from the CPU may."""
    indices = {id(value) for value in args[1] if value is not None} if op in INDEXED else set()
    bound = [value for value in given if value.dim() and id(value) not in indices]
    bound += [value for value in given if isinstance(value, Elsewhere)]
    if len({value.device for value in bound}) > 1:
        raise RuntimeError(f"{op}: expected all tensors to be on the same device")


_setup_privateuseone_for_python_backend()
# torch.tensor(…, device=…) asks the device itself, not the mode.
KERNELS = torch.library.Library("aten", "IMPL")
for name, kernel in (("empty_strided", strided), ("_copy_from", copied)):
    KERNELS.impl(name, kernel, "PrivateUse1")
