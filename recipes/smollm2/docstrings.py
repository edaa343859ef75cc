"""Real Python functions of permissively licensed packages as completion tasks and texts to explain."""

from __future__ import annotations

import ast
import random
import re
import textwrap
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from sysconfig import get_path

WHEELS = {
    "boltons": ("boltons", "26.2.0", "BSD-3-Clause"),
    "more_itertools": ("more-itertools", "11.2.1", "MIT"),
    "networkx": ("networkx", "3.6.1", "BSD-3-Clause"),
    "sympy": ("sympy", "1.14.0", "BSD-3-Clause"),
    "toolz": ("toolz", "1.2.0", "BSD-3-Clause"),
}
"""Top folder of the wheel -> package, version, licence; the standard library (PSF-2.0) comes on top."""

SKIPPED = re.compile(r"(^|/)(tests?|idlelib|lib2to3|site-packages|turtledemo|ensurepip|benchmarks)/")
SHORTEST, LONGEST = 60, 900


@dataclass(frozen=True)
class Function:
    """One function: its source up to the end of the docstring, and the docstring's first paragraph."""

    origin: str
    name: str
    head: str
    summary: str


def functions(wheels: Path, *, methods: bool = False) -> list[Function]:
    """All fitting functions of the standard library and of the wheels in a folder, sorted by origin.

    `methods`: those of classes too.
    """
    found: list[Function] = []
    library = Path(get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        relative = path.relative_to(library).as_posix()
        if not SKIPPED.search(relative):
            found += _of_source(f"stdlib:{relative}", path.read_text(errors="replace"), methods)
    for folder, (package, version, _) in WHEELS.items():
        (wheel,) = wheels.glob(f"{package.replace('-', '_')}-{version}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                if name.startswith(f"{folder}/") and name.endswith(".py") and not SKIPPED.search(name):
                    found += _of_source(f"{package}:{name}", archive.read(name).decode(), methods)
    return found


def _of_source(origin: str, source: str, methods: bool = False) -> Iterator[Function]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    lines = source.splitlines()
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)] if methods else []
    for node in [*tree.body, *(inner for one in classes for inner in one.body)]:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        text = ast.get_docstring(node)
        if not text or not text.isascii() or len(node.body) < 2:
            continue
        end = node.body[0].end_lineno
        assert end is not None
        head = textwrap.dedent("\n".join(lines[node.lineno - 1 : end])) + "\n"
        summary = " ".join(text.split("\n\n")[0].split())
        if SHORTEST <= len(head) <= LONGEST and len(summary) >= 20:
            yield Function(origin, node.name, head, summary)


EXPLAIN = (
    'The documentation of the Python function `{name}` says: "{summary}" When would I use it?',
    "Explain what this Python function does and give an example of how to call it:\n\n{head}",
    'Rewrite this sentence so that a beginner understands it: "{summary}"',
    "Summarize this documentation in one sentence:\n\n{head}",
    "Write three unit tests for this function:\n\n{head}",
    "Suggest a better name than `{name}` for a function described like this: {summary}",
)


def explanation(function: Function, chance: random.Random) -> str:
    """A question about one function's documentation."""
    text = chance.choice(EXPLAIN)
    return text.format(name=function.name, summary=function.summary, head=function.head)
