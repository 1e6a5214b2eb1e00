"""A device called `pretend`: it computes on the CPU, to the bit, and treats its callers as a GPU does.

Its name stands in torch's slot for the devices of others (`privateuseone`), so that `device=`, `.to`, `nn.Module.to`,
autograd and vmap know it. A tensor there is a wrapper of a CPU tensor: each operation that reaches it, after autograd
and vmap have had their part, is checked, counted and then computed on what the wrappers hold. Operations that make a
tensor from none, such as `torch.zeros(3, device="pretend")`, are registered for the slot.

What a GPU refuses is refused: tensors of two devices in one operation (a CPU tensor without dimensions may take part
where CUDA lets it), and random numbers from a CPU generator. Numbers from the device's own generator, which no seed of
this suite reaches, are refused too. What a GPU waits for is counted by `waits.Waits`. The host has page-locked memory,
as beside a GPU: `pin_memory` marks its result, and no other tensor is `is_pinned`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
from waits import Waits

NAME = "pretend"
CPU = torch.device("cpu")
aten = torch.ops.aten

READS = {
    "_linalg_check_errors",
    "_linalg_eigh",
    "_linalg_eigvals",
    "_linalg_svd",
    "_local_scalar_dense",
    "_unique2",
    "bincount",
    "equal",
    "linalg_eig",
    "linalg_lstsq",
    "masked_select",
    "nonzero",
    "unique_consecutive",
    "unique_dim",
    "unique_dim_consecutive",
}
"""Operations whose result, shape or error the host has to wait for."""
NO_SCALARS = {"cat", "stack", "dot"}
"""Operations that take no CPU tensor, not even one without dimensions."""


class Split(TorchDispatchMode):
    """Has operations on CPU tensors split as they are for the device: another way through `svdvals` costs a bit."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Compute the operation."""
        return func(*args, **(kwargs or {}))


class PretendTensor(torch.Tensor):
    """A tensor on the pretend device.

    Attributes:
        host: the CPU tensor with its numbers, of the same shape and strides.
    """

    host: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: Tensor) -> PretendTensor:
        """Return the wrapper of a CPU tensor."""
        wrapper: PretendTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            host.shape,
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=torch.device(NAME, 0),
        )
        wrapper.host = host
        return wrapper

    def __repr__(self) -> str:
        """Show the numbers."""
        return f"pretend({self.host!r})"

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        """The tensor without its history; what is assigned takes the place of the numbers."""
        return self.detach()

    @data.setter
    def data(self, value: PretendTensor) -> None:
        torch.Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self.host = value.host

    def tolist(self) -> Any:
        """Return the numbers as Python's; torch refuses this to subclasses."""
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Compute an operation of which one tensor at least is on the pretend device."""
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name == "copy_":
            return _copied(*args, **kwargs)
        _refuse_draws(func, kwargs)
        flat: list[Any] = []
        hosts = _unwrapped(args, flat)
        named = {key: _unwrapped(value, flat) for key, value in kwargs.items()}
        _refuse_mixtures(name, flat)
        if _waits(name, args):
            Waits.note(name)
        wrappers = {id(leaf.host): leaf for leaf in flat if isinstance(leaf, PretendTensor)}
        target = kwargs.get("device")
        if target is not None:
            named["device"] = CPU
            if target.type == CPU.type:
                Waits.note("download")
                return func(*hosts, **named)
        return _wrapped(func(*hosts, **named), wrappers)


def _unwrapped(value: Any, flat: list[Any]) -> Any:
    """Return an argument with the CPU tensors in the place of wrappers; its leaves are appended to a list."""
    if isinstance(value, (list, tuple)):
        return [_unwrapped(one, flat) for one in value]
    flat.append(value)
    return value.host if isinstance(value, PretendTensor) else value


def _wrapped(result: Any, wrappers: dict[int, PretendTensor]) -> Any:
    """Return a result with its tensors wrapped: by the argument's own wrapper where the operation worked in place."""
    if isinstance(result, (list, tuple)):
        return type(result)(_wrapped(one, wrappers) for one in result)
    if not isinstance(result, Tensor):
        return result
    host, own = result, wrappers.get(id(result))
    if own is None:
        return PretendTensor(host)
    if own.shape != host.shape or own.stride() != host.stride():
        with torch._C._DisableTorchDispatch(), torch._C._AutoDispatchBelowAutograd():
            own.as_strided_(host.shape, host.stride(), host.storage_offset())
    return own


