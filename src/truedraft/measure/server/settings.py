"""How prompts are sent, and what one pass over them brought."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from truedraft.measure.server.reply import Reply
from truedraft.measure.sources.summary import Summary


@dataclass(frozen=True)
class Settings:
    """How the prompts are sent. `thinking`: `None` leaves it to the server's template."""

    model: str
    api: str = "chat"
    concurrency: int = 1
    temperature: float = 0.0
    seed: int | None = None
    max_new_tokens: int = 256
    thinking: bool | None = None
    repeat_prefix: bool = False
    cache_salt: bool = False
    timeout: float = 600.0

    def body(self, salt: str) -> dict[str, Any]:
        """What every request carries beside its prompt."""
        body: dict[str, Any] = {
            "model": self.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": self.max_new_tokens,
            "temperature": self.temperature,
        }
        if self.seed is not None:
            body["seed"] = self.seed
        if self.thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": self.thinking}
        if salt:
            body["cache_salt"] = salt
        return body


@dataclass
class Pass:
    """One pass over the prompts. `name`: `all`, `cold` or `warm`. `summary`: what its figures say.

    `counts`: number of the prompt -> rounds and accepted drafts, where the server tells them per request.
    """

    name: str
    seconds: float
    replies: list[Reply]
    summary: Summary = field(default_factory=lambda: Summary(keep_records=True))
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)

    def tau(self, number: int) -> float | None:
        """1 + accepted drafts / rounds of one prompt; `None` without counts or rounds."""
        rounds, accepted = self.counts.get(number, (0, 0))
        return 1 + accepted / rounds if rounds else None

    @property
    def failed(self) -> list[Reply]:
        """Replies without a whole answer."""
        return [reply for reply in self.replies if reply.error]

    def total(self, name: str) -> int | None:
        """Sum of a token count over all whole replies; `None` if any does not tell it."""
        counts = [getattr(reply, name) for reply in self.replies if not reply.error]
        return sum(counts) if counts and None not in counts else None

    def to_json(self) -> dict[str, Any]:
        """An entry of `passes`."""
        times = sorted(r.first for r in self.replies if r.first is not None and not r.error)
        return {
            "name": self.name,
            "requests": len(self.replies),
            "failed": len(self.failed),
            "seconds": self.seconds,
            "median_seconds_to_first_token": times[len(times) // 2] if times else None,
            "prompt_tokens": self.total("prompt_tokens"),
            "cached_tokens": self.total("cached_tokens"),
            "completion_tokens": self.total("output_tokens"),
            "acceptance": self.summary.acceptance.to_json(),
        }
