"""What identifies people, machines and accounts in logs and configs: patterns, and what only looks like it.

Every quantifier is bounded or guarded by a lookbehind, so that time is linear in the length of a line.
"""

from __future__ import annotations

import ipaddress
import re
from itertools import pairwise

PLACEHOLDER = re.compile(r"<(?:user|dir|host|ip|mac|email|secret|container|uuid)-\d+>|<query>")

_GENERIC_NAMES = """
root user users admin administrator ubuntu debian centos nobody runner app vllm sglang docker jovyan
vscode home test tests dev data model models target draft drafter truedraft torch python work workspace
localhost ray cache hub engine server worker client layer layers weight weights bias norm embed token
tokens head proj attn mlp self dir host mac email secret container uuid none null true false default
dflash dspark eagle eagle3 qwen llama gemma deepseek speculators local system build git main max min num
job node cuda triton flashinfer tiny schema kind name value state config file files log lines engines
contract where text source shape dtype
"""
GENERIC = frozenset(_GENERIC_NAMES.split())
"""Words that name nobody: as a user or host name they are left alone outside of paths and addresses."""

_PUBLIC = """
github.com www.github.com raw.githubusercontent.com huggingface.co hf.co arxiv.org pypi.org pytorch.org
files.pythonhosted.org download.pytorch.org docs.vllm.ai docs.sglang.ai modelscope.cn no-color.org
readthedocs.io nvidia.com docs.nvidia.com developer.nvidia.com
"""
PUBLIC_HOSTS = frozenset(_PUBLIC.split())
"""Hosts that everybody uses."""

ROUTES = frozenset({"v1", "v2", "api", "metrics", "health", "generate", "server_info", "get_server_info"})
"""First components of paths that are routes of a server and no files."""

STORES = frozenset({"file", "s3", "gs", "gcs", "az", "abfs", "abfss", "wasbs", "hdfs", "nfs", "smb", "oss"})
"""Schemes whose paths are directories of somebody's."""

HOME = re.compile(r"(?:/(?:home|Users)/|\\Users\\{1,2}|(?<![\w/])~(?=\w))([^\W_][\w.-]{0,63})(?![\w.-])")
ENVIRONMENT_USER = re.compile(
    r"(?<!\w)(?:USER|LOGNAME|USERNAME|username|user_name|user)['\"]?\s?=\s?['\"]?([\w.-]{2,64})"
)

PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.S)
API_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{16,}|sk-(?=[\w-]{0,200}\d)[\w-]{16,}|gh[oprsu]_[A-Za-z0-9]{16,}"
    r"|github_pat_\w{16,}|glpat-[\w-]{16,}|(?:AKIA|ASIA|AGPA|AROA)[A-Z0-9]{12,}|xox[abeprs]-[\w-]{10,}"
    r"|AIza[\w-]{30,}|nvapi-[\w-]{16,}|ya29\.[\w-]{16,}|dckr_pat_[\w-]{16,}|npm_[A-Za-z0-9]{30,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
)
BEARER = re.compile(r"(?i)(?<!\w)(bearer\s{1,3})((?=[^\s\"']{0,200}\d|[^\s\"']{16})[\w.~+/=-]{6,})")
AUTHORIZATION = re.compile(
    r"(?i)(?<!\w)(authorization['\"]?\s{0,3}[=:]\s{0,3}['\"]?(?:(?:bearer|basic|token|digest)\s{1,3})?)([^\s\"',}]{4,})"
)

_SECRET_NAME = (
    r"(?:[A-Za-z0-9]{1,24}[_-]){0,4}?(?:api[_-]?keys?|access[_-]?key(?:[_-]?id)?|account[_-]?key"
    r"|secret(?:[_-]?(?:access[_-]?)?key)?|passwd|password|passphrase|credentials?|private[_-]?key|cookie"
    r"|(?:auth|access|api|bearer|refresh|session|hf|hub|github|gh|gitlab|wandb|slack|ngrok|security)[_-]?token)"
)
SECRET_KEY = re.compile(_SECRET_NAME, re.I)
"""A whole key of an object whose value is a secret."""

