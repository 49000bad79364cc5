"""`posbench pretrained lm-eval`: tasks of lm-evaluation-harness, with a model under an extension.

    posbench pretrained lm-eval --model_args pretrained=FOLDER,extension=yarn,length=8192 \\
        --tasks niah_single_1

All words are those of `lm_eval`, and `--model posbench` is put before them. Its arguments are
pretrained (a folder, or a .gguf file), extension (direct by default), extension.NAME=VALUE for its
settings, length (the trained one by default), train_positions, dtype and device. Every text is
read under the encoding of `length`, as a server is set. The mounted model is first shown to equal
the model itself, and the extension to change something.
"""

from __future__ import annotations

import sys

from posbench.base.errors import PosbenchError
from posbench.config.exit_status import exit_status
from posbench.pretrained.refusal import as_one_line, need_transformers

COMMANDS = ("run", "ls", "validate")
"""Those of lm_eval; left out, it is run."""


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if words else 1

    def evaluated() -> int:
        need_transformers()
        try:
            from lm_eval.__main__ import cli_evaluate
        except ImportError:
            raise PosbenchError(
                "lm_eval is not installed: pip install 'posbench[lm-eval]'"
            ) from None
        import posbench.pretrained.harness  # noqa: F401  # which registers the model

        command, *rest = words if words[0] in COMMANDS else ["run", *words]
        model = ["--model", "posbench"] if command == "run" and "--model" not in rest else []
        sys.argv = ["lm-eval", command, *model, *rest]
        try:
            cli_evaluate()
        except ImportError as error:
            raise PosbenchError(
                f"these tasks need more packages ({as_one_line(error)}): pip install "
                "'lm_eval[tasks]'"
            ) from None
        except ValueError as error:
            if "not found" not in str(error):
                raise
            raise PosbenchError(
                f"{as_one_line(error)}: `posbench pretrained lm-eval ls tasks` lists them"
            ) from None
        return 0

    return exit_status(evaluated, words)
