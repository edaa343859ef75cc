"""`truedraft check` on files that somebody made to hurt: an exit code, at most one line, whatever they hold.

No read outside the pair's directories, no traceback, little memory; every engine's reading in turn.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from checkpoints import CONFIGS, DEEPSPEC, TARGET, ZLAB, raw, write, write_tensors
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from targets import PAIRS, TARGETS

import truedraft
from truedraft.cli import main
from truedraft.cli._check_output import FORMATS
from truedraft.formats.engines import ENGINES

EXAMPLES = int(os.environ.get("TRUEDRAFT_HOSTILE_EXAMPLES", "60"))
"""Of each property test; a long run sets a few thousand."""

SETTINGS = settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
ALL_ENGINES = [word for engine in ENGINES for word in ("--engine", str(engine.id))]
PYTHON = (os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix))
PACKAGE = os.path.realpath(Path(truedraft.__file__).parent)

# Reads outside the pair: an audit hook cannot be removed, so that there is one for all tests.

_opened: list[str] | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _opened is not None and isinstance(arguments[0], (str, bytes)):
        _opened.append(os.fsdecode(arguments[0]))


sys.addaudithook(_audit)


@contextmanager
def opened() -> Iterator[list[str]]:
    """The paths that are opened meanwhile."""
    global _opened
    _opened = []
    try:
        yield _opened
    finally:
        _opened = None


def checked(target: Path, draft: Path, *more: str) -> tuple[int, str, str]:
    """Run `check`, and hold what must hold for any files."""
    out, err = io.StringIO(), io.StringIO()
    with opened() as paths, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["check", str(target), str(draft), *more])
    assert code in (0, 1, 2, 3)
    text, error = out.getvalue(), err.getvalue()
    assert all(c.isprintable() or c == "\n" for c in text + error)
    assert error.count("\n") == (code == 2)
    assert (text == "") == (code == 2)
    assert "Traceback" not in error
    allowed = (os.path.realpath(target), os.path.realpath(draft), PACKAGE, *PYTHON)
    for path in map(os.path.realpath, paths):
        code_cache = ".pyc" in Path(path).name  # PYTHONPYCACHEPREFIX
        assert code_cache or any(Path(path).is_relative_to(place) for place in allowed), path
    return code, text, error


# Values

NUMBERS = st.one_of(
    st.sampled_from([0, -1, 1, 2, 3, 2**31, 2**53, 2**63, 10**19, -(10**19), 10**15, 1e-320, 1e308, -0.0]),
    st.integers(-10, 300),
    st.floats(allow_nan=False, allow_infinity=False),
)
WORDS = st.one_of(
    st.sampled_from(
        ["", "full_attention", "sliding_attention", "default", "yarn", "linear", "llama3", "dynamic",
         "vanilla", "gated", "rnn", "silu", "None", "true", "../x", "\x1b[31m", "\ud800", "a\nb", "\x9b",
         "x" * 5000]
    ),
    st.text(max_size=12),
)  # fmt: skip
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)

CONFIG = {name: json.loads((CONFIGS / f"{name}.json").read_text()) for name in PAIRS}


def pointers(config: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places of a config, nested ones too."""
    entries = (
        config.items() if isinstance(config, dict) else enumerate(config) if isinstance(config, list) else ()
    )
    found = []
    for key, value in list(entries):
        found += [(*prefix, key), *pointers(value, (*prefix, key))]
    return found


def put(config: dict[str, Any], pointer: tuple[Any, ...], value: Any) -> None:
    """Set one place; a place that an earlier change took away is left."""
    node: Any = config
    with contextlib.suppress(TypeError, KeyError, IndexError):
        for key in pointer[:-1]:
            node = node[key]
        node[pointer[-1]] = value


KEYS = sorted(
    {
        key
        for config in CONFIG.values()
        for pointer in pointers(config)
        for key in pointer
        if isinstance(key, str)
    }
)


@st.composite
def hostile(draw: st.DrawFn, base: dict[str, Any]) -> dict[str, Any]:
    """A real config with one to four of its values, or of other producers' keys, replaced."""
    config = copy.deepcopy(base)
    for _ in range(draw(st.integers(1, 4))):
        pointer = draw(st.one_of(st.sampled_from(pointers(base)), st.sampled_from([(key,) for key in KEYS])))
        put(config, pointer, draw(VALUES))
    return config


