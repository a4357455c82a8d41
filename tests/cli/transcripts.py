#!/usr/bin/env python3
"""transcripts.py [--update] EBB TRACES FILE...: what the command says, as a user sees it.

A transcript is a text: after `$ ` a command for bash, behind it both of its outputs, and `[N]` where the exit code is N and not 0.
Commands run in a fresh folder with the traces that the program TRACES writes, on a terminal of 80 columns. --update writes the
outputs anew: look at the difference. Where the first line of a transcript is `# figures masked`, each number of an output is an N.
"""
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def play(text: str, folder: str, environment: dict[str, str]) -> str:
    lines = []
    masked = text.startswith("# figures masked")
    for line in text.splitlines():
        if line.startswith(("$ ", "#")):
            lines.append(line)
        if not line.startswith("$ "):
            continue
        done = subprocess.run(["bash", "-c", line[2:]], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        said = re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", done.stdout) if masked else done.stdout
        lines += [output.rstrip() if not output.strip() else output for output in said.splitlines()]
        if done.returncode:
            lines.append(f"[{done.returncode}]")
    return "\n".join(lines) + "\n"


def main() -> int:
    words = sys.argv[1:]
    update = words[:1] == ["--update"]
    ebb, traces, *files = words[update:]
    bad = 0
    for file in map(pathlib.Path, files):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([traces, folder], check=True)
            path = f"{pathlib.Path(ebb).resolve().parent}:{os.environ['PATH']}"
            environment = {k: v for k, v in os.environ.items() if not k.startswith("EBB_")}
            environment |= {"PATH": path, "COLUMNS": "80", "LC_ALL": "C", "XDG_RUNTIME_DIR": folder, "XDG_CACHE_HOME": folder, "TMPDIR": folder}
            environment["EBB_PLAN_WAIT"] = "600000"  # else what is said depends on how long planning takes
            text = file.read_text()
            said = play(text, folder, environment)
        if update:
            file.write_text(said)
        elif said != text:
            bad += 1
            sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), said.splitlines(True), f"{file.name}, as it should be",
                                                       f"{file.name}, as it is"))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
