"""Tasks as text, each read by another reader, and what is said of serving."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import FORMS, TRAINED, WINDOW, characters, family, llama, of_words
from tokenizers import normalizers
from transformers import LlamaForCausalLM

from posbench.base.errors import ConfigError
from posbench.core.extension import Extension
from posbench.extensions.abf import ABF
from posbench.extensions.by_parts import ByParts
from posbench.extensions.direct import Direct
from posbench.extensions.drop_low_frequencies import DropLowFrequencies
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.giraffe_power import GiraffePower
from posbench.extensions.llama3 import Llama3
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.longrope_search import LongRoPEExponents
from posbench.extensions.mrrope_uni import MrRoPEUni
from posbench.extensions.ntk import NTK
from posbench.extensions.ntk_mixed import NTKMixed
from posbench.extensions.pi import PI
from posbench.extensions.self_extend import SelfExtend
from posbench.extensions.served import Served
from posbench.extensions.yarn import YaRN
from posbench.pretrained import serving
from posbench.pretrained.command import unwrapped
from posbench.pretrained.continuing import Continuing, pieces
from posbench.pretrained.forms import mount
from posbench.pretrained.measuring import Answering, Perplexity
from posbench.pretrained.serving import overrides
from posbench.pretrained.text_tasks import PEOPLE, SETS, TASKS, Pieces, Question, Text

pytestmark = pytest.mark.filterwarnings("ignore")

CHARACTERS = characters()
LENGTH = 1_200
"""Characters of a text, enough for every task."""


def words(tokens: list[int]) -> str:
    return "".join(CHARACTERS.convert_ids_to_tokens(tokens))


def texts(name: str, count: int = 3, questions: int = 5, length: int = LENGTH) -> list[Text]:
    asking = Answering(name, TASKS[name], Pieces(CHARACTERS), questions)
    return [asking.text(length, number) for number in range(count)]


def asked(text: Text) -> list[tuple[str, str, str]]:
    """The text, the last line before the answer and the answer, in words."""
    return [(words(text.shared[1:]), words(q.asked), words(q.answer)) for q in text.questions]


# -- every task ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_texts_have_their_length_and_questions_know_their_source(name: str) -> None:
    for text in texts(name):
        sizes = [len(text.tokens(question)) for question in text.questions]
        assert max(sizes) == LENGTH and text.shared[0] == CHARACTERS.bos_token_id
        assert "?!" not in words(text.tokens(text.questions[0])[1:])
        for question in text.questions:
            if question.depth is None:
                assert name in ("in_context_language", "common_words")
                continue
            assert question.distance is not None
            place = len(text.shared) + len(question.asked) - question.distance
            assert question.depth == pytest.approx(place / (len(text.shared) - 1))
            line = words(text.shared[place:]).partition("\n")[0]
            assert words(question.answer).strip() in line
    assert texts(name) == texts(name)
    first, second, _ = texts(name)
    assert first.shared != second.shared
    with pytest.raises(ConfigError, match="choose longer lengths, or fewer questions"):
        texts(name, length=40)


@pytest.mark.parametrize("name", ("passkey", "key_value_retrieval", "noisy_recall"))
def test_sources_stand_evenly_from_the_start_to_the_end(name: str) -> None:
    for text in texts(name, questions=6):
        places = [question.depth for question in text.questions]
        assert places == sorted(places, key=float)
        gaps = np.diff([float(place or 0) for place in places])
        assert gaps.max() < 1.6 * gaps.min()
        assert len(words(text.shared).rpartition(words(text.questions[-1].answer))[2]) < 30


def test_one_question_may_stand_anywhere() -> None:
    places = [text.questions[0].depth for text in texts("passkey", 12, questions=1)]
    assert min(places) < 0.3 and max(places) > 0.7  # type: ignore[type-var, operator]


@pytest.mark.parametrize("name", SETS["ruler"])
def test_the_short_ruler_works_from_256_tokens(name: str) -> None:
    """With a tokenizer of words and digits, as most are."""

    class Words:
        bos_token_id = 0

        def __call__(self, text: str, add_special_tokens: bool) -> object:
            return type("", (), {"input_ids": re.findall(r"\d| ?[A-Za-z]+|\s|[^\w\s]", text)})

    asking = Answering(name, TASKS[name], Pieces(Words()), 5)
    assert max(len(asking.text(256, 0).tokens(q)) for q in asking.text(256, 0).questions) == 256


# -- each task, by another reader ------------------------------------------------------------------


def test_passkey_says_the_number_of_each_person_once() -> None:
    for text in texts("passkey", questions=4):
        for body, question, answer in asked(text):
            said = re.findall(r"^The secret number of (\w+) is (\d{5})\.$", body, re.M)
            assert len(said) == len(dict(said)) == 4 == len({key for _, key in said})
            name = re.fullmatch(
                r"What is the secret number of (\w+)\? The secret number of \1 is", question
            )
            assert name and dict(said)[name[1]] == answer.strip() and answer[0] == " "


def test_key_value_retrieval_is_full_of_lines_like_the_one_asked_for() -> None:
    for text in texts("key_value_retrieval"):
        for body, question, answer in asked(text):
            lines = re.findall(r"^N(\d{4}): (\d{4})$", body, re.M)
            assert len(lines) > 60
            key = re.findall(r"N(\d{4})", question)[0]
            assert [value for name, value in lines if name == key] == [answer.strip()]


def test_noisy_recall_asks_for_people_among_things() -> None:
    for text in texts("noisy_recall"):
        for body, question, answer in asked(text):
            lines = re.findall(r"^(\w+): (\d{4})$", body, re.M)
            people = [each for each in lines if each[0] in PEOPLE]
            assert len(people) == 5 and len(lines) > 40
            name = re.findall(r"number of (\w+)\?", question)[0]
            assert [value for each, value in people if each == name] == [answer.strip()]


def test_variables_are_tracked_through_their_chain() -> None:
    for text in texts("multi_hop"):
        for body, question, answer in asked(text):
            known: dict[str, str] = {}
            for name, value in re.findall(r"^VAR (X\d+) = (\w+)$", body, re.M):
                assert name not in known
                known[name] = known[value] if value[0] == "X" else value  # what it names is known
            assert len(known) == 10
            name = re.findall(r"value of (X\d+)\?", question)[0]
            assert known[name] == answer.strip()
            assert not re.search(rf"VAR {name} = {answer.strip()}", body)  # one hop away


def test_the_word_that_follows_can_be_learned_from_the_text() -> None:
    for text in texts("in_context_language"):
        body = asked(text)[0][0]
        pairs = Counter(re.findall(r"^(\w+) (\w+)$", body, re.M))
        for _, question, answer in asked(text):
            after = {b: count for (a, b), count in pairs.items() if a == question}
            (best, most), *others = sorted(after.items(), key=lambda each: -each[1])
            assert best == answer.strip() and all(count < most for _, count in others)
        assert len({word for _, word, _ in asked(text)}) == 5
        assert sum(1 for each in pairs if each[0] == question) < 12  # it is no noise alone


def test_the_common_word_is_the_most_common() -> None:
    for text in texts("common_words"):
        ((body, question, answer),) = asked(text)
        counts = Counter(body.split("\n", 1)[1].split())
        (best, most), (_, second) = counts.most_common(2)
        assert best == answer.strip() and most > 2 * second
        assert question.endswith("The word that comes most often is")


# -- tokens, as the whole text has them -----------------------------------------------------------

TOKENS: dict[str, tuple[str, str]] = {
    "passkey": (
        "What ▁is ▁the ▁secret ▁number ▁of ▁Elena ? ▁The ▁secret ▁number ▁of ▁Elena ▁is",
        "▁ 7 0 0 4 2",
    ),
    "key_value_retrieval": (
        "What ▁is ▁the ▁number ▁of ▁N 8 1 0 5 ? ▁The ▁number ▁of ▁N 8 1 0 5 ▁is",
        "▁ 2 6 2 8",
    ),
    "noisy_recall": ("What ▁is ▁the ▁number ▁of ▁Elena ? ▁The ▁number ▁of ▁Elena ▁is", "▁ 3 4 4 8"),
    "multi_hop": (
        "What ▁is ▁the ▁value ▁of ▁X 8 1 2 ? ▁The ▁value ▁of ▁X 8 1 2 ▁is",
        "▁ 8 1 0 6 7",
    ),
    "in_context_language": ("stone", "▁window"),
    "common_words": (
        "Which ▁word ▁comes ▁most ▁often ? ▁The ▁word ▁that ▁comes ▁most ▁often ▁is",
        "▁mirror",
    ),
}
"""A question of each task and its answer, in tokens."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TASKS)
def test_a_question_and_its_answer_have_the_tokens_of_one_text(name: str, form: str) -> None:
    tokenizer = of_words(form)
    text = TASKS[name].text(pieces(tokenizer), 900, 2, np.random.default_rng(0))
    question = text.questions[0]
    shown = [
        " ".join(tokenizer.convert_ids_to_tokens(each)).replace("Ġ", "▁")
        for each in (question.asked, question.answer)
    ]
    assert tuple(shown) == TOKENS[name]
    whole = tokenizer.decode(text.tokens(question), skip_special_tokens=True)
    assert "  " not in whole
    assert whole.endswith(f"\n{tokenizer.decode([*question.asked, *question.answer])}")
    again = tokenizer(f"x\n{whole.rpartition(chr(10))[2]}", add_special_tokens=False).input_ids
    assert again[-len(question.asked + question.answer) :] == question.asked + question.answer
    assert len(text.tokens(max(text.questions, key=lambda q: len(q.asked + q.answer)))) == 900


