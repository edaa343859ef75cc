"""DSpark stages inside DeepSeek-V4: which config their rope and window are read from.

Upstream reads taps, rank, noise id and block size from the drafter's config, and `compress_ratios`, rope and
window of the stages from the TARGET's: the same file, unless a hybrid serves one checkpoint's stages on
another. The fork of the founding reports resolves a stage by `resolve_layer_compress_ratio`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from truedraft.contract import Value
from truedraft.formats._keys import INTEGER, INTEGERS, NUMBER, Keys
from truedraft.formats.engines._types import Fact, PairFiles
from truedraft.formats.engines.vllm._release import Release
from truedraft.formats.readers.deepseek_v4.keys import text_keys, yarn

_ROPE = "models/deepseek_v4/common/rope.py"
_ATTENTION = "models/deepseek_v4/attention.py"
_DSPARK = "models/deepseek_v4/nvidia/dspark.py"


def compress_ratio(ratios: Sequence[int], layers: int, layer_id: int) -> tuple[int, bool]:
    """What the fork resolves for a layer: its ratio (at least 1), and whether its rope is unscaled.

    `layers`: the target's, whose ids come first. A layer beyond the list is taken to be scaled, which is the
    fault.
    """
    if layer_id < layers:
        return max(1, ratios[layer_id]), False
    if layer_id < len(ratios):
        return max(1, ratios[layer_id]), ratios[layer_id] == 0
    return 1, False


def mended_compress_ratio(ratios: Sequence[int], layers: int, layer_id: int) -> tuple[int, bool]:
    """As `compress_ratio`, with the founding report's fix: a layer beyond the list has plain rope."""
    if layer_id >= max(layers, len(ratios)):
        return 1, True
    return compress_ratio(ratios, layers, layer_id)


def stages(release: Release, files: PairFiles) -> Iterator[Fact]:
    """Number, window and rope of the stages."""
    if not files.embedded:
        return
    target = text_keys(files.target)
    count = files.keys.get("n_mtp_layers", INTEGER)
    if not release.fork:
        why = "n_mtp_layers of the draft config, 3 without it"
        yield Fact("backbone.layers", 3 if count is None else count, why, release.at(_DSPARK))
    window = target.get("sliding_window", INTEGER)
    if window is not None:
        why = "the stages take sliding_window from the target's config"
        yield Fact("attention.window", (window,) * files.layers, why, release.at(_DSPARK))
    yield from _rope(release, files, target)


def _rope(release: Release, files: PairFiles, target: Keys) -> Iterator[Fact]:
    theta = target.get("rope_theta", NUMBER)
    if theta is not None:
        why = "the stages take rope_theta from the target's config"
        yield Fact("rope.theta", (float(theta),) * files.layers, why, release.at(_ROPE))
    record = yarn(target)
    scaled = _scaled(release, files, target)
    value: tuple[Value, ...] = tuple(record if entry else None for entry in scaled)
    if release.fork:
        ratios = target.get("compress_ratios", INTEGERS) or ()
        ids = files.native.tuple_of("stages.layers")
        beyond = [str(i) for i in ids if int(str(i)) >= len(ratios)]
        why = "stages are looked up in the target's compress_ratios"
        if beyond:
            why += f", which has {len(ratios)} entries, so {', '.join(beyond)} fall to its default, YaRN"
        fix = "copy the draft's compress_ratios into the target's config, zeros at the end"
        cost = (
            "0.780/3.19 to 0.774/3.16 when mended, one boot per arm: inconclusive; upstream 57 % to 69 % "
            "together with another fix (vllm#48304)"
        )
        yield Fact("rope.scaling", value, why, release.at(_ATTENTION), cost, fix)
    elif release.since(30):
        yield Fact("rope.scaling", value, "a ratio of at most 1 means plain rope", release.at(_ROPE))
    else:
        why = "every layer gets YaRN, whatever its ratio"
        cost = "57 % to 69 % when mended together with another fix (vllm#48304)"
        yield Fact("rope.scaling", value, why, release.at(_ROPE), cost, "0.30.0 or newer")


def _scaled(release: Release, files: PairFiles, target: Keys) -> tuple[bool, ...]:
    """Per stage, whether its rope is scaled."""
    if not release.fork:
        return (not release.since(30),) * files.layers
    layers = target.get("num_hidden_layers", INTEGER) or files.spec.layers
    ratios = target.get("compress_ratios", INTEGERS) or ()
    ids = [int(str(i)) for i in files.native.tuple_of("stages.layers")]
    return tuple(not compress_ratio(ratios, layers, i)[1] for i in ids)