_VALUE = r"\"[^\"\n]{0,4000}\"|'[^'\n]{0,4000}'|\[[^\]\n]{0,4000}\]|[^\s,;&\"'\])}]{1,4000}"
ASSIGNED = re.compile(
    rf"(?i)((?<![A-Za-z0-9]){_SECRET_NAME}\\?['\"]?\s{{0,3}}(?:=>|[=:])\s{{0,3}}\\?"
    rf"|(?<!\S)--{_SECRET_NAME}\s{{1,3}})({_VALUE})"
)
NO_SECRET = frozenset(("", "none", "null", "true", "false", "empty", "unset", "0", "1"))

TOKEN = re.compile(
    r"(?i)((?<![\w#-])(?:--)?token(?:['\"]?\s{0,2}=\s{0,2}|['\"]\s{0,2}:\s{0,2})['\"]?|(?<!\S)--token\s{1,3}['\"]?)"
    r"((?=[\w./+=-]{0,200}[A-Za-z])(?=[\w./+=-]{0,200}\d)[\w./+=-]{8,})"
)

ADDRESS = re.compile(
    r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z0-9+.-]{1,20})://([^\s/?#\"'\\]{0,512})([^\s\"'\\]{0,4096})"
)
EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])")
LOGIN = re.compile(
    r"(?<![\w.-])([A-Za-z_][\w.-]{0,63})@(\d{1,3}(?:\.\d{1,3}){3}(?!\.?\w)|[\w.-]{1,253}(?=:[~/]|:?\s?[~$#]\s))"
)
UUID = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])")
MAC = re.compile(
    r"(?<![\w:.-])(?:(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}|(?=[\d-]{0,16}[A-Fa-f])(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2})"
    r"(?![\w:-])"
)
IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\w)")
IPV6 = re.compile(
    r"(?<![\w:.])(?=[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{3,39}(?:(?<=:)\d{1,3}(?:\.\d{1,3}){3})?(?![\w:])"
)
VERSION_BEFORE = re.compile(r"(?:==|>=|<=|~=|version['\"]?[\s=:]{0,3}['\"]?|\bv|-cu\d\d[\s=]{1,40})$", re.I)
"""What stands before four numbers that are a version (`nvidia-cudnn-cu12==9.1.0.70`)."""

_HOST_NAME = (
    r"(?:master_addr|host(?:_?name)?|node_?name|nodelist|server_name|rdzv_endpoint"
    r"|SLURM_\w{0,30}NODE\w{0,20})"
)
HOST_ASSIGNED = re.compile(
    rf"(?i)((?<![A-Za-z0-9]){_HOST_NAME}\s{{0,2}}=\s{{0,2}}['\"]?"
    rf"|(?<![A-Za-z0-9]){_HOST_NAME}['\"]\s{{0,2}}:\s{{0,2}}['\"]"
    rf"|(?<![A-Za-z0-9]){_HOST_NAME}\s{{0,2}}:\s{{0,2}}(?=[\w-]{{0,63}}[\d.-])"
    r"|(?<!\S)--(?:host|master-addr|dist-init-addr)[= ])([\w.-]{2,253})"
)
HOST_KEY = re.compile(rf"{_HOST_NAME}", re.I)
"""A whole key of an object whose value is a host."""

USER_KEY = re.compile(r"user(?:_?name)?|owner|login", re.I)
"""A whole key of an object whose value is a user."""

WORD = re.compile(r"[\w.-]{2,253}")

