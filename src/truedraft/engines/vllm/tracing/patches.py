"""Listens to methods of living objects, and leaves them as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Before = Callable[[tuple[Any, ...], dict[str, Any]], None]
After = Callable[[tuple[Any, ...], dict[str, Any], Any], None]


class Patches:
    """Methods that are listened to. Only the instance is changed, so that other models are not touched.

    A listener's error ends all listening and is handed to `failed`; the methods go on as they would.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._undo: list[Callable[[], None]] = []
        self._failed = failed

    def listen(
        self, owner: Any, method: str, *, before: Before | None = None, after: After | None = None
    ) -> bool:
        """Call `before(args, kwargs)` and `after(args, kwargs, result)` around a method of this object.

        Returns whether the object has it.
        """
        inner = getattr(owner, method, None)
        if not callable(inner):
            return False

        def call(*args: Any, **kwargs: Any) -> Any:
            if before is not None:
                self._tell(lambda: before(args, kwargs))
            result = inner(*args, **kwargs)
            if after is not None:
                self._tell(lambda: after(args, kwargs, result))
            return result

        own = method in vars(owner)
        setattr(owner, method, call)
        self._undo.append(lambda: setattr(owner, method, inner) if own else delattr(owner, method))
        return True

    def _tell(self, listener: Callable[[], None]) -> None:
        try:
            listener()
        except Exception as error:
            self.remove()
            self._failed(error)

    def remove(self) -> None:
        """Put every method back."""
        while self._undo:
            self._undo.pop()()
