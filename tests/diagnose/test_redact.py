"""Redaction: what identifies anybody goes, the same thing gets the same placeholder, figures stay."""

from __future__ import annotations

import json
import string
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truedraft.contract import AcceptanceRecord
from truedraft.diagnose import catalogue
from truedraft.diagnose.redact import Identity, leaks, redact
from truedraft.diagnose.sensitive import PLACEHOLDER
from truedraft.formats import bundled_pairs, resolve

NOBODY = Identity()
ANN = Identity(
    users=frozenset({"annika"}),
    hosts=frozenset({"gpu-box7"}),
    homes=frozenset({"/home/annika", "/srv/h/annika"}),
    paths=frozenset({"logs/my run.log", "/data/x y/m"}),
)

HF = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWx"
SK = "sk-proj-" + "1a2B3c4D5e6F7g8H9i0J"
HEX = "9f86d081884c7d659a2feaa0c55ad015"
BASE64 = "q7Zx9Kp2Lm4Vt8Rb1Yw6Hn3Jd5Fs0GcQeUaTiOXz"

GONE = [
    # text, what must not be left, what stays
    ("loading /home/bertil/ckpt/Qwen3-8B", ["bertil", "/home", "ckpt"], ["Qwen3-8B"]),
    ("-v/home/bertil/m:/models/m", ["bertil"], ["/m"]),
    ("bertil; /home/bertil/x", ["bertil"], ["/x"]),
    ("file:///home/bertil/x/y.json", ["bertil", "/x"], ["y.json"]),
    ("C:\\Users\\Bertil\\m\\x.bin", ["Bertil"], ["x.bin"]),
    ("C:\\\\Users\\\\Bertil\\\\m\\\\x.bin", ["Bertil"], ["x.bin"]),
    ("~bertil/m/x.bin and ~/secretdir/y", ["bertil", "secretdir"], ["x.bin", "/y"]),
    ("/srv/h/annika is full", ["annika", "/srv"], ["is full"]),
    ("ANNIKA_ckpt and annika-dflash", ["ANNIKA", "annika"], ["_ckpt", "-dflash"]),
    ("at gpu-box7 and GPU-BOX7.corp.example.com", ["box7", "BOX7", "example"], ["at "]),
    ("http://u:hunter2@node9:8000/v1/models?key=abc", ["hunter2", "node9", "abc", "u:"], [":8000/v1/models"]),
    ("http://u:hun/ter2@node9:80/x then node9", ["hun", "ter2", "node9"], [":80/x"]),
    ("postgres://bob:p%40ss@db.internal/x", ["bob", "p%40ss", "db.internal"], ["/x"]),
    ("tcp://10.11.12.13:29500 10.11.12.13.", ["10.11"], [":29500"]),
    ("[2001:db8::5]:8000 and fe80::1: x", ["2001", "fe80"], [":8000"]),
    ("02:42:ac:11:00:02", ["02:42"], []),
    ("mail ann.b+c@corp.example.org now", ["ann.b", "corp"], ["mail", "now"]),
    ("bertil@node9:~$ vllm serve; node9", ["bertil", "node9"], ["vllm serve"]),
    ("ssh bertil@10.1.2.3", ["bertil", "10.1"], ["ssh"]),
    (f"token {HF} end", [HF], ["token", "end"]),
    (f"api_key=['{SK}']", [SK], ["api_key="]),
    (f"OPENAI_API_KEY={SK}", [SK], ["OPENAI_API_KEY="]),
    ("--api-key foo123 --k 7", ["foo123"], ["--k 7"]),
    ("password: hunter2, k=7", ["hunter2"], ["k=7"]),
    ("'aws_secret_access_key': 'a/b+c', 'k': 7", ["a/b+c"], ["'k': 7"]),
    ('"hf_token": "mine", "k": 7', ["mine"], ['"k": 7']),
    ('{\\"password\\": \\"hunter2\\"}', ["hunter2"], []),
    ("AKIAIOSFODNN7EXAMPLE", ["AKIA"], []),
    ("Authorization: Basic dXNlcjpwdw==", ["dXNl"], ["Authorization: Basic"]),
    ("Bearer abc.def-123456", ["abc.def"], ["Bearer"]),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcDEF_123", ["eyJ"], []),
    ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", ["abc"], []),
    (f"id {HEX} {BASE64}", [HEX, BASE64], ["id"]),
    ("container 8f3e9a2b1c4d died", ["8f3e9a2b1c4d"], ["died"]),
    ("GPU-01234567-89ab-cdef-0123-456789abcdef", ["456789abcdef"], ["GPU-"]),
    ("May  6 06:11:23 node-a vllm[12]: node-a", ["node-a"], ["06:11:23", "vllm[12]"]),
    ("vllm-deploy-7d9f8b6c5d-x2x4z ip-10-0-3-17", ["7d9f8b6c5d", "10-0-3"], []),
    ("host='node9', master_addr=node8 node9", ["node9", "node8"], ["host='"]),
    ("read logs/my run.log and /data/x y/m/config.json", ["logs/", "x y"], ["my run.log", "/config.json"]),
]

