"""`posbench pretrained`: extensions on a pretrained model, on tasks as text.

    posbench pretrained model=PATH extension=direct,pi,yarn 'lengths=[1,1.5,2]'
    posbench pretrained advise | verify | reach | lm-eval | export     each with its own --help

Lengths are multiples of the positions that the model was trained for. Before anything is measured,
the mounted model is shown to equal the model itself, also where two questions follow one text. An
extension that changes nothing beyond the trained length is left out, with the reason.
Each text is read once for all its questions, and what it gives is written at once: a command that
was stopped goes on where it was.

    model            a folder with a model in safetensors and its tokenizer, as transformers saves
                     them, or a .gguf file; code that a folder brings is never run
    extension        direct,pi,ntk,yarn by default; any that needs no training, and
                     extension.NAME=VALUE for their settings. *_tuned search their settings first
    task             passkey,key_value_retrieval by default; noisy_recall, multi_hop,
                     in_context_language, common_words; ruler for four of them; perplexity;
                     last_tokens: the loss of the last 64 tokens of texts, the same at each length.
                     task.hops=1 of multi_hop, task.words=12 and task.noise=0.2 of
                     in_context_language, task.times=4 of common_words
    text             the text file of perplexity, UTF-8; or the folder of text files of
                     last_tokens, by default the source of SymPy, which PyTorch installs
    lengths          [1,1.5,2] by default
    tokens           instead of lengths, as they are: [256,512]
    texts, questions 1 text of each length, with 10 questions at ten depths
    seed             the number of the first text, 0
    chat             true: in the tokenizer's chat template
    scale            length by default: a factor for each length. served: the factor of the longest
                     length for all, as a server is set; 1x is then part of every table
    train_positions  those of the model's configuration by default
    dtype            auto by default: as the model was saved
    device           cpu by default, or cuda or mps
    recipe           a YAML file with such settings; words beside it count more
    results_dir      results/local/pretrained by default; posbench board FOLDER
                     makes a page of it
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posbench.base.content_hash import content_hash
from posbench.base.disk import writing_to
from posbench.base.errors import ConfigError, IllegalExtension
from posbench.base.wording import closest, known_names, listed
from posbench.config import command_lines, mistakes
from posbench.config.folders import own_names
from posbench.core.extension import Extension, Searched
from posbench.pretrained.refusal import CannotMount, as_one_line, need_transformers
from posbench.pretrained.request import HELP, ModelRequest, built_from, extension_at, node_at

if TYPE_CHECKING:
    from posbench.pretrained.continuing import Checked
    from posbench.pretrained.measuring import Answering, Found, Measurement
    from posbench.pretrained.mounting import Mounted
    from posbench.pretrained.recording import Candidate, Recorder

PERPLEXITY, LAST_TOKENS = "perplexity", "last_tokens"
FARTHEST = 1_000
"""A multiple of the trained length beyond which nothing is measured, and no advice is given."""
SHORTEST = 2
"""Tokens of a text of which one is predicted."""
SHORT = 1024
"""Positions for which extensions are built before the model says its own."""


def main(arguments: list[str] | None = None) -> int:
    return command_lines.of_words("posbench pretrained", __doc__, arguments, _measured)


def _measured(words: list[str]) -> int:
    refuse_unknown(words)
    request = ModelRequest.of(words)
    refuse_early(request)
    with writing_to(request.settings.results_dir):
        for line in run(request):
            print(line, flush=True)
    return 0


def refuse_unknown(words: Sequence[str]) -> None:
    """ConfigError for an extension that there is not, before the model is looked for."""
    for word in words:
        key, _, value = word.partition("=")
        for name in value.strip("[]").split(",") if key == "extension" else ():
            if name.strip():
                mistakes.check_choice("extension", name.strip(), own_names("extension"))


def refuse_early(request: ModelRequest) -> None:
    """ConfigError for what is wrong whatever the model is, before it is loaded."""
    known_tasks(request)
    for name in request.settings.extension:
        extension_at(name, SHORT, 2 * SHORT, *request.of_extensions)


def known_tasks(request: ModelRequest) -> list[str]:
    """The names of the tasks, each once; ConfigError for an unknown one, and for a lacking text."""
    from posbench.pretrained.text_tasks import SETS, TASKS

    known = {**TASKS, **SETS, PERPLEXITY: None, LAST_TOKENS: None}
    names = [each for name in request.settings.task for each in SETS.get(name, (name,))]
    for name in names:
        if name not in known:
            raise ConfigError(f"task={name}: {known_names(known, HELP, closest(name, known))}")
    if PERPLEXITY in names:
        if not request.settings.text:
            raise ConfigError("task=perplexity needs text=FILE: name a text file")
        if not Path(request.settings.text).is_file():  # a device has no end
            raise ConfigError(f"text={request.settings.text} is no file: name a text file")
    for name in request.of_tasks:
        having = [each for each, task in TASKS.items() if name in vars(task)]
        if not {*having} & {*names}:
            raise ConfigError(f"task.{name} is a setting of {listed(having)}: name it in task=")
    return list(dict.fromkeys(names))


def run(request: ModelRequest) -> Iterator[str]:
    """Measure what is not known yet, and say what is found as it comes."""
    need_transformers()
    from posbench.pretrained.configured import reached
    from posbench.pretrained.proof import mounted_and_proved
    from posbench.pretrained.tabulating import table

    model, tokenizer = request.files.load(request.settings.dtype, request.settings.device)
    with mounted_and_proved(model, request.settings.train_positions or None) as mounted:
        trained = mounted.train_positions
        yield f"{request.files.path}, trained for {trained} positions, equals itself when mounted."
        reach = reached(layer.form for layer in mounted.layers)
        if reach > trained and not request.settings.train_positions:
            yield (
                f"Its configuration reaches {reach} positions with YaRN. Extensions come on top of "
                f"it beyond {trained}: train_positions={reach} lets them begin there."
            )
        recorder = _recorder(request, mounted)
        lengths = sorted(recorder.multiples)
        tasks = measurements(request, tokenizer, lengths[-1])
        refuse_short(tasks, lengths[0])
        refuse_few_files(tasks, request.texts)
        candidates = yield from _candidates(request, tasks, recorder)
        for text, length, task in itertools.product(request.texts, lengths, tasks):
            unit = ModelTest(recorder, task, length, text)
            for each in candidates[task.name]:
                yield from unit.measured(each)
        yield ""
        for task in tasks:
            yield from table(recorder, task, candidates[task.name], lengths, request.texts)
        yield from _to_serve(mounted, candidates[tasks[0].name], lengths[-1])
        where = request.settings.results_dir
        yield f"Records: {where}; posbench board {where} makes a page of them."


def refuse_short(tasks: Sequence[Measurement], shortest: int) -> None:
    """ConfigError where a text would have no token to predict; other tasks say what they need."""
    if shortest < SHORTEST and any(task.name == PERPLEXITY for task in tasks):
        raise ConfigError(
            f"task={PERPLEXITY} predicts a token from those before it and needs lengths of at "
            f"least {SHORTEST} tokens, got {shortest}: choose longer lengths"
        )


def refuse_few_files(tasks: Sequence[Measurement], texts: Sequence[int]) -> None:
    """ConfigError where `last_tokens` has too few files, before hours are spent on the first."""
    from posbench.pretrained.last_tokens import LastTokens

    for task in tasks:
        if isinstance(task, LastTokens):
            try:
                task._text(2 * max(texts))
            except ConfigError as error:
                raise ConfigError(f"{error}. Every other file is kept for validation.") from None


def refuse_tokenizer(asking: Answering) -> None:
    """ConfigError under a tokenizer that does not keep answers apart; so is each later question."""
    story = asking.task.story(asking.questions, np.random.default_rng(0))
    for each in story.asked:
        asking.pieces.question(each)


def _recorder(request: ModelRequest, mounted: Mounted) -> Recorder:
    from posbench.pretrained.recording import Recorder

    trained = mounted.train_positions
    multiples = {count: count / trained for count in (request.settings.tokens or [])} | {
        round(multiple * trained): multiple for multiple in (request.settings.lengths or [])
    }
    if (longest := max(multiples)) > FARTHEST * trained:
        raise ConfigError(
            f"{longest:,} tokens are more than {FARTHEST:,} times the {trained:,} trained "
            "positions: choose shorter lengths"
        )
    settings = {
        "lengths": sorted(multiples),
        "questions": request.settings.questions,
        "dtype": request.settings.dtype,
    }
    return Recorder(
        request.settings.results_dir,
        request.files,
        mounted,
        request.protocol,
        settings,
        multiples,
        request.command,
    )


def _candidates(
    request: ModelRequest, tasks: Sequence[Measurement], recorder: Recorder
) -> Generator[str, None, dict[str, list[Candidate]]]:
    """The extensions that the model can have and that change something beyond L, by task.

    Their settings have been searched for where they ask for it. Lines say which are left out.
    """
    from posbench.pretrained.proof import prove_effect_at

    mounted, lengths = recorder.mounted, sorted(recorder.multiples)
    trained, longest = mounted.train_positions, lengths[-1]
    found: dict[str, list[Candidate]] = {task.name: [] for task in tasks}
    for each in extensions(request, trained, longest):
        try:
            if not isinstance(each.extension, Searched):
                each.extension.extend(mounted.trained(trained), trained, longest)
            for task in tasks:
                chosen = searched(each, task, recorder, lengths, request)
                if task is tasks[0] or chosen is not each:
                    prove_effect_at(mounted, chosen.extension, lengths)
                found[task.name].append(chosen)
        except (IllegalExtension, CannotMount) as error:
            yield f"{each.name} is left out: {error}"
    if not all(found.values()):
        raise ConfigError("no extension is left to measure: choose others, or direct")
    return found


def _to_serve(mounted: Mounted, rows: Sequence[Candidate], longest: int) -> Iterator[str]:
    from posbench.pretrained.servers import in_place_of_the_factor
    from posbench.pretrained.serving import overrides

    yield (
        f"To serve up to {longest} positions, for from_pretrained of transformers or "
        "--hf-overrides of vLLM:"
    )
    for each in rows:
        extension, length = unwrapped(each.extension, mounted.train_positions, longest)
        same = unchanged(each.name, extension, length, mounted.train_positions)
        fixed = extension is not each.extension
        recipe = same or overrides(mounted, extension, length, fixed)
        said = each.name if length == longest else f"{each.name}, up to {length} positions"
        if isinstance(recipe, str):
            yield f"{said}: {recipe}"
        else:
            other = in_place_of_the_factor(recipe.get("rope_parameters", {}))
            yield f"{said}: {json.dumps(recipe)}{f' (for vLLM{other})' * bool(other)}"


def unchanged(name: str, extension: Extension, length: int, trained: int) -> str:
    """Why an extension has no setting to serve within the trained length; "" where it has."""
    from posbench.extensions.direct import Direct

    if length > trained or not extension.is_identity or isinstance(extension, Direct):
        return ""
    fixed = f"{name}_served_2"
    other = f"; {fixed} has one factor for all lengths" if fixed in own_names("extension") else ""
    return f"it changes nothing up to {trained} positions, so nothing has to be set{other}"


def unwrapped(extension: Extension, trained: int, longest: int) -> tuple[Extension, int]:
    """What is served, and the length at which it has the factor that was measured: one factor for
    all lengths is that of the length it is told, whatever was tested.
    """
    from posbench.extensions.served import Served

    if isinstance(extension, Served):
        return extension.extension, extension.told(trained)
    return extension, longest


@dataclass(frozen=True)
class ModelTest:
    """One text of a task at one length, under one extension after the other."""

    recorder: Recorder
    task: Measurement
    length: int
    text: int

    def measured(self, row: Candidate) -> Iterator[str]:
        """Measure it under an extension and keep what is found, unless it is there."""
        task, recorder = self.task, self.recorder
        if recorder.has(task, row, self.length, self.text):
            return
        within = self.length <= recorder.mounted.train_positions
        as_it_is = within and row.extension.is_identity
        found = self.as_it_is if as_it_is else self.found(row.extension)
        recorder.write(task, row, self.length, found)
        right = sum(each.answer.exact for each in found)
        said = f"{right} of {len(found)} answers, " if task.by == "depth" else ""
        likely = sum(each.log_likelihood for each in found) / len(found)
        seconds = sum(each.cpu_seconds for each in found)
        yield (
            f"{task.name}, {self.length} tokens, text {self.text}, {row.name}: {said}"
            f"log-likelihood {likely:.3f}, {seconds:.0f} CPU s"
        )

    @functools.cached_property
    def as_it_is(self) -> list[Found]:
        """The answers without an extension, and also under one that changes nothing yet."""
        from posbench.extensions.direct import Direct

        return self.found(Direct())

    def found(self, extension: Extension) -> list[Found]:
        return self.task.found(self.recorder.mounted, extension, self.length, self.text)


def searched(
    row: Candidate, task: Measurement, recorder: Recorder, lengths: list[int], request: ModelRequest
) -> Candidate:
    """The row with the settings that this task chose, if its extension asks for a search."""
    from posbench.pretrained.searching import choose

    if not isinstance(row.extension, Searched):
        return row
    code = recorder.code(task, row)
    kept = content_hash(
        [recorder.model, task.node, row.node, request.protocol.hash, request.texts, code]
    )
    path = request.settings.results_dir / "searches" / f"{kept}.json"
    chosen, search = choose(row.extension, task, recorder.mounted, lengths, request.texts, path)
    return replace(row, extension=chosen, search=search)


def measurements(request: ModelRequest, tokenizer: Any, longest: int) -> list[Measurement]:
    from posbench.pretrained.continuing import pieces
    from posbench.pretrained.last_tokens import LastTokens
    from posbench.pretrained.measuring import Answering, Perplexity
    from posbench.pretrained.text_tasks import TASKS

    found: list[Measurement] = []
    for name in known_tasks(request):
        if name == PERPLEXITY:
            found.append(Perplexity.of(Path(request.settings.text), tokenizer))
        elif name == LAST_TOKENS:
            found.append(LastTokens.of(request.settings.text, pieces(tokenizer), longest))
        else:
            questions, chat = request.settings.questions, request.settings.chat
            task = TASKS[name]
            own = {each: value for each, value in request.of_tasks.items() if each in vars(task)}
            task = replace(task, **own)  # type: ignore[type-var]  # each is a dataclass
            asking = Answering(name, task, _in_chat(tokenizer, chat), questions, chat)
            refuse_tokenizer(asking)
            found.append(asking)
    return found


def _in_chat(tokenizer: Any, chat: bool) -> Checked:
    """The pieces of a text; ConfigError where the template of a chat cannot be filled in."""
    from jinja2 import TemplateError

    from posbench.pretrained.continuing import pieces
    from posbench.pretrained.loading import UNLOADABLE

    try:
        return pieces(tokenizer, chat)
    except (TemplateError, *UNLOADABLE) as error:
        if not chat or isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"chat=true: the tokenizer's chat template refuses a message ({as_one_line(error)}): "
            "leave chat out, or give the template that the model came with"
        ) from None


def extensions(request: ModelRequest, train_positions: int, test_positions: int) -> list[Candidate]:
    """The suite's extensions with its settings, scaled to the positions of the model."""
    from posbench.pretrained.recording import Candidate

    found = []
    for name in request.settings.extension:
        node = node_at(name, train_positions, test_positions, *request.of_extensions)
        row = Candidate(name, built_from(name, node), node, tuple(request.of_extensions))
        found.append(
            served(row, test_positions / train_positions)
            if request.settings.scale == "served"
            else row
        )
    return found


def served(row: Candidate, factor: float) -> Candidate:
    """The extension with one factor for all lengths; as it is where no scale follows the length."""
    from posbench.extensions.served import FOLLOWS, Served
    from posbench.pretrained.measuring import target

    if factor <= 1 or FOLLOWS not in row.extension.scale_policy:
        return row
    if isinstance(row.extension, Searched):
        raise ConfigError(
            f"extension={row.name} searches for settings and is not served itself: choose "
            "extensions with settings of yours, or leave scale=served out"
        )
    node = {"_target_": target(Served), "extension": row.node, "factor": factor}
    changed = (*row.changed, "scale=served")
    return replace(row, extension=Served(row.extension, factor), node=node, changed=changed)
