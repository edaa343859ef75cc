"""What `probe` and `doctor` need before they start: the target, its tokenizer, prompts, values to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truedraft.cli._architecture import import_architecture
from truedraft.cli._probe_options import split_axes
from truedraft.cli._progress import bar, engine_imports, set_threads, status
from truedraft.cli._prompts import gather, tokenize
from truedraft.contract import AXES, CHAIN_FAMILIES, Contract, InputError, Value
from truedraft.formats import Resolution, resolve

if TYPE_CHECKING:
    from truedraft.measure import Prompt
    from truedraft.probe import ProbeReport


@dataclass(frozen=True)
class Material:
    """A resolved pair whose target is in memory. `new_tokens`: how many to generate per prompt."""

    resolution: Resolution
    model: Any
    tokenizer: Any
    prompts: list[Prompt]
    new_tokens: int

    @property
    def special_token_ids(self) -> tuple[int, ...]:
        """Ids that stand for no text: they may be mask tokens. Also the first id behind the tokenizer's."""
        if self.tokenizer is None:
            return ()
        added = [*self.tokenizer.all_special_ids, *self.tokenizer.added_tokens_decoder]
        ids = [int(i) for i in dict.fromkeys([*added, len(self.tokenizer)])]
        return tuple(i for i in ids if 0 <= i < self.resolution.contract.target.vocab_size)[:MOST_IDS]


MOST_IDS = 32
"""Special tokens that are tried as mask tokens at most; tokenizers with hundreds reserve them by number."""


def material(
    target: str,
    draft: str | None,
    overrides: Sequence[str],
    texts: Sequence[str],
    prompt_file: Path | None,
    threads: int | None,
    speculative_tokens: int | None,
    quiet: bool,
) -> Material:
    """Resolve the pair, gather prompts, load the target. Raises `InputError` for what cannot be used."""
    resolution = resolve(target, draft, overrides)
    if speculative_tokens is not None and resolution.contract.family not in CHAIN_FAMILIES:
        family = resolution.contract.family
        raise InputError(
            f"--k {speculative_tokens}: a {family} drafter makes its whole block, expected no --k"
        )
    entries, stated_tokens = gather(texts, prompt_file, target, draft)
    with engine_imports():
        from truedraft.models.load import load_model, load_tokenizer

        import_architecture(resolution.contract.target.model_type)
    with status("loading the target", quiet):
        model = load_model(resolution)
        tokenizer = load_tokenizer(resolution.target.directory)
    set_threads(model, threads)
    prompts = tokenize(entries, tokenizer, resolution.contract.target)
    return Material(resolution, model, tokenizer, prompts, stated_tokens)


def tries_of(items: Sequence[str], contract: Contract) -> dict[str, list[Value]]:
    """`--try AXIS=VALUE` as candidates by axis. Raises `InputError` for an unknown axis or a bad value."""
    out: dict[str, list[Value]] = {}
    for item in items:
        name, equals, text = item.partition("=")
        name = name.strip()
        if not equals or name not in AXES:
            raise InputError(f"--try {item[:80]}: expected AXIS=VALUE; `truedraft contract` lists all axes")
        axis = AXES[name]
        try:
            value = axis.parse(text, axis.count(contract))
        except InputError as error:
            raise InputError(str(error).replace("--set", "--try", 1)) from None
        out.setdefault(name, []).append(axis.normal(value))
    return out


def probed(
    found: Material,
    names: tuple[str, str | None],
    overrides: Sequence[str],
    settings: Mapping[str, Any],
    *,
    new_tokens: int | None,
    speculative_tokens: int | None,
    given: bool,
    quiet: bool,
) -> ProbeReport:
    """Run the probe. `settings`: axes, tries, budget, memory_mb and seed as the options give them."""
    from truedraft.probe import Settings, Wiring, probe

    wiring = Wiring(*names, overrides, found.special_token_ids, speculative_tokens)
    how = Settings(
        axes=split_axes(settings["axes"]),
        tries=tries_of(settings["tries"], found.resolution.contract),
        max_new_tokens=new_tokens or found.new_tokens,
        seed=settings["seed"],
        budget=settings["budget"],
        memory=settings["memory_mb"] * 2**20,
        given=given,
    )
    with bar("probing", quiet) as step:
        progress = None if step is None else lambda what, done, total: step(done, total, what)
        return probe(wiring, found.model, [prompt.tokens for prompt in found.prompts], how, progress)