STAYS = [
    "(APIServer pid=1) INFO 08-05 12:25:13 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: "
    "2.93, Accepted throughput: 10.60 tokens/s, Drafted throughput: 38.50 tokens/s, Drafted: 385 tokens",
    "[2026-08-14 14:02:47 TP0] Decode batch, #running-req: 3, #token: 266624, token usage: 0.43, "
    "accept len: 1.67, gen throughput (token/s): 183.10",
    "draft acceptance = 0.62008 ( 1797 accepted /  2898 generated), rate per position = (0.727, 0.513)",
    "common_speculative_impl_draft_dflash: block_size=8, mask_token_id=248070, sample_from_anchor=true",
    "llama_model_loader: - kv  20:  dflash-draft.dflash.target_layer_ids arr[i32,6] = [1, 12, 23, 35]",
    "Using auxiliary layers from speculative config: (40, 41, 42)",
    "draft/config.json#/dflash_config/target_layer_ids captures embedding/2/5, the contract says 0/3/6",
    "nvidia-cudnn-cu12==9.1.0.70, torch 2.13.0+cpu, driver 550.54.15, version 1.2.3.4, CUDA 12.8",
    "z-lab/dflash@07ebd93 model.py; vLLM 0.20 v1/worker/gpu_model_runner.py; std::vector c10::Error",
    "model.layers.0.self_attn.q_proj.weight BF16 [4096, 12288]; model-00001-of-00004.safetensors",
    "Qwen3-Coder-480B-A35B-Instruct-FP8-speculator-eagle3-v1 Eagle3LlamaForCausalLMDraftModelWrapper",
    "eos_token=</s> pad_token: <|endoftext|> num_speculative_tokens=7 max_tokens: 128 api_key=None",
    "revision=0123456789abcdef0123456789abcdef01234567 sha256:" + "0a" * 32,
    "https://github.com/vllm-project/vllm/issues/40727 http://localhost:8000/v1 127.0.0.1 0.0.0.0:8000",
    "POST /v1/chat/completions HTTP/1.1 200 OK; tokens/s/GPU; and/or; 1/2/3; 05/06/2025 2026-05-06T06:11:23Z",
    "2026-08-14T14:02:47.123456+00:00 06:11:23 12:34:56:78 20-05-06-06-11-23",
]


@pytest.mark.parametrize(("text", "gone", "kept"), GONE, ids=[text[:30] for text, _, _ in GONE])
def test_what_identifies_goes(text: str, gone: list[str], kept: list[str]) -> None:
    found = redact({"a": [text]}, ANN)
    out = found.value["a"][0]
    assert not [part for part in gone if part in out], out
    assert all(part in out for part in kept), out
    assert found.counts
    assert leaks({"a": [text]}, found.identity) == ["/a/0"]
    assert leaks(found.value, found.identity) == []


@pytest.mark.parametrize("text", STAYS)
def test_what_a_reader_needs_stays(text: str) -> None:
    assert redact([text], ANN).value == [text]


def test_the_same_thing_gets_the_same_placeholder() -> None:
    lines = ["http://node9:1/", "from node9 to node8", "http://node8/", "/a/b/x", "/a/b/y", "/a/c/z"]
    out = redact(lines, NOBODY)
    assert out.value == [
        "http://<host-1>:1/",
        "from <host-1> to <host-2>",
        "http://<host-2>/",
        "<dir-1>/x",
        "<dir-1>/y",
        "<dir-2>/z",
    ]
    assert out.counts == {"host": 2, "dir": 2}


def test_keys_say_what_values_are() -> None:
    value = {
        "api_key": "plain", "password": 1234, "hf_token": ["x", None], "hostname": "node9",
        "user": "bertil", "token": "abc12345", "eos_token": "</s>", "mask_token_id": 7,
        "secret": {"inner": "x"}, "sha256": "0a" * 32, "k": "node9",
        "revision": "0123456789abcdef0123456789abcdef01234567", "other": "0a" * 32, "/home/bertil/x": 1,
    }  # fmt: skip
    out = redact(value, NOBODY).value
    kept = {"eos_token", "mask_token_id", "sha256", "revision"}
    assert {name for name in out if name in value and out[name] == value[name]} == kept
    assert out["hf_token"][1] is None
    assert "bertil" not in json.dumps(out)
    assert out["hostname"] == "<host-1>"
    assert out["secret"] == {"inner": out["secret"]["inner"]}
    assert out["secret"]["inner"].startswith("<secret-")


def test_keys_that_become_equal_stay_apart() -> None:
    out = redact({"bob@a.org": 1, "BOB@a.org": 2}, NOBODY).value
    assert sorted(out.values()) == [1, 2]


def test_placeholders_of_the_input_are_not_taken_twice() -> None:
    out = redact(["<dir-1>/x", "/a/b/x"], NOBODY).value
    assert out == ["<dir-1>/x", "<dir-2>/x"]