@pytest.mark.parametrize("form", FORMS)
def test_what_is_asked_for_stands_in_the_text_in_the_same_tokens(form: str) -> None:
    text = TASKS["passkey"].text(pieces(of_words(form)), 900, 10, np.random.default_rng(0))
    for question in text.questions:
        lead = question.asked[-5:]  # secret number of NAME is
        said = [*lead, *question.answer]
        assert any(text.shared[i : i + len(said)] == said for i in range(len(text.shared)))


@pytest.mark.slow
def test_a_tokenizer_that_puts_nothing_in_front_is_asked_for_each_piece_alone() -> None:
    """So what has been measured with one keeps its tokens."""
    assert [type(pieces(of_words(form))) is Continuing for form in FORMS] == [True] * 3 + [False]
    for name in TASKS:
        for form in (of_words("bytes"), CHARACTERS):
            now, alone = (
                TASKS[name].text(each, 900, 2, np.random.default_rng(1))
                for each in (pieces(form), Pieces(form))
            )
            assert now == alone


def test_a_chat_has_no_space_in_front_of_its_parts() -> None:
    tokenizer = of_words("Mistral")
    tokenizer.chat_template = "<s>[INST] {{ messages[0]['content'] }} [/INST]"
    try:
        text = TASKS["passkey"].text(pieces(tokenizer, True), 700, 2, np.random.default_rng(0))
    finally:
        tokenizer.chat_template = None
    said = tokenizer.decode(text.tokens(text.questions[0]), skip_special_tokens=True)
    assert said.startswith("[INST] Somewhere in this text") and "  " not in said
    assert said.endswith("of Elena? [/INST]The secret number of Elena is 70042")


