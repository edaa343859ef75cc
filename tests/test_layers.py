"""The import order of the packages, and the public names."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import truedraft

SOURCE = Path(truedraft.__file__).parent
ORDER = [
    "contract",
    "formats",
    "fetch",
    "checks",
    "decode",
    "models",
    "measure",
    "stats",
    "probe",
    "trace",
    "diagnose",
    "engines",
    "cli",
]


def imports(path: Path) -> set[str]:
    """truedraft subpackages that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [str(node.module)]
            if node.module == "truedraft":
                names = [f"truedraft.{alias.name}" for alias in node.names if alias.name in ORDER]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("truedraft.")}
    return found


@pytest.mark.parametrize("package", ORDER)
def test_packages_import_only_earlier_ones(package):
    allowed = set(ORDER[: ORDER.index(package) + 1])
    for path in (SOURCE / package).rglob("*.py"):
        assert imports(path) <= allowed, path


def test_every_package_is_in_the_order():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == set(ORDER)


@pytest.mark.parametrize("package", ["truedraft", *(f"truedraft.{name}" for name in ORDER[:-1])])
def test_all_is_exact_and_importable(package):
    module = importlib.import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        getattr(module, name)


def test_reading_needs_no_torch():
    code = "import sys, truedraft.contract, truedraft.formats; print({'torch', 'numpy'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
