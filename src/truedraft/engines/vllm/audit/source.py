"""The source files of one release of vLLM: read in place from a wheel, or from an environment.

Nothing is unpacked and nothing is imported. A wheel is a zip file (PEP 427) that may come from anywhere:
only members below `vllm/` are read, each up to a limit, and their names must stay there.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from types import CodeType

from truedraft.contract import InputError

MAX_MEMBERS = 50_000
MAX_FILE = 4 * 2**20
MAX_TOTAL = 128 * 2**20
"""Members of a wheel; bytes of one source file; bytes of all files that one audit reads."""

_NAME = re.compile(r"vllm([-_.][a-z0-9]+)*", re.IGNORECASE)
_VERSION = re.compile(r"\d+(\.\d+)+([a-z0-9.+-]*)")


@dataclass
class Source:
    """One release. `name`: its distribution; `version`: as its metadata states it, without local part.

    `codes`: definitions that were compiled, by file and name.
    """

    name: str
    version: str
    place: str
    _read: Callable[[str], bytes] = field(repr=False)
    _files: frozenset[str] = field(repr=False)
    _texts: dict[str, str] = field(default_factory=dict, repr=False)
    _trees: dict[str, ast.Module] = field(default_factory=dict, repr=False)
    codes: dict[tuple[str, str], CodeType] = field(default_factory=dict, repr=False)
    _total: int = field(default=0, repr=False)

    @property
    def minor(self) -> tuple[int, int]:
        """(0, 26) for 0.26.0."""
        major, minor, *_ = re.findall(r"\d+", self.version)
        return int(major), int(minor)

    def has(self, path: str) -> bool:
        """Whether the release has this file (`vllm/config/vllm.py`)."""
        return path in self._files

    def text(self, path: str) -> str:
        """A source file. Raises `InputError` if it is missing, too large or not text."""
        if path not in self._texts:
            where = f"{self.place}: {path}"
            if path not in self._files:
                raise InputError(f"{where}: found no such file, expected it in vLLM {self.version}")
            data = self._read(path)
            self._total += len(data)
            if len(data) > MAX_FILE:
                raise InputError(f"{where}: found a file of more than {MAX_FILE} bytes, expected source")
            if self._total > MAX_TOTAL:
                raise InputError(f"{where}: found more than {MAX_TOTAL} bytes of sources, expected fewer")
            try:
                self._texts[path] = data.decode("utf-8")
            except UnicodeDecodeError:
                raise InputError(f"{where}: found no UTF-8 text, expected Python source") from None
        return self._texts[path]

    def tree(self, path: str) -> ast.Module:
        """A source file's syntax tree, parsed once. Raises `InputError` as `text`."""
        if path not in self._trees:
            try:
                self._trees[path] = ast.parse(self.text(path), path)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                raise InputError(f"{self.place}: {path}: {error}, expected Python source") from None
        return self._trees[path]


def open_wheel(path: Path) -> Source:
    """The release in a wheel. Raises `InputError` if the file is no wheel of vLLM."""
    try:
        archive = zipfile.ZipFile(path)
        members = archive.infolist()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}, expected a wheel of vLLM") from None
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise InputError(f"{path}: {error}, expected a wheel of vLLM") from None
    if len(members) > MAX_MEMBERS:
        raise InputError(f"{path}: found {len(members)} members, expected at most {MAX_MEMBERS}")
    sizes: dict[str, int] = {}
    for member in members:
        name = member.filename
        if name.startswith("/") or "\\" in name or ".." in PurePosixPath(name).parts or "\0" in name:
            raise InputError(
                f"{path}: {name!r:.120}: found a member outside the wheel, expected relative names"
            )
        if name in sizes and name.endswith(".py"):
            raise InputError(f"{path}: {name:.120}: found twice, expected once")
        sizes[name] = member.file_size
    wheel = _Wheel(path, archive)
    metadata = [n for n in sizes if n.count("/") == 1 and n.endswith(".dist-info/METADATA")]
    if len(metadata) != 1:
        raise InputError(f"{path}: found {len(metadata)} files *.dist-info/METADATA, expected one")
    name, version = _identity(wheel(metadata[0]), f"{path}: {metadata[0]}")
    files = frozenset(n for n in sizes if n.startswith("vllm/") and n.endswith(".py"))
    return _checked(Source(name, version, str(path), wheel, files))


def open_installed() -> Source:
    """The release in this interpreter's environment, found without importing it."""
    try:
        spec = importlib.util.find_spec("vllm")
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise InputError("--installed: found no vllm in this environment, expected one (or --wheel FILE)")
    root = Path(next(iter(spec.submodule_search_locations)))
    files = frozenset(f"vllm/{p.relative_to(root).as_posix()}" for p in _sources(root))

    def read(path: str) -> bytes:
        with open(root.parent / path, "rb") as file:
            return file.read(MAX_FILE + 1)

    for metadata in sorted(root.parent.glob("vllm*.dist-info/METADATA")):
        with open(metadata, "rb") as file:
            name, version = _identity(file.read(MAX_FILE), str(metadata))
        return _checked(Source(name, version, str(root), read, files))
    raise InputError(f"{root}: found no vllm*.dist-info/METADATA beside it, expected the release's metadata")


def _sources(root: Path) -> Iterator[Path]:
    """Python files below `root`, without following links out of it."""
    for count, path in enumerate(root.rglob("*.py")):
        if count > MAX_MEMBERS:
            raise InputError(f"{root}: found more than {MAX_MEMBERS} files, expected fewer")
        yield path


@dataclass(frozen=True)
class _Wheel:
    path: Path
    archive: zipfile.ZipFile

    def __call__(self, name: str) -> bytes:
        """A member, at most one byte more than a file may have: sizes in the directory may lie."""
        try:
            with self.archive.open(name) as file:
                return file.read(MAX_FILE + 1)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            RuntimeError,
            NotImplementedError,
        ) as error:
            raise InputError(f"{self.path}: {name}: {error}, expected a readable member") from None


def _identity(data: bytes, where: str) -> tuple[str, str]:
    headers = HeaderParser().parsestr(data.decode("utf-8", "replace")[:100_000])
    name, version = headers.get("Name", ""), headers.get("Version", "").partition("+")[0]
    if not _NAME.fullmatch(name):
        raise InputError(f"{where}: found Name {name!r:.80}, expected vllm")
    if not _VERSION.fullmatch(version):
        raise InputError(f"{where}: found Version {version!r:.80}, expected a release number")
    return name, version


def _checked(source: Source) -> Source:
    if not source.has("vllm/__init__.py"):
        raise InputError(f"{source.place}: vllm/__init__.py: found no such file, expected the package vllm")
    return source