def test_common_words_are_no_names() -> None:
    who = Identity(users=frozenset({"root", "vllm", "al"}), hosts=frozenset({"localhost", "draft"}))
    text = "root runs vllm:0.20.1 on localhost, the draft model"
    assert redact([text, "/root/ckpt/m"], who).value == [text, "<dir-1>/m"]


def test_contracts_records_and_causes_are_not_touched() -> None:
    assert bundled_pairs() == ("tiny",)
    record = AcceptanceRecord(
        "r", "p", "a", (4, 4), (4, 0), 10, 8, "a4b86bf3ee6f420a", 4, "305652c3ce260dc2", 1, 1.5
    )
    known = catalogue()
    value: dict[str, Any] = {
        "contracts": [resolve(f"tiny/{d}").contract.to_json() for d in ("dflash", "dspark", "eagle3")],
        "record": json.loads(json.dumps(record.to_json())),
        "causes": [[c.title, c.expect, c.remedy] for c in known.causes.values()],
        "questions": [[q.title, q.ask, *q.means.values()] for q in known.questions.values()],
    }
    found = redact(value, Identity(users=frozenset({"annika"})))
    assert found.value == json.loads(json.dumps(value))
    assert not found.counts


def test_pages_of_checks_are_not_touched() -> None:
    pages = Path(__file__).parents[2] / "docs" / "checks"
    texts = [page.read_text() for page in sorted(pages.glob("*.md"))]
    assert len(texts) > 50
    found = redact(texts, NOBODY)
    changed = [(a, b) for x, y in zip(texts, found.value, strict=True)
               for a, b in zip(x.split("\n"), y.split("\n"), strict=True) if a != b]  # fmt: skip
    assert changed == []


SEPARATOR = st.sampled_from([" ", "  ", "\n", '"', "'", " = ", ", ", "(", ") ", ": ", "|", "\t", " [", "] "])
WORDS = st.one_of(
    st.sampled_from([text for text, _, _ in GONE] + STAYS),
    st.text(max_size=20),
    st.text(alphabet=string.ascii_letters + string.digits + "/:@.-_=<>~#\\", max_size=40),
)
TEXTS = st.lists(st.tuples(WORDS, SEPARATOR), max_size=5).map(lambda parts: "".join(a + b for a, b in parts))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


@given(VALUES)
def test_what_is_redacted_holds_nothing_more(value: Any) -> None:
    found = redact(value, ANN)
    assert leaks(found.value, found.identity) == []


@given(VALUES)
def test_shape_and_numbers_stay(value: Any) -> None:
    def shape(entry: Any) -> Any:
        if isinstance(entry, str):
            return ""
        if isinstance(entry, dict):
            return [shape(inner) for inner in entry.values()]
        return [shape(inner) for inner in entry] if isinstance(entry, list) else entry

    assert shape(redact({"a": value}, ANN).value) == shape({"a": value})


SECRETS = st.one_of(
    st.text(string.ascii_letters + string.digits, min_size=20, max_size=40).map(lambda t: "hf_" + t),
    st.text("0123456789abcdef", min_size=29, max_size=60).map(lambda t: "a1f" + t),
    st.ip_addresses(v=4).map(str).filter(lambda t: t not in ("127.0.0.1", "0.0.0.0")),
    st.uuids().map(str),
    st.text(string.ascii_lowercase, min_size=4, max_size=12).map(lambda t: f"{t}@mail.example.com"),
)


@given(SECRETS, SEPARATOR, SEPARATOR, st.sampled_from(STAYS))
def test_secrets_between_separators_are_found(secret: str, before: str, after: str, text: str) -> None:
    out = redact([f"{text}{before}{secret}{after}{text}"], NOBODY).value[0]
    assert secret not in out


@given(st.lists(st.sampled_from([text for text, _, _ in GONE]), min_size=1, max_size=6))
def test_placeholders_are_stable(texts: list[str]) -> None:
    """The same line twice is the same twice, whatever stands around."""
    out = redact([*texts, *texts], ANN).value
    assert out[: len(texts)] == out[len(texts) :]
    assert PLACEHOLDER.search("".join(out))


@pytest.mark.parametrize(
    "unit", ["a", "a.", "a-", "/a", "1.", ":a", "a@", "ab_", "<", "\\a", "token=", "http://", "9a"]
)
def test_time_is_linear(unit: str) -> None:
    text = unit * (40_000 // len(unit))
    begin = time.monotonic()
    redact([text], ANN)
    assert time.monotonic() - begin < 5  # quadratic patterns take minutes


@pytest.mark.parametrize("scheme", ["s3", "gs", "hdfs", "abfs"])
def test_directories_of_a_store_are_somebodys(scheme: str) -> None:
    text = f"'model': '{scheme}://models-eu/customers/bigbank/Qwen3-8B' user=jdoe"
    found = redact({"line": text}, Identity()).value["line"]
    assert "bigbank" not in found
    assert "jdoe" not in found
    assert "Qwen3-8B" in found
    assert redact({"line": found}, Identity()).value["line"] == found
