#!/usr/bin/env python3
"""terminal.py EBB_TRAIN: a training as a terminal shows it, of 60 and of 200 columns and of one that does not say: lines are rewritten in
place and never wrap, a wide terminal has every field, evaluations show how far they are, and what is final stays."""
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

SHAPE = "--layers 2 --width 32 --heads 2 --context 16 --batch 1 --steps 2000 --eval-every 1500 --eval-batches 500 --sample 0".split()
STEP = re.compile(r"step +\d+/2000  loss \d+\.\d{4}")
FIELDS = [r"norm \d+\.\d\d", r"lr \d\.\de-\d\d", r"[\d.]+ ms", r"\d+ tok/s", r"[\d.]+ [KM]iB", r"\d+s left"]


def questions(path: pathlib.Path) -> None:
    """llm.c's file: 40 questions of two completions of two bytes."""
    rest = [0, 2, 8, *b"question", 2, *b"ab", 2, *b"cd"]
    size = 2 * (3 + len(rest))
    examples = b"".join(struct.pack(f"<{size // 2}H", 65535, size, number, *rest) for number in range(40))
    path.write_bytes(struct.pack("<256i", 20240522, 1, 40, size, *[0] * 252) + examples)


def run(trainer: str, folder: pathlib.Path, columns: int, environment: dict[str, str]) -> str:
    """What the terminal gets."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    arguments = [trainer, "--data", "text", "--choices", "choices", *SHAPE]
    process = subprocess.Popen(arguments, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:  # closed by its last process
        pass
    os.close(ours)
    assert process.wait() == 0, said.decode()
    return said.decode().replace("\r\n", "\n")


def check(said: str, columns: int) -> None:
    training = said[said.index("\ntraining: ") : said.index("peak device memory")]
    shown = re.split(r"\n|\r|\033\[K", training)
    wide = [text for text in shown if len(text) >= columns and text.startswith(("step", "held-out loss:", "choices:"))]
    assert not wide, f"wider than {columns} columns: {wide}"
    steps = [text for text in shown if STEP.match(text)]
    last = steps[-1]
    assert len(steps) > 1 and last.startswith("step 2000/2000"), shown
    there = [bool(re.search(f"  {field}(  |$)", last)) for field in FIELDS]
    assert there[:3] == [True] * 3, f"{columns} columns: {last}"
    assert all(there) == (columns == 200), f"{columns} columns: {last}"
    parts = {int(m[1]) for text in shown if (m := re.fullmatch(r"held-out loss: (\d+) of \d+ batches", text))}
    assert 0 in parts and len(parts) > 1, f"the evaluation does not move: {sorted(parts)}"
    assert re.search(r"\rchoices: 0 of 40 questions\033\[K\r", said) and re.search(r"\r\033\[Kchoices: \d+ of 40 right", said), said
    stays = [line.split("\r")[-1].removeprefix("\033[K") for line in training.split("\n")[2:]]
    beginnings = ["step 1500/2000 | held-out loss ", "step 2000/2000  loss ", "held-out loss ", ""]
    assert len(stays) == len(beginnings) and all(map(str.startswith, stays, beginnings)), stays


def main() -> None:
    trainer = os.path.abspath(sys.argv[1])
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text").write_text("".join(f"line {i} of a text for a terminal\n" for i in range(1, 50001)))
        questions(folder / "choices")
        for columns, said in (60, {}), (200, {}), (0, {"COLUMNS": "60"}):
            check(run(trainer, folder, columns, environment | said), columns or int(said["COLUMNS"]))
    print("ok")


main()
