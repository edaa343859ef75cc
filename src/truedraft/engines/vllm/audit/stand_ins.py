"""What stands in for everything that a release imports and this audit does not run: torch, kernels, layers.

A `Blank` stands for a value that nobody computed. It may be passed on, called and calculated with; the
moment the release's code would decide something by it, `Gap` ends the run. So no result ever rests on a
made-up value.
"""

from __future__ import annotations

from typing import Any


class Gap(BaseException):
    """The release's code asked a stand-in for something that it does not know.

    Not an `Exception`: the release's own handlers must not take it for a fault of the config.
    """


def _blank(self: Blank, *args: object) -> Blank:
    return Blank(self._name)


def _unknown(self: Blank, *args: object) -> Any:
    raise Gap(f"decided by {self._name}, which the audit does not run")


class Blank:
    """A value that nobody computed; `_name` says whose."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Blank(f"{self._name}.{name}")

    def __call__(self, *args: object, **keywords: object) -> Blank:
        """Another blank."""
        return Blank(f"{self._name}()")

    def __getitem__(self, key: object) -> Blank:
        return Blank(f"{self._name}[]")

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def __enter__(self) -> Blank:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (Part,) if Part not in bases else ()

    def __repr__(self) -> str:
        return f"<{self._name}>"

    __hash__ = object.__hash__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _blank
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __pow__ = __rpow__ = _blank
    __neg__ = __or__ = __ror__ = __and__ = __rand__ = __invert__ = _blank
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _blank  # type: ignore[assignment]
    __bool__ = __len__ = __iter__ = __contains__ = __int__ = __index__ = __float__ = _unknown
    __instancecheck__ = __subclasscheck__ = _unknown


class Part:
    """Stands for `torch.nn.Module` and any layer: keeps how it was made (`args`, `keywords`)."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        self.args, self.keywords = args, keywords

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__()

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Its forward, if the release defines one."""
        forward = getattr(self, "forward", None)
        return Blank(type(self).__name__) if forward is None else forward(*args, **keywords)

    def register_buffer(self, *args: object, **keywords: object) -> None:
        """Torch's, without effect."""

    @staticmethod
    def enabled() -> bool:
        """Of vLLM's `CustomOp`: no custom kernels here."""
        return False


class Parts(Part, list[Any]):
    """Stands for `torch.nn.ModuleList`."""

    def __init__(self, entries: Any = ()) -> None:
        list.__init__(self, entries)


def part(name: str) -> type[Part]:
    """A class of parts with weights that is called `name`."""
    return type(name, (Part,), {"weight": Blank(f"{name}.weight")})


class Shell:
    """An object of the release whose class is not run: has the attributes given, all others are blank."""

    def __init__(self, _name: str, **attributes: Any) -> None:
        self._name = _name
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Blank(f"{self._name}.{name}")


class Tensor:
    """A strided view of memory, as `KVBlockZeroer` looks at it: begin in bytes, strides in elements."""

    def __init__(self, begin: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int = 1) -> None:
        self.begin, self.shape, self.strides, self.size = begin, shape, strides, size
        self.ndim = len(shape)
        self.device = Shell("tensor.device", type="cuda")

    def data_ptr(self) -> int:
        """The first byte."""
        return self.begin

    def stride(self, dimension: int) -> int:
        """Elements from one index to the next."""
        return self.strides[dimension]

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.size