@contextmanager
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@SETTINGS
@given(data=st.data(), name=st.sampled_from(sorted(PAIRS)))
def test_any_value_at_any_key_of_a_draft_config(data: st.DataObject, name: str) -> None:
    config = data.draw(hostile(CONFIG[name]))
    with directory() as at:
        target = write(at / "target", TARGETS[PAIRS[name]])
        code, *_ = checked(target, write(at / "draft", config), *ALL_ENGINES, "--pedantic", "--quiet")
        event(f"exit {code}")


@SETTINGS
@given(data=st.data(), name=st.sampled_from(sorted(PAIRS)))
def test_any_value_at_any_key_of_a_target_config(data: st.DataObject, name: str) -> None:
    rich = TARGETS[PAIRS[name]] | {
        "layer_types": None,
        "sliding_window": 4096,
        "eos_token_id": [1, 2],
        "quantization_config": {"quant_method": "fp8"},
        "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"},
    }
    base = data.draw(st.sampled_from([rich, {"model_type": "any", "text_config": rich}]))
    config = data.draw(hostile(base))
    with directory() as at:
        target = write(at / "target", config)
        code, *_ = checked(target, write(at / "draft", CONFIG[name]), *ALL_ENGINES, "--pedantic", "--quiet")
        event(f"exit {code}")


@SETTINGS
@given(data=st.data(), layout=st.sampled_from(sorted(FORMATS)))
def test_any_value_in_side_files_and_any_usage(data: st.DataObject, layout: str) -> None:
    names = ["generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json",
             "hf_quant_config.json", "quant_model_description.json", "chat_template.json"]  # fmt: skip
    keys = ["eos_token_id", "bos_token", "eos_token", "chat_template", "added_tokens", "model", "vocab",
            "quantization", "added_tokens_decoder", "content", "id", "temperature", "version"]  # fmt: skip
    content = st.dictionaries(
        st.sampled_from(keys),
        st.one_of(VALUES, st.dictionaries(st.sampled_from(keys), VALUES, max_size=3)),
        max_size=4,
    )
    with directory() as at:
        places = [write(at / "target", TARGET), write(at / "draft", ZLAB)]
        for place in places:
            for name in data.draw(st.lists(st.sampled_from(names), unique=True, max_size=4)):
                (place / name).write_text(json.dumps(data.draw(content)))
            template = data.draw(st.one_of(st.none(), st.binary(max_size=30)))
            if template is not None:
                (place / "chat_template.jinja").write_bytes(template)
        usage = [
            "--k",
            str(data.draw(st.integers(1, 4096))),
            "--context",
            str(data.draw(st.integers(1, 2**40))),
        ]
        usage += data.draw(st.sampled_from([[], ["--thinking"], ["--no-thinking"]]))
        usage += data.draw(st.sampled_from([[], ["--temperature", "0"], ["--temperature", "1e300"]]))
        usage += data.draw(st.sampled_from([[], ["--draft-sampling"], ["--draft-argmax"]]))
        code, *_ = checked(
            *places, *usage, "--engine", "vllm", "--engine", "sglang", "--pedantic", "--format", layout
        )
        event(f"exit {code}")


NAMES = st.one_of(
    st.sampled_from(["fc.weight", "norm.weight", "lm_head.weight", "model.embed_tokens.weight", "d2t", "t2d",
                     "layers.0.self_attn.q_proj.weight", "layers.0.self_attn.qkv_proj.weight",
                     "hidden_norm.weight",
                     "layers.0.input_layernorm.weight", "markov_head.weight", "confidence_head.weight",
                     "layers.99999999999999999999.mlp.up_proj.weight", "midlayer.self_attn.k_proj.weight"]),
    WORDS.filter(lambda word: len(word) < 100),
)  # fmt: skip
SHAPES = st.lists(st.one_of(st.integers(0, 300), st.sampled_from([64, 256, 192])), max_size=4)


@SETTINGS
@given(
    tensors=st.dictionaries(NAMES, SHAPES.filter(lambda shape: _product(shape) < 10**7), max_size=6),
    base=st.sampled_from([ZLAB, DEEPSPEC, CONFIG["RedHatAI__Qwen3.6-35B-A3B-speculator.dspark"]]),
    role=st.sampled_from(["target", "draft"]),
)
def test_any_tensors(tensors: dict[str, list[int]], base: dict[str, Any], role: str) -> None:
    header, end = {}, 0
    for name, shape in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + 2 * _product(shape)]}
        end += 2 * _product(shape)
    with directory() as at:
        target, draft = write(at / "target", TARGET), write(at / "draft", base)
        path = at / role / "model.safetensors"
        raw(path, header, 0)
        os.truncate(path, path.stat().st_size + end)
        code, *_ = checked(target, draft, *ALL_ENGINES, "--pedantic")
        event(f"exit {code}")


