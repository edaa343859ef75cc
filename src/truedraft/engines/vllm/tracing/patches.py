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

        def undo() -> None:
            if vars(owner).get(method) is not call:
                return  # another has wrapped it since, and calls on; nothing is told any more
            if own:
                setattr(owner, method, inner)
            else:
                delattr(owner, method)

        self._undo.append(undo)
        return True

    def _tell(self, listener: Callable[[], None]) -> None:
        if not self._undo:
            return
        try:
            listener()
        except Exception as error:
            self.remove()
            self._failed(error)

    def remove(self) -> None:
        """Put every method back."""
        while self._undo:
            self._undo.pop()()
