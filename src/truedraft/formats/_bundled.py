"""Names that the user may give: directories, pairs that ship with the package, fetched targets."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truedraft.contract import InputError
from truedraft.formats._fetched import FETCHABLE, fetched_directory
from truedraft.formats._json import load_object
from truedraft.formats.readers import deepseek_v4

PAIRS = Path(__file__).resolve().parent.parent / "pairs"

Located = tuple[Path | None, Path | None]


def locate(name: str | Path) -> Located:
    """Target and drafter directory that `name` stands for.

    A bundled pair (`tiny`, `tiny/dspark`) gives both; a directory gives itself as the first, and so does a
    fetched target (`smollm2`). A directory that is called like either must be written with a leading `./`.
    Raises `InputError` if `name` is none of these, or a target that is not fetched yet.
    """
    if isinstance(name, str) and (bundled := _bundled(name)) is not None:
        return bundled.target_directory(), bundled.drafter
    if name in FETCHABLE:
        return fetched_directory(str(name)), None
    path = Path(name)
    try:
        exists, is_directory = path.exists(), path.is_dir()
    except OSError as error:
        raise InputError(f"{str(name)[:200]}: {error.strerror}") from None
    if is_directory and str(name):
        return path, None
    if exists and str(name):
        raise InputError(f"{name}: a file, expected the directory that holds config.json")
    known = ", ".join(bundled_pairs()) or "none"
    raise InputError(
        f"{str(name)!r:.200}: no such directory and no bundled pair (bundled: {known}); a hub id must be "
        "downloaded first, or have its headers fetched with --network (check, contract)"
    )


def locate_pair(target: str | Path, draft: str | Path | None) -> tuple[Path, Path]:
    """Directories of target and drafter; without `draft` it is the bundled pair's or inside the target."""
    target_directory, own_drafter = locate(target)
    if draft is not None:
        own_drafter = _locate_drafter(draft)
    if own_drafter is None and target_directory is not None and _has_drafter(target_directory):
        own_drafter = target_directory
    if target_directory is None or own_drafter is None:
        raise InputError(f"{target}: no drafter inside this target, expected a DRAFT directory or name")
    return target_directory, own_drafter


def _locate_drafter(name: str | Path) -> Path | None:
    """The directory of a drafter; that of a bundled pair needs no target (another copy may be at hand)."""
    if isinstance(name, str) and (bundled := _bundled(name)) is not None:
        return bundled.drafter
    return locate(name)[0]


def _has_drafter(directory: Path) -> bool:
    """Whether a target's config states a drafter in the same checkpoint."""
    return deepseek_v4.matches(load_object(directory / "config.json"))


def bundled_pairs() -> tuple[str, ...]:
    """Names of the pairs that ship with the package."""
    return tuple(sorted(path.parent.name for path in PAIRS.glob("*/pair.json")))


def is_bundled(name: str) -> bool:
    """Whether a name means a bundled pair (`tiny`, `tiny/dspark`), if perhaps a drafter that it lacks."""
    return name.split("/")[0] in bundled_pairs()


def evaluation_prompts(name: str) -> tuple[list[dict[str, str]], int]:
    """The stated evaluation prompts (`id`, `text`) of a bundled pair, and how many tokens to generate.

    Raises `InputError` if `name` is no bundled pair or its prompt file is not as documented.
    """
    if not is_bundled(name):
        raise InputError(f"{name}: not a bundled pair, so it has no evaluation prompts")
    pair = name.split("/")[0]
    file = PAIRS / pair / _text(_manifest(pair), "prompts", pair)
    data = load_object(file)
    prompts, count = data.get("prompts"), data.get("max_new_tokens")
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InputError(f"{file}#/max_new_tokens: found {count!r:.80}, expected a whole number >= 1")
    if not isinstance(prompts, list) or not prompts:
        raise InputError(f"{file}#/prompts: expected a list of prompts")
    out: list[dict[str, str]] = []
    for index, prompt in enumerate(prompts):
        fields = prompt if isinstance(prompt, dict) else {}
        if not all(isinstance(fields.get(key), str) for key in ("id", "text")):
            raise InputError(f"{file}#/prompts/{index}: expected an object with the strings id and text")
        out.append({"id": fields["id"], "text": fields["text"]})
    return out, count


@dataclass(frozen=True)
class _Bundled:
    """A bundled pair's name, its manifest, and the directory of the drafter that is meant."""

    pair: str
    manifest: dict[str, Any]
    drafter: Path

    def target_directory(self) -> Path:
        """The target that ships with the pair, or the fetched one that its manifest names."""
        if "fetched_target" not in self.manifest:
            return PAIRS / self.pair / "target"
        return fetched_directory(_text(self.manifest, "fetched_target", self.pair))


def _bundled(name: str) -> _Bundled | None:
    if os.path.isabs(name) or name.startswith("."):
        return None
    pair, _, drafter = name.rstrip("/").partition("/")
    if pair not in bundled_pairs() or name.endswith("/"):
        return None
    manifest = _manifest(pair)
    drafters = manifest.get("drafters")
    if not isinstance(drafters, list) or not all(isinstance(d, str) for d in drafters):
        raise InputError(f"{PAIRS / pair / 'pair.json'}#/drafters: expected a list of names")
    drafter = drafter or _text(manifest, "default", pair)
    if drafter not in drafters:
        expected = ", ".join(drafters)
        raise InputError(f"{name}: pair {pair} has no drafter {drafter!r}, expected one of {expected}")
    return _Bundled(pair, manifest, PAIRS / pair / drafter)


def _manifest(pair: str) -> dict[str, Any]:
    return load_object(PAIRS / pair / "pair.json")


def _text(manifest: dict[str, Any], key: str, pair: str) -> str:
    value = manifest.get(key)
    if not isinstance(value, str):
        raise InputError(f"{PAIRS / pair / 'pair.json'}#/{key}: found {value!r:.80}, expected a string")
    return value