def _product(shape: list[int]) -> int:
    out = 1
    for n in shape:
        out *= n
    return out


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: str(engine.id))
def test_every_engine_on_every_published_config(engine: Any, tmp_path: Path) -> None:
    for number, name in enumerate(sorted(PAIRS)):
        target = write(tmp_path / f"{number}-target", TARGETS[PAIRS[name]])
        draft = write(tmp_path / f"{number}-draft", CONFIG[name])
        checked(target, draft, "--engine", str(engine.id), "--pedantic", "--quiet")


# Files


def deep(levels: int, inner: str = "1") -> str:
    return '{"a":' * levels + inner + "}" * levels


TEXTS = {
    "NaN": '{"rope_theta": NaN}',
    "Infinity": '{"rope_theta": -Infinity}',
    "1e999": '{"rope_theta": 1e999}',
    "duplicate keys": '{"architectures": ["DFlashDraftModel"], "architectures": ["Qwen3DSparkModel"]}',
    "duplicate nasty keys": '{"\\u001b[2J\\n": 1, "\\u001b[2J\\n": 2}',
    "huge number": '{"block_size": ' + "9" * 100_000 + "}",
    "deep objects": deep(100_000),
    "deep lists": '{"a":' + "[" * 100_000,
    "a megabyte of brackets": "[" * 2**20,
    "not UTF-8": b'{"\xff": 1}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "null bytes": bytes(1000),
    "empty": "",
    "a list": "[]",
    "too large": " " * (4 * 2**20 + 1),
}


@pytest.mark.parametrize("role", ["target", "draft"])
@pytest.mark.parametrize("name", TEXTS)
def test_configs_that_are_none(name: str, role: str, tmp_path: Path) -> None:
    target, draft = write(tmp_path / "target", TARGET), write(tmp_path / "draft", ZLAB)
    content = TEXTS[name]
    (tmp_path / role / "config.json").write_bytes(content.encode() if isinstance(content, str) else content)
    code, _, error = checked(target, draft, *ALL_ENGINES)
    assert code == 2
    assert f"{role}/config.json" in error


@pytest.mark.parametrize("levels", [10, 100, 300, 900])
def test_nesting_that_json_bears(levels: int, tmp_path: Path) -> None:
    """Below the parser's own limit, where walks over the config must not fail either."""
    target = write(tmp_path / "target", TARGET)
    for number, key in enumerate(["surprise", "dflash_config", "rope_parameters", "quantization_config"]):
        text = json.dumps(ZLAB)[:-1] + f', "{key}x": {deep(levels)}, "{key}": {deep(levels)}}}'
        text = text.replace('"dflash_config": {"mask', '"dflash_config_": {"mask') if number == 1 else text
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "config.json").write_text(text)
        checked(target, tmp_path / str(number), *ALL_ENGINES, "--pedantic")
        (target / "config.json").write_text(json.dumps(TARGET)[:-1] + f', "{key}": {deep(levels)}}}')
        checked(target, write(tmp_path / "plain", ZLAB), *ALL_ENGINES, "--pedantic")
        (target / "config.json").write_text(json.dumps(TARGET))


ENTRY = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def _huge_header(directory: Path) -> None:
    with (directory / "model.safetensors").open("wb") as file:
        file.write((10 * 2**30).to_bytes(8, "little"))
        file.truncate(11 * 2**30)


def _overlap(directory: Path) -> None:
    raw(directory / "model.safetensors", {"a": ENTRY, "b": ENTRY | {"data_offsets": [12, 36]}}, 36)