def test_a_tokenizer_whose_answers_have_no_first_token_is_refused() -> None:
    parts = {"normalizer": normalizers.Replace(" ", "▁"), "pre_tokenizer": None}
    joining = of_words("Llama", space_after=True, **parts)
    with pytest.raises(ConfigError, match=r"joins the answer ' 70042' with what is before it"):
        TASKS["passkey"].text(pieces(joining), 900, 2, np.random.default_rng(0))


def test_a_tokenizer_that_loses_something_of_a_text_is_refused() -> None:
    losing = of_words("bytes", normalizer=normalizers.Lowercase())
    with pytest.raises(ConfigError, match=r"makes 'what is .* 70042' of 'What is .* 70042'"):
        TASKS["passkey"].text(pieces(losing), 900, 2, np.random.default_rng(0))


# -- chat, and a text of one's own -----------------------------------------------------------------


def test_a_chat_template_stands_around_the_whole_message() -> None:
    chatty = characters()
    chatty.chat_template = (
        "{% for m in messages %}USER {{ m['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}BOT {% endif %}"
    )
    text = Answering("passkey", TASKS["passkey"], Pieces(chatty, chat=True), 2, True).text(400, 0)
    said = words(text.tokens(text.questions[0]))
    name = re.findall(r"What is the secret number of (\w+)\?", said)[0]
    assert said.startswith("USER Somewhere in this text") and len(said) == 400
    assert re.search(
        rf"secret number of {name}\?\nBOT The secret number of {name} is \d{{5}}$", said
    )
    with pytest.raises(ConfigError, match="chat=true needs a tokenizer with a chat template"):
        Pieces(CHARACTERS, chat=True)


def test_perplexity_is_of_stretches_of_the_file(tmp_path: Path) -> None:
    file, length = tmp_path / "mine.txt", 30
    file.write_text("".join("abcdefgh "[(3 * i * i) % 9] for i in range(100)))
    measured = Perplexity.of(file, CHARACTERS)
    net = llama(positions=20)
    net.resize_token_embeddings(len(CHARACTERS))
    body = CHARACTERS(file.read_text(), add_special_tokens=False).input_ids
    with mount(net) as mounted, torch.no_grad():
        (found,) = measured.found(mounted, Direct(), length, 1)
        (held_out,) = measured.found(mounted, Direct(), length, 0, "validation")
        for each, start in ((found, 29), (held_out, 71)):
            tokens = [CHARACTERS.bos_token_id, *body[start : start + 29]]
            loss = net(torch.tensor([tokens]), labels=torch.tensor([tokens])).loss
            assert -each.log_likelihood == pytest.approx(float(loss), abs=1e-6)
        assert found.place == [place / 20 for place in range(1, 30)]
        with pytest.raises(ConfigError, match="has 100 tokens, and 4 stretches of 29 need 116"):
            measured.found(mounted, Direct(), length, 3)
    with pytest.raises(ConfigError, match="cannot be read as UTF-8"):
        Perplexity.of(tmp_path / "not there", CHARACTERS)


