"""A torch device for tests, ``"pretend"``: the CPU computes, and nothing may mix.

A tensor of the device wraps one of the CPU, which does the work; where code mixes the
devices, it raises as CUDA does. `without_float64` makes it refuse that type, as MPS
does. Tensors without dimensions may stay on the CPU where
operations go by elements, and so may positions that a tensor of the device is indexed
by. Draws are those of the CPU, from generators that must be of the device.

The module registers the device with torch, which cannot be undone, and is done once in
a process. Tests skip it where torch is too old to register what is written in Python,
and where there is CUDA: torch knows one accelerator in a process, and with a registered
device the gradients of tensors on CUDA fail.
"""

from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from weakref import WeakValueDictionary

import numpy as np
import pytest
import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "pretend"
IS_AVAILABLE = (
    hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
    and not torch.cuda.is_available()
)

aten = torch.ops.aten
# Besides operations by elements these take a value without dimensions from the CPU.
TAKE_SCALARS = {
    aten.fill_.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten.masked_fill.Tensor,
    aten.masked_fill_.Tensor,
}
INDEXED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}


class PretendTensor(torch.Tensor):
    """A tensor of the device; `inner` is that of the CPU which has its numbers."""

    has_float64 = True

    @staticmethod
    def __new__(cls, inner):
        if inner.dtype == torch.float64 and not cls.has_float64:
            raise TypeError("the device has no float64; use float32 instead")
        place = {}
        if inner.layout == torch.strided:
            place["strides"] = inner.stride()
            place["storage_offset"] = inner.storage_offset()
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=f"{NAME}:0",
            **place,
        )
        tensor.inner = inner
        return tensor

    def __repr__(self):
        return f"PretendTensor({self.inner})"

    def __reduce_ex__(self, protocol):
        is_parameter = isinstance(self, torch.nn.Parameter)
        return restored, (self.inner, self.requires_grad, is_parameter)

    def numpy(self, **kwargs):
        raise TypeError("can't convert a tensor of the device to numpy; use .cpu()")

    @property
    def layout(self):
        return self.inner.layout

    def tolist(self):
        return self.cpu().tolist()

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, value):
        torch.Tensor.data.__set__(self, value)
        self.inner = value.inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return compute(func, args, kwargs or {})


def restored(inner, requires_grad, is_parameter):
    tensor = PretendTensor(inner)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


class PretendGenerator(torch.Generator):
    """A generator that draws what one of the CPU would, for tensors of its device."""

    def __new__(cls, device="cpu"):
        generator = super().__new__(cls)
        generator.of = torch.device(device)
        _GENERATORS[generator._cdata] = generator
        return generator

    @property
    def device(self):
        return self.of

    def __reduce__(self):
        return PretendGenerator, (self.of,), self.get_state()

    def __setstate__(self, state):
        self.set_state(state)


# Operations are handed another object for a generator, of the same address.
_GENERATORS: WeakValueDictionary = WeakValueDictionary()


