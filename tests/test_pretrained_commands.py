"""Questions about a model of one's own: does its configuration take effect, what helps, how far."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from small_models import characters, gemma3, llama

from posbench.extensions.yarn import YaRN
from posbench.pretrained import layer_kinds, verify
from posbench.pretrained.verify import Verified, VerifySettings

pytestmark = pytest.mark.filterwarnings("ignore")

POSITIONS = 300
YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": POSITIONS,
}


UNTOLD = {"rope_type": "default", "rope_theta": 10000.0}


def saved(net: Any, folder: Path) -> Path:
    tokenizer = characters()
    net.resize_token_embeddings(len(tokenizer))
    net.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(llama(positions=POSITIONS), tmp_path_factory.mktemp("models") / "tiny")


# -- verify ----------------------------------------------------------------------------------------


def verified(net: Any, **settings: Any) -> Verified:
    given = {"model": Path("it"), "dtype": "float64", **settings}
    return Verified.of(net, VerifySettings(**given))


def numbers(found: Verified) -> list[dict[str, float]]:
    return [
        layer_kinds.numbers_of(kind.form, found.length) for kind, _ in found.kinds() if kind.name
    ]


def test_yarn_of_a_configuration_is_found_with_its_numbers() -> None:
    net = llama(YARN | {"beta_fast": 3.0}, positions=4 * POSITIONS)
    found = verified(net)
    assert (found.trained, found.length) == (POSITIONS, 4 * POSITIONS)
    [mine] = numbers(found)
    assert mine["factor"] == 4 and mine["beta_fast"] == 3 and mine["trained length"] == POSITIONS
    assert mine["cosine and sine times"] == pytest.approx(0.1 * math.log(4) + 1)
    assert found.off[0] < 1e-5 and found.off[1] < 1e-4  # transformers has angles in float32
    [(kind, layers)] = found.kinds()
    assert layers == [0, 1] and kind.changes and kind.frequencies.count == 4
    own = kind.form.own
    same = layer_kinds.replace_own(own, YaRN(3.0), POSITIONS)
    published = layer_kinds.replace_own(own, YaRN(), POSITIONS)
    assert found.difference(own, same) == 0
    assert found.difference(own, published) > 1e-3  # other pairs are slowed
    assert found.difference(own, None) > 1e-2
    assert found.answer(found.kinds()).startswith("yarn takes effect in 2 of 2 rotary layers")


def test_settings_beside_a_model_are_those_that_count() -> None:
    net = llama(positions=POSITIONS)
    before = net.config.to_dict()
    found = verified(net, rope_parameters={**YARN, "rope_theta": 10000.0, "beta": 3})
    [mine] = numbers(found)
    assert mine["factor"] == 4 and mine["beta_fast"] == 32
    assert list(found.remarks()) == ["beta is not read with rope_type yarn."]
    assert net.config.to_dict() == before
    assert numbers(verified(net)) == []


def test_a_base_that_was_dropped_or_raised_is_told() -> None:
    net = llama({"rope_theta": 1e6}, positions=POSITIONS)
    with pytest.raises(verify.ConfigError, match='write "rope_theta": 1e\\+06'):
        verified(net, rope_parameters=YARN)
    raised = verified(
        net, rope_parameters={"rope_type": "default", "rope_theta": 5e6}, length=2 * POSITIONS
    )
    [said] = raised.remarks()
    assert f"NTK sets {1e6 * 2 ** (4 / 3):,.0f}" in said
    assert "the base is 5,000,000" in raised.answer(raised.kinds())


def test_a_factor_that_is_not_read_takes_no_effect() -> None:
    net = llama(positions=POSITIONS)
    found = verified(net, rope_parameters={**UNTOLD, "factor": 4.0})
    assert list(found.remarks()) == ["factor is not read with rope_type default."]
    assert found.answer(found.kinds()).startswith("No extension is set")


def test_only_some_layers_are_changed_where_the_configuration_says_so() -> None:
    found = verified(gemma3({"rope_type": "linear", "factor": 4.0}, positions=POSITIONS))
    assert [(kind.name, kind.changes, layers) for kind, layers in found.kinds()] == [
        (None, False, [0]),
        ("pi", True, [1]),
    ]
    assert found.answer(found.kinds()).startswith("pi takes effect in 1 of 2 rotary layers")


def test_verify_answers_on_the_command_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = json.dumps(YARN | {"rope_theta": 10000.0})
    assert verify.main([f"model={folder}", f"rope_parameters={given}"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Trained for 300 positions, served up to 1200.")
    assert out.splitlines()[-1].startswith("yarn takes effect in 2 of 2 rotary layers")
    refused = {
        f"rope_parameters={YARN}": "is no JSON",
        'rope_parameters={"factor": 4}': "rope_type= in rope_parameters: choose one of default",
        "rope_parameters=[1]": "is no JSON object",
        'rope_parameters={"rope_type": "yarn", "rope_theta": 1}': "transformers cannot load the",
        "lenght=1": "lenght=1: did you mean length?",
        "length=-1": "length must be greater than or equal to 0",
    }
    for word, said in refused.items():
        assert verify.main([f"model={folder}", word]) == 1
        error = capsys.readouterr().err.splitlines()[-1]
        assert said in error, error
    assert verify.main(["length=5"]) == 1
    assert "model= is missing" in capsys.readouterr().err
    assert verify.main([]) == 1


def test_a_model_with_parameters_for_each_kind_of_layer_is_given_both() -> None:
    with pytest.raises(verify.ConfigError, match="for each of sliding_attention and full"):
        verified(gemma3(positions=POSITIONS), rope_parameters=YARN | {"rope_theta": 1e6})