SYSLOG = re.compile(
    r"(?m)^((?:[A-Z][a-z]{2}\s{1,2}\d{1,2} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.+Z-]{8,30}) )"
    r"([\w.-]{1,253})(?= [\w./@-]{1,64}(?:\[\d{1,10}\])?:)"
)
CLOUD_HOST = re.compile(
    r"(?<![\w.-])(?:ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}"
    r"|[a-z][a-z0-9-]{1,50}-(?=[0-9a-f]{0,10}[a-f])(?=[0-9a-f]{0,10}\d)[0-9a-f]{8,10}-(?=\w{0,5}\d)[a-z0-9]{5})(?![\w-])"
)
DOMAIN = re.compile(
    r"(?i)(?<![\w.@/-])(?:[a-z0-9][a-z0-9-]{0,62}\.){1,8}(?:com|org|net|edu|gov|mil|io|ai|cloud|internal|local|lan|corp"
    r"|intra|localdomain|cluster|de|uk|fr|cn|jp|ru|eu|ch|nl|kr|tw|ca|au)(?![\w-]|\.\w)"
)

_PART = r"[\w.@+~=%-]{1,255}"
PATH = re.compile(
    rf"(?:(?<![\w.#/<>~$*-])(?:/{_PART}){{2,64}}|(?<![#<])/(?:home|Users|root|mnt|scratch|nfs|lustre|export)(?:/{_PART}){{1,64}}"
    rf"|(?<![\w/])~[\w.-]{{0,64}}(?:/{_PART}){{1,64}}|(?<![A-Za-z0-9])[A-Za-z]:(?:\\{{1,2}}{_PART}){{1,64}})[/\\]?"
)
KEPT_PARTS = re.compile(r"(?:models|datasets)--.+|site-packages|dist-packages")
"""A component from which on a path tells nothing of its owner."""

HEX = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{32,}(?![0-9A-Za-z])")
DIGEST_BEFORE = re.compile(
    r"(?i)(?:(?:revision|commit|snapshots|blobs|sha256|sha|digest|checksum|hash)['\"]?\s?[=:/@]?\s?['\"]?|[\w.-]/[\w.-]{1,96}@)$"
)
"""What stands before a checksum or revision, which a reader needs."""

CONTAINER = re.compile(r"(?<![\w.-])(?=[0-9a-f]{0,11}[a-f])(?=[0-9a-f]{0,11}\d)[0-9a-f]{12}(?![\w.-])")
RANDOM = re.compile(r"(?<![A-Za-z0-9+/_=.-])[A-Za-z0-9+/_-]{32,}={0,2}")

DIGEST = re.compile(r"[0-9a-f]{16}|[0-9a-f]{40}|[0-9a-f]{64}")
DIGEST_KEYS = frozenset({"sha256", "revision", "commit", "contract_hash", "output_hash"})
"""Keys under which a digest stays."""


def is_ipv4(text: str) -> bool:
    """Whether four numbers are an address that says something: not loopback, not all zero."""
    plain = IPV4.fullmatch(text) is not None and text not in ("127.0.0.1", "0.0.0.0")
    return plain and all(int(part) <= 255 for part in text.split("."))


def is_ipv6(text: str) -> bool:
    """Whether hex digits and colons are an address, and no time, C++ name or loopback."""
    groups = [part for part in text.split(":") if part]
    if text in ("::", "::1") or not groups or (len(groups) < 3 and len(groups[0]) < 4):
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def is_random(text: str) -> bool:
    """Whether letters and digits change as in base64: names of models and classes change less often."""
    pieces = re.split(r"[-_]", text) if "-" in text or "_" in text else [text.rstrip("=")]
    return any(len(piece) >= 20 and _changes(piece) >= 0.5 for piece in pieces)


def _changes(text: str) -> float:
    kinds = ["u" if c.isupper() else "l" if c.islower() else "d" if c.isdigit() else "o" for c in text]
    if kinds.count("d") < 2 or not {"u", "l"} <= set(kinds):
        return 0.0
    return sum(a != b for a, b in pairwise(kinds)) / (len(kinds) - 1)


def is_name(text: str) -> bool:
    """Whether a word names somebody or some machine, so that it is replaced wherever it stands."""
    return len(text) >= 3 and any(c.isalpha() for c in text) and text.casefold() not in GENERIC
