"""The hash of content changes with the content, and only then; versions are all named."""

from __future__ import annotations

import pytest

from posbench import provenance
from posbench.content_hash import content_hash
from posbench.provenance import without_places


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
