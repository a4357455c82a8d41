"""The command `ebb` of this wheel: `python3 -m ebb ...`, and `ebb` on PATH. A program that ends in .py is run by this interpreter."""

from __future__ import annotations

import os
import pathlib
import sys

BINARY = pathlib.Path(__file__).parent / "bin" / "ebb"


def with_interpreter(arguments: list[str]) -> list[str]:
    """`run -b 60% -- train.py` becomes `run -b 60% -- PYTHON train.py`."""
    if "--" not in arguments:
        return arguments
    program = arguments.index("--") + 1
    if program < len(arguments) and arguments[program].endswith(".py"):
        return [*arguments[:program], sys.executable, *arguments[program:]]
    return arguments


def main() -> None:
    os.execv(BINARY, ["ebb", *with_interpreter(sys.argv[1:])])


if __name__ == "__main__":
    main()