def _many_tensors(directory: Path) -> None:
    entries = {f"tensor.{i}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(100_000)}
    raw(directory / "model.safetensors", entries, 0)


def _index(weight_map: Any) -> Any:
    def spoil(directory: Path) -> None:
        write_tensors(directory.parent / "outside.safetensors", {"a": (2,)})
        (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    return spoil


def _link(name: str, to: str) -> Any:
    def spoil(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        (directory.parent / "secret").write_text('{"secret": 1}')
        (directory / name).symlink_to(to)

    return spoil


def _make(name: str, how: Any) -> Any:
    def spoil(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        how(directory / name)

    return spoil


SPOILS: dict[str, tuple[Any, str]] = {
    "header of 10 GB": (_huge_header, "header of 10737418240 bytes"),
    "overlapping ranges": (_overlap, "overlaps"),
    "index leads out": (_index({"a": "../outside.safetensors"}), "expected a file in"),
    "index leads to the root": (_index({"a": "/etc/passwd"}), "expected a file in"),
    "index names itself": (_index({"a": "model.safetensors.index.json"}), "model.safetensors.index.json"),
    "index names a long file": (_index({"a": "x" * 5000}), ""),
    "index with a nasty shard": (_index({"a\x1b[31m": "\x1b[31m\n"}), ""),
    "index is a list": (_index([]), "expected an object"),
    "link out": (_link("config.json", "../secret"), "leads out"),
    "absolute link": (_link("model.safetensors", "/etc/passwd"), "leads out"),
    "link to the directory's parent": (_link("model.safetensors", ".."), "leads out"),
    "cyclic link": (_link("config.json", "config.json"), "leads nowhere"),
    "cyclic index": (_link("model.safetensors.index.json", "./model.safetensors.index.json"), "nowhere"),
    "generation config leads out": (_link("generation_config.json", "/etc/passwd"), "leads out"),
    "tokenizer config leads out": (_link("tokenizer_config.json", "/etc/passwd"), "leads out"),
    "chat template leads out": (_link("chat_template.jinja", "/etc/passwd"), "leads out"),
    "quantisation file leads out": (_link("hf_quant_config.json", "/etc/passwd"), "leads out"),
    "directory for weights": (_make("model.safetensors", Path.mkdir), "not a regular file"),
    "directory for the config": (_make("config.json", Path.mkdir), "not a regular file"),
    "fifo": (_make("config.json", os.mkfifo), "not a regular file"),
    "fifo for weights": (_make("model.safetensors", os.mkfifo), "not a regular file"),
    "fifo for the tokenizer": (_make("tokenizer_config.json", os.mkfifo), "not a regular file"),
}


@pytest.mark.parametrize("role", ["target", "draft"])
@pytest.mark.parametrize("name", SPOILS)
def test_spoilt_directories(name: str, role: str, tmp_path: Path) -> None:
    spoil, message = SPOILS[name]
    target, draft = write(tmp_path / "target", TARGET), write(tmp_path / "draft", ZLAB)
    spoil(tmp_path / role)
    code, text, error = checked(target, draft, "--engine", "vllm", "--pedantic")
    if code != 2:  # a side file that no rule reads on this side is not opened either
        assert "generation" in name or "token" in name or "template" in name or "quant" in name
        return
    assert message in error
    assert "secret" not in text


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may read everything, so it is somebody else meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "."])
def test_files_that_may_not_be_read(file: str) -> None:
    with directory() as at:
        at.chmod(0o755)
        target, draft = write(at / "target", TARGET), write(at / "draft", ZLAB, {"a": (1,)})
        checked(target, draft)  # imports all that is needed, as root
        (draft / file).chmod(0)
        try:
            with unprivileged():
                code, _, error = checked(target, draft)
        finally:
            (draft / file).chmod(0o700)
    assert code == 2
    assert "cannot be read (Permission denied)" in error


def test_the_hook_sees_reads_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    with opened() as paths:
        (tmp_path / "secret").read_bytes()
        os.close(os.open(tmp_path / "secret", os.O_RDONLY))
    assert paths.count(str(tmp_path / "secret")) == 2 or paths == [str(tmp_path / "secret")]


MEMORY = 200 * 1024
"""Largest resident set, in KiB."""

# ru_maxrss of Linux survives exec, so that it would be the test process's own; VmHWM begins anew.
PROGRAM = """
import pathlib, resource, sys
from truedraft.cli import main
code = main(sys.argv[1:])
status = pathlib.Path("/proc/self/status")
if status.exists():
    print(code, next(l.split()[1] for l in status.read_text().splitlines() if l.startswith("VmHWM")))
else:
    print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _large_config(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    config["surprise"] = list(range(500_000))
    (directory / "config.json").write_text(json.dumps(config))


def _large_text(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    config["architectures"] = ["x" * (3 * 2**20)]
    (directory / "config.json").write_text(json.dumps(config))


def _nothing(directory: Path) -> None:
    pass


@pytest.mark.parametrize(
    "spoil", [_nothing, _huge_header, _overlap, _large_config, _large_text, _many_tensors]
)
def test_memory_stays_small(spoil: Any, tmp_path: Path) -> None:
    target, draft = write(tmp_path / "target", TARGET), write(tmp_path / "draft", ZLAB)
    spoil(draft)
    arguments = ["check", str(target), str(draft), *ALL_ENGINES, "--pedantic", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=60
    )
    code, peak = map(int, done.stdout.splitlines()[-1].split())
    assert code in (0, 1, 2, 3)
    assert done.stderr.count("\n") == (code == 2)
    assert peak < MEMORY
