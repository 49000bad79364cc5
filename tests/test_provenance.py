"""The hash of content changes with the content, and only then; versions and the CPU are named."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest
import torch

from posbench.base.content_hash import content_hash
from posbench.config import provenance
from posbench.config.provenance import without_places


def test_content_names_classes_wherever_they_stand() -> None:
    node = {"_target_": "a.b.C", "host": {"_target_": "d.E", "x": 1}, "layers": [{"_target_": "F"}]}
    plain = {"_target_": "C", "host": {"_target_": "E", "x": 1}, "layers": [{"_target_": "F"}]}
    assert without_places(node) == plain


def test_the_hash_of_content_does_not_depend_on_the_order_of_keys() -> None:
    assert content_hash({"a": 1, "b": {"c": [1, 2], "d": None}}) == content_hash(
        {"b": {"d": None, "c": [1, 2]}, "a": 1}
    )


@pytest.mark.parametrize(
    "other", [{"a": 2}, {"b": 1}, {"a": 1.5}, {"a": "1"}, {"a": [1]}, {"a": None}, {}]
)
def test_the_hash_of_content_changes_with_the_content(other: dict[str, object]) -> None:
    assert content_hash(other) != content_hash({"a": 1})


def test_the_hash_of_content_is_16_hexadecimal_digits_and_never_changes() -> None:
    assert content_hash({"b": [1, 2.5, None], "a": "é"}) == "fc10ba9755cfc69c"


def test_versions_name_python_and_every_package() -> None:
    assert set(provenance.versions()) == {"python", *provenance.PACKAGES}


AMD = """processor\t: 0
vendor_id\t: AuthenticAMD
flags\t\t: fpu sse2 avx avx2 avx512f avx512_bf16

processor\t: 1
vendor_id\t: another
flags\t\t: fpu amx_tile
"""
INTEL = "vendor_id\t: GenuineIntel\nflags\t: avx2 avx512f amx_bf16 amx_tile\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AMD, "AuthenticAMD avx512f"),
        (INTEL, "GenuineIntel amx_tile"),
        (INTEL.replace("avx512f amx_bf16 amx_tile", "avx"), "GenuineIntel avx2"),
        (ARM, "0x41 sve"),
        ("vendor_id\t: HygonGenuine\nflags\t: sse2\n", f"HygonGenuine {platform.machine()}"),
    ],
)
def test_a_cpu_is_named_by_its_maker_and_its_newest_instruction_set(
    tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / "cpuinfo").write_text(text, encoding="utf-8")
    assert provenance.kind_of_cpu(tmp_path / "cpuinfo") == expected


def test_the_kind_says_what_torch_was_told_to_leave_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = provenance.cpu.__wrapped__
    monkeypatch.delenv(provenance.CAPABILITY, raising=False)
    kind = whole()
    monkeypatch.setenv(provenance.CAPABILITY, "avx2")
    assert whole() == f"{kind}, ATEN_CPU_CAPABILITY=avx2"


def test_where_no_file_describes_the_cpu_the_platform_names_it(tmp_path: Path) -> None:
    expected = platform.processor() or platform.machine()
    (tmp_path / "empty").touch()
    for name in ("nowhere", "empty"):
        assert provenance.kind_of_cpu(tmp_path / name) == expected != ""


def test_torch_agrees_with_the_instruction_set_that_is_named() -> None:
    """It asks the processor itself, and does not tell AMX from AVX-512."""
    by_torch = {"AVX2": {"avx2"}, "AVX512": {"avx512f", "amx_tile"}, "SVE256": {"sve"}}
    capability = torch.backends.cpu.get_cpu_capability()
    if capability not in by_torch or "ATEN_CPU_CAPABILITY" in os.environ:
        pytest.skip(f"torch says {capability}, which is no set of instructions that is named")
    assert provenance.cpu().split()[-1] in by_torch[capability]


def test_the_commit_is_that_of_the_clone() -> None:
    """The module is two folders below the root, where git has its own."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        pytest.skip("this is no clone")
    head = subprocess.run(
        ("git", "rev-parse", "HEAD"), cwd=root, capture_output=True, text=True, check=True
    )
    found = provenance.commit()
    assert found is not None and found.removesuffix("+") == head.stdout.strip()
