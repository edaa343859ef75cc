"""Labels that run through a target's forward in the place of its hidden states."""

from __future__ import annotations

from typing import Any

from truedraft.engines.vllm.audit.stand_ins import Blank


class State(Blank):
    """A state of the target: `kind` of `layer`. A sum of a layer's two outputs is its residual stream."""

    def __init__(self, kind: str, layer: int) -> None:
        super().__init__(f"{kind} {layer}")
        object.__setattr__(self, "state", (kind, layer))

    def __add__(self, other: object) -> Any:  # type: ignore[override]
        parts = {self.state[0], other.state[0]} if isinstance(other, State) else set()
        if parts == {"hidden", "residual"} and self.state[1] == other.state[1]:  # type: ignore[attr-defined]
            return State("residual_stream", self.state[1])
        return Blank("sum")

    def mean(self, *args: object, **keywords: object) -> State:
        """Over the streams, once they are put together."""
        return State("stream_mean" if self.state[0] == "streams" else "mean", self.state[1])


def put_together(hidden: Any, *args: object) -> Any:
    """Stands for the kernel that puts hyper-connection streams together."""
    return State("streams", hidden.state[1]) if isinstance(hidden, State) else Blank("streams")
