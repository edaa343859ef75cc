"""Ways to ask a chat model to complete a function; evaluation uses the first."""

from __future__ import annotations

import random

WRAPPERS = (
    "Complete the following Python function.\n\n```python\n{code}```",
    "Write the body of this Python function:\n\n```python\n{code}```",
    "{code}",
    "Please implement this function in Python and explain briefly how it works.\n\n{code}",
    "Finish this code:\n\n{code}",
)


def wrapped(code: str, chance: random.Random) -> str:
    """A request for `code`; half of them in the form that evaluation uses."""
    return (WRAPPERS[0] if chance.random() < 0.5 else chance.choice(WRAPPERS)).format(code=code)