def _copied(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """Return the target, with the source's numbers."""
    if not isinstance(target, PretendTensor):
        Waits.note("download")
        return target.copy_(source.host)  # type: ignore[attr-defined]
    if isinstance(source, PretendTensor):
        target.host.copy_(source.host)
        return target
    if not (non_blocking and source.is_pinned()):
        Waits.note("upload")
    target.host.copy_(source)
    return target


def _refuse_draws(func: Any, kwargs: dict[str, Any]) -> None:
    if torch.Tag.nondeterministic_seeded in func.tags:
        generator = kwargs.get("generator")
        if generator is not None:
            kind = generator.device.type
            raise RuntimeError(f"Expected a '{NAME}' device type for generator but found '{kind}'")
        raise RuntimeError(f"{func} draws from the device's global generator, which no seed reaches")


def _refuse_mixtures(name: str, flat: list[Any]) -> None:
    """Raise what CUDA raises where an operation gets tensors of two devices."""
    foreign = [leaf for leaf in flat if isinstance(leaf, Tensor) and not isinstance(leaf, PretendTensor)]
    written = name.endswith("_") and not isinstance(flat[0], PretendTensor)
    indices = name in ("index", "index_put_", "index_put")
    for tensor in foreign:
        index = indices and tensor is not flat[0] and tensor.dtype in (torch.int64, torch.int32, torch.bool)
        if written or name in NO_SCALARS or (tensor.dim() and not index):
            raise RuntimeError(
                f"{name}: Expected all tensors to be on the same device, but found at least two devices, "
                f"{NAME}:0 and {tensor.device}!"
            )
        if indices and tensor.dim():
            Waits.note("upload")


def _waits(name: str, args: tuple[Any, ...]) -> bool:
    """Say whether the host waits for an operation."""
    if name in READS or (name == "repeat_interleave" and len(args) < 2):
        return True
    if name in ("index", "index_put_", "index_put"):
        masked = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
        filled = name != "index" and args[2].numel() == 1 and not isinstance(args[2], PretendTensor)
        return masked and not filled
    return False


def _factories() -> Iterator[Any]:
    """Yield the operations that make tensors from none, but for those that others are composed of."""
    for schema in torch._C._jit_get_all_schemas():
        makes = any(argument.name == "device" for argument in schema.arguments)
        takes = any("Tensor" in str(argument.type) for argument in schema.arguments)
        if not schema.name.startswith("aten::") or not makes or takes:
            continue
        name = f"{schema.name}.{schema.overload_name}".rstrip(".")
        if not torch._C._dispatch_has_kernel(name):
            continue
        if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"):
            packet = getattr(aten, schema.name.removeprefix("aten::"))
            yield getattr(packet, schema.overload_name or "default")


def _made_by(func: Any) -> Callable[..., Tensor]:
    if func is aten._efficientzerotensor.default:  # it holds no numbers, and lets the operations on it be skipped
        func = aten.zeros.default

    def make(*args: Any, **kwargs: Any) -> Tensor:
        _refuse_draws(func, kwargs)
        return PretendTensor(func(*args, **(kwargs | {"device": CPU})))

    return make


def _pinned(source: Tensor, device: torch.device | None = None) -> Tensor:
    """Return a copy that says it is in page-locked memory."""
    copied = source.clone()
    copied.page_locked = True  # type: ignore[attr-defined]
    return copied


def _is_pinned(tensor: Tensor, device: torch.device | None = None) -> bool:
    return getattr(tensor, "page_locked", False)


def register() -> torch.device:
    """Return the device, after it has been made known to torch, once a process and before autograd's first use."""
    if not hasattr(torch, NAME):
        _setup_privateuseone_for_python_backend(NAME)
        library = torch.library.Library("aten", "IMPL")
        for func in _factories():
            library.impl(func, _made_by(func), "PrivateUse1")
        # torch.tensor keeps its own copy from what tensor subclasses dispatch
        library.impl("_copy_from", lambda source, target, *rest: _copied(target, source, *rest), "PrivateUse1")
        library.impl("_pin_memory", _pinned, "CPU")
        library.impl("is_pinned", _is_pinned, "CPU")
        LIBRARIES.append(library)
    return torch.device(NAME)


LIBRARIES: list[torch.library.Library] = []
"""Keeps the registrations alive."""