@pytest.mark.slow
def test_scores_are_those_of_greedy_decoding() -> None:
    net = llama(positions=512)
    net.resize_token_embeddings(len(CHARACTERS))

    class Given(Answering):
        def text(self, length: int, number: int, stream: str = "test") -> Text:
            return told

    asking = Given("passkey", TASKS["passkey"], Pieces(CHARACTERS), 2)
    told = Answering.text(asking, 300, 0)
    net.generation_config.eos_token_id = None
    settings = {"do_sample": False, "pad_token_id": 1}
    with mount(net) as mounted, torch.no_grad():
        wrong = asking.found(mounted, Direct(), 300, 4)
        assert [each.number for each in wrong] == [8, 9]
        assert not any(each.answer.exact for each in wrong)
        decoded = []
        for each in told.questions:
            prompt = torch.tensor([[*told.shared, *each.asked]])
            out = net.generate(prompt, max_new_tokens=len(each.answer), **settings)
            answer = out[0, prompt.shape[1] :].tolist()
            decoded.append(Question(each.asked, answer, each.depth, each.distance))
        *begun, last = decoded[1].answer
        almost = replace(decoded[1], answer=[*begun, (last + 1) % len(CHARACTERS)])
        told = Text(told.shared, [decoded[0], almost])
        right, still = asking.found(mounted, Direct(), 300, 4)
        assert right.answer.exact and not still.answer.exact
        assert right.log_likelihood > wrong[0].log_likelihood


def test_a_source_is_within_what_was_trained_up_to_one_token_less_than_the_positions() -> None:
    """L trained positions have distances of up to L - 1; one of L is new."""
    net = llama(positions=512)
    net.resize_token_embeddings(len(CHARACTERS))

    class Given(Answering):
        def text(self, length: int, number: int, stream: str = "test") -> Text:
            return told

    asking = Given("passkey", TASKS["passkey"], Pieces(CHARACTERS), 3)
    with mount(net) as mounted, torch.no_grad():
        trained = mounted.train_positions
        text = Answering.text(asking, 300, 0)
        distances = (trained - 1, trained, trained + 1)
        asked = zip(text.questions, distances, strict=True)
        told = Text(text.shared, [replace(each, distance=far) for each, far in asked])
        found = asking.found(mounted, Direct(), 300, 0)
    assert [set(each.within or ()) for each in found] == [{True}, {False}, {False}]


# -- serving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "extension",
    (
        *(PI(), NTK(), DynamicNTK(), YaRN(2.0, 0.5), Llama3(0.2, 1.0), LongRoPE()),
        *(NTKMixed(), MrRoPEUni(2.0, 0.5), ABF(), ByParts(2.0, 0.5), PI(3.0), GiraffePower()),
        *(YaRN(2.0, 0.5, mscale=0.7), LongRoPEExponents([0.0, 0.3, 0.9, 1.1])),
    ),
    ids=lambda extension: type(extension).__name__,
)
def test_a_model_loaded_with_the_recipe_is_the_one_measured(
    extension: Extension, tmp_path: Path
) -> None:
    length, net = 2 * TRAINED, llama()
    net.save_pretrained(tmp_path)
    tokens = torch.randint(40, (1, length), generator=torch.Generator().manual_seed(2))
    with mount(net) as mounted, torch.no_grad():
        recipe = overrides(mounted, extension, length)
        assert isinstance(recipe, dict)
        before = net(tokens).logits
        mounted.extension = extension
        measured = net(tokens).logits
        served = LlamaForCausalLM.from_pretrained(tmp_path, dtype="float64", **recipe)(tokens)
    largest = float(measured.abs().max())
    assert (before - measured).abs().max() > 1e-3 * largest
    # In transformers the base of the NTK forms is rounded to float32 before it is raised.
    torch.testing.assert_close(served.logits, measured, rtol=0, atol=1e-5 * largest)


