"""TD2xx beyond their cases: silence on sound pairs, no fact told twice, bounded reads, V4's own stages."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from case import found, told
from checkpoints import CONFIGS, DEEPSPEC, GOLDENS, SPECULATORS_DSPARK, TARGET, write
from stage_files import SMALL as V4_SMALL
from stage_files import stage_shapes
from tensor_pairs import (
    EAGLE,
    OFFSETS,
    Stored,
    Tensors,
    constant,
    drop,
    filled,
    numbers,
    pair,
    put,
    raw,
    whole,
    write_tensors,
)

from truedraft.checks import Finding, Subject, run_checks
from truedraft.contract import InputError
from truedraft.formats import TensorRef, bundled_pairs, inspect, tensor_values
from truedraft.formats.tensor_values import floats, integers, rows

PAIRS = Path(tensor_values.__file__).parents[1] / "pairs"
MANIFESTS = {name: json.loads((PAIRS / name / "pair.json").read_text()) for name in bundled_pairs()}
BUNDLED = [
    f"{name}/{drafter}"
    for name, manifest in MANIFESTS.items()
    if "fetched_target" not in manifest  # tests/pairs/test_smollm2_files.py has the others
    for drafter in manifest["drafters"]
]
REAL = sorted(path.name for path in GOLDENS.iterdir() if (path / "draft").is_dir())
V4 = json.loads((CONFIGS / "deepseek-ai__DeepSeek-V4-Flash-DSpark.partial.json").read_text())


def tensor_findings(subject: Subject, *, notes: bool = False) -> list[Finding]:
    return list(run_checks(subject, select=["TD2"], pedantic=notes).findings)


def codes(subject: Subject, prefix: str = "TD2") -> list[str]:
    return [f.code for f in run_checks(subject, pedantic=True).findings if f.code.startswith(prefix)]


def test_there_are_seven_bundled_drafters() -> None:
    assert len(BUNDLED) == 7


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_pairs_are_sound(name: str, weights: bool) -> None:
    assert tensor_findings(Subject(inspect(name), weights=weights)) == []


@pytest.mark.parametrize("case", REAL)
def test_real_checkpoints_are_sound(case: str) -> None:
    subject = Subject(inspect(GOLDENS / case / "target", GOLDENS / case / "draft"), weights=True)
    assert tensor_findings(subject) == []
    assert {finding.code for finding in tensor_findings(subject, notes=True)} <= {"TD208"}


def test_a_copied_reduced_head_is_found_through_the_map() -> None:
    copies = [f.message for f in found(Subject(inspect("tiny/eagle3"), weights=True), "TD208")]
    assert [message.split(" is a copy")[0] for message in copies] == ["embed_tokens.weight", "lm_head.weight"]


@pytest.mark.parametrize("base", [EAGLE, DEEPSPEC, SPECULATORS_DSPARK])
def test_healthy_pairs_are_silent(base: dict[str, Any], tmp_path: Path) -> None:
    assert codes(pair(tmp_path, base=base, weights=True)) == []


def test_no_weights_no_word(tmp_path: Path) -> None:
    target = write(tmp_path / "target", TARGET)
    for base in (DEEPSPEC, EAGLE, V4):
        draft = write(tmp_path / "draft", base)
        assert codes(Subject(inspect(target, draft), weights=True)) == []


def test_no_contract_no_word(tmp_path: Path) -> None:
    subject = pair(tmp_path, drop("fc.weight"), change={"vocab_size": 300}, weights=True)
    assert subject.contract is None
    assert codes(subject) == []


@pytest.mark.parametrize(
    ("edit", "options", "expected"),
    [
        (drop("layers.1."), {}, {"TD209"}),
        (put(fc__weight=raw("U8", 64, 96)), {}, {"TD205"}),
        (put(fc__weight=filled(64, 128)), {}, {"TD203"}),
        (put(lm_head__weight=filled(128, 64)), {"base": DEEPSPEC}, {"TD204"}),
        (put(lm_head__weight=filled(128, 32)), {"base": DEEPSPEC}, {"TD204"}),
        (put(lm_head__weight=filled(256, 32)), {"base": DEEPSPEC}, {"TD203"}),
        (put(embed_tokens__weight=filled(256, 64)), {}, {"TD208"}),
        (put(d2t=whole([0] * 256)), {}, {"TD202"}),
        (drop("d2t"), {"base": EAGLE}, {"TD201"}),
        (put(d2t=whole([0] * 100)), {"base": EAGLE}, {"TD207"}),
        (None, {"change": {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}}, set()),
        (None, {"change": {"intermediate_size": 96}}, set()),
        (None, {"base": EAGLE, "change": {"draft_vocab_size": 100}}, set()),
        (put(input_norm__weight=filled(192)), {"base": EAGLE, "change": {"norm_before_fc": False}}, set()),
        (drop("markov_head.markov_w2.weight"), {"base": DEEPSPEC}, {"TD201"}),
    ],
)
def test_one_fault_one_code(edit: Any, options: dict[str, Any], expected: set[str], tmp_path: Path) -> None:
    """What TD101 asks already is not told again."""
    subject = pair(tmp_path, edit, **options)
    assert set(codes(subject)) == expected
    if not expected:
        assert "TD101" in codes(subject, "TD1")


def test_a_wrong_prefix_is_one_finding(tmp_path: Path) -> None:
    def prefixed(tensors: Tensors) -> None:
        for name in list(tensors):
            tensors[f"drafter.{name}"] = tensors.pop(name)

    (finding,) = tensor_findings(pair(tmp_path, prefixed))
    assert finding.code == "TD201"
    assert "36 tensors missing: norm.weight, fc.weight, hidden_norm.weight" in finding.message
    assert "and 10 more (the files have drafter.norm.weight)" in finding.message


def test_missing_tensors_of_many_layers_are_one_finding(tmp_path: Path) -> None:
    names = [f"layers.{i}.self_attn.q_norm.weight" for i in (0, 2)]
    (finding,) = found(pair(tmp_path, drop(*names), overrides=("backbone.qk_norm=true",)), "TD201")
    assert "2 tensors missing: layers.N.self_attn.q_norm.weight;" in finding.message


def test_rotary_buffers_are_a_note(tmp_path: Path) -> None:
    subject = pair(tmp_path, put(layers__0__self_attn__rotary_emb__inv_freq=filled(8)))
    assert [finding.severity for finding in found(subject, "TD202")] == ["note"]


def test_scales_of_needed_tensors_are_not_unused(tmp_path: Path) -> None:
    subject = pair(tmp_path, put(fc__weight=raw("F8_E4M3", 64, 192), fc__weight_scale_inv=filled(1, 2)))
    assert codes(subject) == ["TD205"]
    assert found(subject, "TD205")[0].severity == "warning"


def stages(*, scale: bool = True, weight: str = "F8_E4M3") -> Tensors:
    """Two stages of a small V4 checkpoint, among tensors of the target, in the dtypes of published ones."""
    out = {
        "embed.weight": filled(64, 32, dtype="BF16"),
        "head.weight": filled(64, 32, dtype="BF16"),
        "layers.0.attn.wq_a.weight": raw("F8_E4M3", 32, 32),
        **{name: filled(*shape, dtype="BF16") for name, shape in stage_shapes().items()},
        "mtp.0.main_proj.weight": raw(weight, 32, 96),
    }
    for name in [name for name in out if ".ffn.experts." in name]:
        rows, columns = out[name].shape
        out[name] = raw("I8", rows, columns // 2)  # two FP4 numbers in each byte
        out[name.replace(".weight", ".scale")] = raw("F8_E8M0", rows, 1)
    return out | ({"mtp.0.main_proj.scale": raw("F8_E8M0", 1, 1)} if scale else {})


def embedded(directory: Path, tensors: Tensors) -> Subject:
    path = write(directory, V4_SMALL)
    write_tensors(path / "model.safetensors", tensors)
    return Subject(inspect(path, path), weights=True)


def test_float8_and_packed_experts_are_the_normal_form_of_v4_stages(tmp_path: Path) -> None:
    assert codes(embedded(tmp_path, stages())) == []


@pytest.mark.parametrize(
    ("tensors", "code", "says"),
    [
        (stages(scale=False), "TD205", "no tensor of scales"),
        ({n: t for n, t in stages().items() if n[:3] != "mtp"}, "TD201", "81 tensors missing"),
        ({n: t for n, t in stages().items() if "main_norm" not in n}, "TD201", "mtp.N.main_norm.weight"),
        ({n: t for n, t in stages().items() if "attn_sink" not in n}, "TD201", "mtp.N.attn.attn_sink"),
        ({n: t for n, t in stages().items() if n[:5] != "mtp.0"}, "TD209", "no tensors of mtp.0"),
        (stages() | {"mtp.0.attn.wq_b.weight": filled(10, 64)}, "TD203", "it is transposed"),
        (stages() | {"mtp.0.attn.indexer.wk.weight": filled(8, 32)}, "TD202", "mtp.N.attn.indexer"),
    ],
)
def test_broken_v4_stages(tensors: Tensors, code: str, says: str, tmp_path: Path) -> None:
    subject = embedded(tmp_path, tensors)
    assert codes(subject) == [code]
    assert says in told(found(subject, code))


@pytest.mark.parametrize("dtype", ["F32", "F64", "BF16"])
def test_values_of_every_dtype(dtype: str, tmp_path: Path) -> None:
    values = [0.5, -2.0, nan, inf, -inf, 1.0] * 4
    path = tmp_path / "model.safetensors"
    write_tensors(path, {"before": filled(3), "x": numbers(values, 8, 3, dtype=dtype)})
    ref = TensorRef(path, "x", dtype, (8, 3))
    (chunk,) = floats(ref)
    assert str(chunk.tolist()) == str(values)
    part = TensorRef(path, "x", dtype, (2, 3), rows=(1, 3))
    assert str([v for c in floats(part) for v in c.tolist()]) == str(values[3:9])
    assert str(rows(ref, [5, 0]).tolist()) == str([values[15:18], values[:3]])
    assert str(rows(part, [1]).tolist()) == str([values[6:9]])


def test_half_floats() -> None:
    (fc,) = (inspect("tiny/dflash").draft.tensors["fc.weight"],)
    assert fc.dtype == "F16"
    assert 0 < max(float(abs(chunk).max()) for chunk in floats(fc)) < 10


def test_integers_of_every_dtype(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for dtype in ("I64", "I32", "BOOL", "U8"):
        write_tensors(path, {"x": whole([1, 0, 1], dtype)})
        assert list(integers(TensorRef(path, "x", dtype, (3,)))) == [1, 0, 1]


@pytest.mark.parametrize("read", [integers, floats])
def test_other_dtypes_are_refused(read: Callable[[TensorRef], object], tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_tensors(path, {"x": raw("F8_E4M3", 4)})
    with pytest.raises(InputError, match="found dtype F8_E4M3, expected one of"):
        read(TensorRef(path, "x", "F8_E4M3", (4,)))


def test_a_large_tensor_takes_little_memory(tmp_path: Path) -> None:
    rows_, size = 40_000, 64 * 4
    zeros = Stored("F32", (rows_ * 12, 64), bytes(rows_ * 12 * size))
    path = tmp_path / "model.safetensors"
    write_tensors(path, {"x": zeros})
    del zeros
    ref = TensorRef(path, "x", "F32", (rows_ * 12, 64))
    next(iter(floats(ref)))
    tracemalloc.start()
    total = sum(chunk.size for chunk in floats(ref))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == rows_ * 12 * 64
    assert path.stat().st_size > 100e6
    assert peak < 32e6


def test_weights_without_numpy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subject = pair(tmp_path, base=EAGLE, weights=True)
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(InputError, match=r"^--weights needs numpy, which truedraft\[engine\] installs$"):
        tensor_findings(subject)


def test_headers_alone_need_no_numpy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subject = pair(tmp_path, put(d2t=whole(list(range(128)))), base=EAGLE)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert codes(subject) == ["TD207"]


def test_values_are_left_alone_unless_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subject = pair(tmp_path, put(fc__weight=constant(0, 64, 192)))
    monkeypatch.setattr(tensor_values, "_chunks", lambda ref: pytest.fail(f"read {ref}"))
    assert codes(subject) == []


def test_absolute_maps_are_judged_as_such(tmp_path: Path) -> None:
    ids = [i + offset for i, offset in enumerate(OFFSETS)]
    subject = pair(tmp_path, put(d2t=whole(ids)), base=EAGLE, overrides=("head.vocabulary_map=absolute",))
    assert codes(subject) == []


def test_a_borrowed_head_cannot_score_a_reduced_vocabulary(tmp_path: Path) -> None:
    (finding,) = found(pair(tmp_path, base=EAGLE, overrides=("head.source=target",)), "TD208")
    assert finding.severity == "error"
    assert "the target's with 256 rows, but the draft vocabulary has 128 ids" in finding.message
    whole_head = {"base": EAGLE, "change": {"draft_vocab_size": 256}, "overrides": ("head.source=target",)}
    assert codes(pair(tmp_path / "whole", drop("d2t", "lm_head.weight"), **whole_head), "TD208") == []


def test_the_tie_of_a_copied_target_config_says_nothing(tmp_path: Path) -> None:
    tie = {"transformer_layer_config/tie_word_embeddings": True, "draft_vocab_size": 128}

    def reduced(tensors: Tensors) -> None:
        tensors["d2t"], tensors["lm_head.weight"] = whole(OFFSETS), filled(128, 64)
        tensors["markov_head.markov_w2.weight"] = filled(128, 24)

    assert codes(pair(tmp_path, reduced, base=SPECULATORS_DSPARK, change=tie)) == []


def test_huge_entries_of_a_map(tmp_path: Path) -> None:
    subject = pair(tmp_path, put(d2t=whole([*OFFSETS[:-1], 2**63 - 1])), base=EAGLE)
    assert "1 of 128 draft ids map outside" in told(found(subject, "TD207"))


def test_a_map_of_which_only_the_header_was_fetched(tmp_path: Path) -> None:
    subject = pair(tmp_path, put(d2t=whole([0] * 128)), base=EAGLE)
    assert codes(subject) == ["TD207"]
    path = tmp_path / "draft" / "model.safetensors"
    data, size = path.read_bytes(), path.stat().st_size
    path.unlink()
    with path.open("xb") as file:
        file.write(data[: 8 + int.from_bytes(data[:8], "little")])
        file.truncate(size)
    if path.stat().st_blocks * 512 >= size:
        pytest.skip("this file system has no holes")
    assert codes(Subject(inspect(tmp_path / "target", tmp_path / "draft"))) == []


def test_two_sharded_files(tmp_path: Path) -> None:
    def halves(path: Path, tensors: Tensors) -> None:
        names = sorted(tensors)
        files = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(names)}
        for file in set(files.values()):
            write_tensors(path / file, {n: tensors[n] for n in names if files[n] == file})
        (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))

    kept: Tensors = {}
    pair(tmp_path, lambda tensors: kept.update(tensors), base=EAGLE)
    draft = write(tmp_path / "sharded", EAGLE)
    halves(draft, {n: t for n, t in kept.items() if n != "d2t"})
    subject = Subject(inspect(tmp_path / "target", draft), weights=True)
    (finding,) = tensor_findings(subject)
    assert finding.where == "draft/model.safetensors.index.json"
