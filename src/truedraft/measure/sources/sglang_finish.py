"""SGLang's `Finish:` line (`--log-requests`): the `meta_info` of one request, as Python prints it.

Format: sglang#11144, #18332; `dataclass_to_string_truncated`. The prompt and the answer stand in the same
line and may hold anything: `meta_info` is the last entry of `out`, and the line ends with it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from truedraft.measure.sources.observation import Item, Notice
from truedraft.measure.sources.sglang_request import is_meta_info, read_meta_info

NAME = "sglang-finish"
MARKER = re.compile(r"Finish: obj=")

MOST_CHARACTERS = 2**16
_ENTRY = "'meta_info': "
_OUT = re.compile(r"[,(] ?out=\{")


@dataclass
class Reader:
    """Feed it the lines of a log; `where`: the file."""

    where: str

    def feed(self, number: int, line: str) -> Iterator[Item]:
        """The request that this line tells of, if it was decoded speculatively."""
        match = MARKER.search(line)
        if match is None:
            return
        where = f"{self.where}:{number}"
        found = _meta_info(line[match.end() :].rstrip())
        if found is None:
            yield Notice(where, "partial", "Finish line without a whole meta_info: not used")
        elif is_meta_info(found) and not {"id", "finish_reason"} <= found.keys():
            yield Notice(where, "partial", "meta_info without id and finish_reason, maybe a quoted one")
        elif is_meta_info(found):
            yield from read_meta_info(found, where)

    @property
    def pending(self) -> bool:
        """Nothing is ever open: a line is whole or not used."""
        return False

    def finish(self) -> Iterator[Item]:
        """Nothing."""
        return iter(())


def _meta_info(text: str) -> dict[str, object] | None:
    """The last entry of `out`; `None` for what is cut, wrapped or no literal."""
    start = text.rfind(_ENTRY)
    if start < 0 or not text.endswith("}}") or not _OUT.search(text, 0, start):
        return None
    body = text[start + len(_ENTRY) : -1]
    if len(body) > MOST_CHARACTERS:
        return None
    try:
        value = ast.literal_eval(body)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return {str(key): entry for key, entry in value.items()} if isinstance(value, dict) else None