@pytest.mark.slow
@pytest.mark.parametrize("extension", (ByParts(2.0, 0.5), MrRoPEUni(2.0, 0.5), YaRN(2.0, 0.5)))
def test_one_factor_for_all_lengths_is_served_within_the_trained_length_too(
    extension: Extension, tmp_path: Path
) -> None:
    net = llama()
    net.save_pretrained(tmp_path)
    tokens = torch.randint(40, (1, TRAINED // 2), generator=torch.Generator().manual_seed(2))
    with mount(net) as mounted, torch.no_grad():
        inner, length = unwrapped(Served(extension, 2.0), TRAINED, 4 * TRAINED)
        recipe = overrides(mounted, inner, length, fixed=True)
        assert isinstance(recipe, dict) and length == 2 * TRAINED
        mounted.extension = Served(extension, 2.0)
        measured = net(tokens).logits
        served = LlamaForCausalLM.from_pretrained(tmp_path, dtype="float64", **recipe)(tokens)
    atol = 1e-5 * float(measured.abs().max())
    torch.testing.assert_close(served.logits, measured, rtol=0, atol=atol)


def test_what_cannot_be_served_has_a_sentence() -> None:
    with mount(llama()) as mounted:
        for extension in (SelfExtend(8), YaRN(2.0, 0.5, mscale_all_dim=0.7), DropLowFrequencies()):
            said = overrides(mounted, extension, 48)
            assert said == (
                f"neither transformers nor vLLM has {type(extension).__name__}: only the mounted "
                "model can be served"
            )
    with mount(llama({"rope_type": "linear", "factor": 2.0})) as mounted:
        assert "of its own already" in overrides(mounted, PI(), 48)
        assert overrides(mounted, Direct(), 48) == {"max_position_embeddings": 48}
        assert overrides(mounted, Direct(), TRAINED) == (
            "nothing has to be set: the model is served as it is"
        )


@pytest.mark.parametrize("extension", (PI(), YaRN(2.0, 0.5)))
def test_layers_that_stay_as_they_are_cannot_be_served(extension: Extension) -> None:
    """Settings for all layers would change them: Ministral 8B, Qwen2 with windows."""
    for name, settings in (
        ("Ministral", {"head_dim": 8, "layer_types": ["full_attention", "sliding_attention"]}),
        ("Qwen2", {"use_sliding_window": True, "max_window_layers": 1}),
    ):
        net = family(name, sliding_window=WINDOW, **settings)
        with mount(net) as mounted:
            assert [layer.window for layer in mounted.layers] == [None, WINDOW]
            assert overrides(mounted, extension, 48) == (
                "layers with windows of 6 stay as they are in the mounted model, and "
                "rope_parameters would change them as well: only the mounted model can be served"
            )


@pytest.mark.slow
def test_windows_beyond_the_trained_length_and_layers_without_positions_are_served() -> None:
    for name, settings in (
        ("Mistral", {"sliding_window": 2 * TRAINED}),
        ("SmolLM3", {"no_rope_layers": [1, 0]}),
    ):
        with mount(family(name, **settings)) as mounted:
            assert overrides(mounted, PI(), 48) == {
                "max_position_embeddings": 48,
                "rope_parameters": dict(mounted.model.config.rope_parameters)
                | {"rope_type": "linear", "factor": 2.0},
            }
            assert mounted.extension.is_identity  # as it was before it was tried


@pytest.mark.slow
def test_far_positions_round_in_transformers_and_are_served_all_the_same() -> None:
    """A factor that is off by one in a hundred still makes another model."""
    length, net = 2**17, llama(positions=2**16).float()
    with mount(net) as mounted:
        recipe = overrides(mounted, PI(), length)
        assert isinstance(recipe, dict)
        off, other = (
            serving._difference(mounted, PI(), recipe | {"rope_parameters": each}, length)
            for each in (recipe["rope_parameters"], recipe["rope_parameters"] | {"factor": 2.02})
        )
        assert 3e-4 < off < 1e-2 and other > 0.2


@pytest.mark.slow
def test_settings_that_make_another_model_are_withheld(tmp_path: Path) -> None:
    """They go to the configuration of the folder, which says something else here."""
    llama().save_pretrained(tmp_path)
    net = LlamaForCausalLM.from_pretrained(tmp_path, dtype="float64").eval()
    with mount(net) as mounted:
        assert isinstance(overrides(mounted, PI(), 48), dict)
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.5}))
        assert re.fullmatch(
            r"with rope_parameters, transformers makes another model, whose logits differ by "
            r"\d\.\d+ of the largest: only the mounted model can be served",
            str(overrides(mounted, PI(), 48)),
        )