class Pretend(TorchDispatchMode):
    """Looks at whatever torch computes: also at that which no tensor takes part in."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return compute(func, args, kwargs or {})


def compute(func, args, kwargs):
    """Do an operation of the CPU, or on the CPU one of the device."""
    tensors = tensors_in((*args, *kwargs.values()))
    given = {id(one.inner): one for one in tensors if isinstance(one, PretendTensor)}
    device = kwargs.get("device")
    target = torch.device(device or (NAME if given else "cpu")).type
    check_generator(kwargs, target)
    if not given and target != NAME:
        return func(*args, **kwargs)
    if 0 < len(given) < len(tensors):
        check_devices(func, args, kwargs)
    if given and kwargs.get("dtype") == torch.float64 and device is not None:
        outer(torch.empty(0, dtype=torch.float64), given)  # converts, then moves
    if device is not None:
        kwargs = kwargs | {"device": "cpu"}
    result = func(*inner(args), **{name: inner(kwargs[name]) for name in kwargs})
    for one in given.values():
        if one.shape != one.inner.shape:  # as by `squeeze_`
            one.data = PretendTensor(one.inner)
    return result if target != NAME else outer(result, given)


def tensors_in(values):
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += tensors_in(value)
    return found


def inner(value):
    """Return what the CPU is given for an argument."""
    if isinstance(value, list | tuple):
        return [inner(one) for one in value]
    return value.inner if isinstance(value, PretendTensor) else value


def outer(value, given):
    """Return what the device answers: what it was given, where that was written to."""
    if isinstance(value, list | tuple):
        return type(value)([outer(one, given) for one in value])
    if not isinstance(value, torch.Tensor):
        return value
    return given[id(value)] if id(value) in given else PretendTensor(value)


def check_devices(func, args, kwargs):
    """Raise ``RuntimeError`` where tensors are of both devices, as CUDA does."""
    if func is aten.copy_.default:
        return
    if func in INDEXED and isinstance(args[0], PretendTensor):
        args = (args[0], *args[2:])  # not the positions
    tensors = tensors_in((*args, *kwargs.values()))
    others = [one for one in tensors if not isinstance(one, PretendTensor)]
    takes_scalars = func in TAKE_SCALARS or torch.Tag.pointwise in func.tags
    if func._schema.is_mutable and not isinstance(args[0], PretendTensor):
        takes_scalars = False
    if any(one.dim() or not takes_scalars for one in others):
        raise RuntimeError(
            f"{func}: expected all tensors to be on the same device, but found at "
            f"least two devices, {NAME}:0 and cpu"
        )


def check_generator(kwargs, device):
    generator = kwargs.get("generator")
    if generator is None:
        return
    generator = _GENERATORS.get(generator._cdata, generator)
    if generator.device.type != device:
        raise RuntimeError(
            f"expected a generator of {device!r}, but found one of "
            f"{generator.device.type!r}"
        )


def empty(operation):
    """Return what makes memory of the device, where no mode looks at it."""
    return lambda *args, **kwargs: PretendTensor(
        operation(*args, **kwargs | {"device": "cpu"})
    )


def copy_from(source, target, non_blocking=False):
    """Called by `torch.tensor`, beneath all that looks at subclasses."""
    target.inner.copy_(source)
    return target


def register():
    """Make torch know the device; the library that is returned has to stay."""
    stream = SimpleNamespace(synchronize=lambda: None, wait_stream=lambda other: None)
    module = backend_registration._DummyBackendModule()
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    module.get_rng_state = lambda device=None: torch.get_rng_state()
    module.set_rng_state = lambda state, device=None: None
    module.synchronize = lambda device=None: None
    module.current_stream = module.Stream = lambda device=None: stream
    module.stream = lambda stream: ExitStack()
    backend_registration._setup_privateuseone_for_python_backend(NAME, module)
    # Where a file is read onto the device, the numbers of its tensors stay.
    torch.serialization.register_package(
        0,
        lambda storage: None,
        lambda storage, place: storage if place.startswith(NAME) else None,
    )
    library = torch.library.Library("aten", "IMPL")
    for operation in (aten.empty.memory_format, aten.empty_strided.default):
        library.impl(operation, empty(operation), "PrivateUse1")
    library.impl("_copy_from", copy_from, "PrivateUse1")
    return library


_LIBRARY = register() if IS_AVAILABLE else None


@contextmanager
def pretending():
    """Let code make generators of the device, and watch all that torch does.

    Inside, parameters stay what they are when a module moves, as they do for CUDA, and
    the CPU leaves its own faster ways, which round otherwise: it answers bit for bit as
    the device does.
    """
    moved_in_place = torch.__future__.get_swap_module_params_on_conversion()
    with pytest.MonkeyPatch.context() as patch, Pretend():
        patch.setattr(torch, "Generator", PretendGenerator)
        patch.setattr(torch.cpu, "get_capabilities", dict)
        patch.setattr("skhash.training._net.fused_if_known", lambda *args: {})
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            yield
        finally:
            torch.__future__.set_swap_module_params_on_conversion(moved_in_place)


@contextmanager
def without_float64():
    """Let the device refuse float64 inside, also on the way to the CPU."""
    PretendTensor.has_float64 = False
    try:
        yield
    finally:
        PretendTensor.has_float64 = True


@contextmanager
def use(device):
    """Let a test use a device, or skip it where that is missing."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    if device == NAME and not IS_AVAILABLE:
        pytest.skip("torch registers no device in Python here, see `pretend`")
    with pretending() if device == NAME else nullcontext():
        yield device


def assert_as_on_cpu(answer, device, exact=False):
    """Compare what a function of the device answers with what it answers on the CPU.

    CUDA draws and rounds otherwise: its answers have to be finite there, unless they
    are to be `exact`.
    """
    found, expected = list(answer(device)), list(answer("cpu"))
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        one, other = map(as_array, (one, other))
        assert one.shape == other.shape and one.dtype == other.dtype
        if exact or device == NAME:
            np.testing.assert_array_equal(one, other)
        elif one.dtype.kind == "f":
            assert np.isfinite(one).all()


def as_array(values):
    return np.asarray(values.cpu() if isinstance(values, torch.Tensor) else values)
