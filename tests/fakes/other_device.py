"""A second device on a machine that has only a CPU: its tensors are kept apart as a GPU's are.

They are computed on the CPU. As with a GPU, an operation over tensors of both devices is an error, except for
copies, numbers and indices. torch calls the device "privateuseone".
"""

from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

OTHER = torch.device("privateuseone", 0)
aten = torch.ops.aten
COPIES = {aten._to_copy.default, aten.copy_.default, aten._copy_from.default}
# torch accepts CPU indices for tensors on any device.
INDEXED = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}


class OtherDeviceTensor(torch.Tensor):
    """A tensor that reports the other device; `cpu_tensor` has its values."""

    cpu_tensor: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls: type, cpu_tensor: torch.Tensor) -> "OtherDeviceTensor":
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            cpu_tensor.shape,
            strides=cpu_tensor.stride(),
            storage_offset=cpu_tensor.storage_offset(),
            dtype=cpu_tensor.dtype,
            device=OTHER,
        )
        tensor.cpu_tensor = cpu_tensor
        return tensor

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(op, args, kwargs or {})

    def __repr__(self) -> str:
        return f"Elsewhere({self.cpu_tensor})"


class OtherDevice(TorchDispatchMode):
    """Inside, tensors created for the other device are OtherDeviceTensors."""

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(op, args, kwargs or {})


def empty_strided(
    size: Any, stride: Any, dtype: torch.dtype | None = None, **kwargs: Any
) -> OtherDeviceTensor:
    return OtherDeviceTensor(torch.empty_strided(size, stride, dtype=dtype))


def copy_from(
    source: torch.Tensor, target: OtherDeviceTensor, non_blocking: bool = False
) -> OtherDeviceTensor:
    target.cpu_tensor.copy_(getattr(source, "cpu_tensor", source))
    return target


def dispatch(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of `op`, on the device that the arguments name, or else on that of the tensors."""
    if op is aten._has_compatible_shallow_copy_type.default:
        return False  # so that a module that moves gets new tensors
    leaves = pytree.tree_leaves((args, kwargs))
    tensors = [value for value in leaves if isinstance(value, torch.Tensor)]
    devices = [value for value in leaves if isinstance(value, torch.device)]
    if not devices and op not in COPIES:
        check_devices(op, args, tensors)
    device = next((value.device for value in tensors if value.dim()), tensors[0].device if tensors else None)
    device = devices[0] if devices else device
    owners = {id(value.cpu_tensor): value for value in tensors if isinstance(value, OtherDeviceTensor)}
    out = op(*pytree.tree_map(to_cpu, args), **pytree.tree_map(to_cpu, kwargs))
    return pytree.tree_map(lambda value: to_other_device(value, owners) if device == OTHER else value, out)


def to_cpu(value: Any) -> Any:
    """The value as the CPU gets it."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.cpu_tensor if isinstance(value, OtherDeviceTensor) else value


def to_other_device(value: Any, owners: dict[int, OtherDeviceTensor]) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    owner = owners.get(id(value))
    return OtherDeviceTensor(value) if owner is None else owner


def check_devices(op: Any, args: tuple[Any, ...], tensors: list[torch.Tensor]) -> None:
    """Raises RuntimeError if tensors of both devices meet, except for numbers and CPU indices."""
    indices = {id(value) for value in args[1] if value is not None} if op in INDEXED else set()
    bound = [value for value in tensors if value.dim() and id(value) not in indices]
    bound += [value for value in tensors if isinstance(value, OtherDeviceTensor)]
    if len({value.device for value in bound}) > 1:
        raise RuntimeError(f"{op}: expected all tensors to be on the same device")


_setup_privateuseone_for_python_backend()
# torch.tensor(…, device=…) calls the device's kernels directly, not the mode.
KERNELS = torch.library.Library("aten", "IMPL")
for name, kernel in (("empty_strided", empty_strided), ("_copy_from", copy_from)):
    KERNELS.impl(name, kernel, "PrivateUse1")
