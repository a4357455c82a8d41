#!/usr/bin/env python3
"""check_documents.py: README and docs/. Every relative link leads to a file, and to a heading where it names one; the README has at most 100 lines;
a sentence has at most 30 words; the picture is what its script makes of the committed results. Pages that are generated may have longer sentences."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
README_LINES = 100
SENTENCE_WORDS = 30
GENERATED = {"docs/driver-calls.md", "docs/options.md", "docs/statistics.md"}
PROSE = ["README.md", "CHANGELOG.md", "docs/*.md", "bench/README.md", "bench/results/README.md"]
LINKED = [*PROSE, "softgpu/*.md", "tests/*/README.md"]
PICTURE = "docs/overhead.svg"


def pages(patterns):
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern)})


def without_code(text):
    """The page without indented and fenced blocks, with as many lines."""
    lines, fenced, may_begin = [], False, True
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        block = fence or fenced or (line.startswith("    ") and may_begin)
        lines.append("" if block else line)
        may_begin = block or not line.strip() or line.startswith("#")
    return lines


def anchors(path):
    """Of its headings, as GitHub makes them."""
    titles = [line.lstrip("#").strip() for line in without_code(path.read_text()) if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-") for title in titles}


def links(path):
    for number, line in enumerate(without_code(path.read_text()), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            aim = (path.parent / name).resolve() if name else path
            if not aim.exists():
                yield number, f"{target} leads nowhere"
            elif anchor and anchor not in anchors(aim):
                yield number, f"{target}: no such heading"


def passages(path):
    """(first line, text) of each paragraph, list item and table cell."""
    first, words = 0, []
    for number, line in enumerate([*without_code(path.read_text()), ""], 1):
        text = line.strip()
        table = text.startswith("|")
        if not text or table or re.match(r"([-*]|\d+\.)\s|#", text):
            if words:
                yield first, " ".join(words)
            words = []
        if table:
            yield from ((number, cell) for cell in text.strip("|").split("|"))
        elif text.startswith("#"):
            yield number, text.lstrip("# ")
        elif text:
            first = first if words else number
            words.append(re.sub(r"^([-*]|\d+\.)\s+", "", text))


def long_sentences(path):
    for number, text in passages(path):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", text))
        for sentence in re.split(r"(?<=[.!?])[\"')*_]*\s+", plain):
            count = len(re.findall(r"[^\s]*\w[^\s]*", sentence))
            if count > SENTENCE_WORDS:
                yield number, f"a sentence of {count} words: {sentence[:70]}..."


def problems():
    for path in pages(LINKED):
        yield from ((path, number, what) for number, what in links(path))
    for path in pages(PROSE):
        if path.relative_to(ROOT).as_posix() not in GENERATED:
            yield from ((path, number, what) for number, what in long_sentences(path))
    readme = ROOT / "README.md"
    lines = len(readme.read_text().splitlines())
    if lines > README_LINES:
        yield readme, lines, f"more than {README_LINES} lines"
    picture = subprocess.run([sys.executable, "-B", ROOT / "bench/overhead_picture.py"], capture_output=True, text=True, check=True).stdout
    if (ROOT / PICTURE).read_text() != picture:
        yield ROOT / PICTURE, 1, f"bench/overhead_picture.py makes another: python3 bench/overhead_picture.py >{PICTURE}"


def main():
    found = list(problems())
    for path, number, what in found:
        print(f"{path.relative_to(ROOT)}:{number}: {what}")
    print(f"{len(pages(LINKED))} pages, {len(found)} problems")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
