#!/usr/bin/env python3
"""defaults.py FILE: what the figures of bench/gpu_costs.c (gpu_costs.json, a results.json, or what it prints) say about ebb's defaults. A table on stdout.

Each rule is a sentence of RULES; what the default is now is read from the sources. A proposal is for a person to judge: nothing is
changed by it.
"""

import re
import sys

from common import ROOT, read_json, table

NEAR = 0.9  # of the best rate: as good as the best
RULES = {
    "chunk": "the smallest chunk whose mapping, access and unmapping, one by one, take at most a tenth of the time that the link takes for "
             "its bytes; where none does, the one that costs least per byte",
    "least buffer": "the smallest copy that reaches half of the best rate each way, the host's part of issuing it included",
    "piece": "the smallest copy that reaches 90% of the best rate each way",
    "window": "four pieces: one that moves, one that waits for it, and as much again for what comes late",
    "least gap": "microseconds that the least buffer is on its way out and in, with an event and a wait for each",
    "link": "bytes per second, the lesser of both ways with both in use",
}
SOURCES = {  # file, and the number in it
    "chunk": ("alloc/base/status.h", r"define EBB_CHUNK_KIB (\d+)"),
    "least buffer": ("alloc/base/options.h", r'EBB_MIN_BUFFER, BYTES, min_buffer, "(\d+)MiB"'),
    "piece": ("offload/internal.h", r"PIECE_BYTES = (\d+) << (\d+)"),
    "window": ("offload/internal.h", r"WINDOW_BYTES = (\d+) << (\d+)"),
    "least gap": ("alloc/base/options.h", r'EBB_OFFLOAD_MIN_GAP, NUMBER, offload_min_gap, "(\d+)"'),
}


def now(name):
    """The default as the sources have it, in bytes or microseconds; None: not found, or measured by ebb itself."""
    path, pattern = SOURCES.get(name, (None, None))
    found = path and (ROOT / path).exists() and re.search(pattern, (ROOT / path).read_text())
    if not found:
        return None
    number, *shift = (int(g) for g in found.groups())
    unit = 20 if "MiB" in pattern else 10 if "KIB" in pattern else 0
    return number << (shift[0] if shift else unit)


def choose_chunk(chunks, bytes_per_s):
    """Of each size, the line with most chunks: single ones hide what a full address space costs."""
    sizes = {c["chunk_mib"]: c for c in sorted(chunks, key=lambda c: c["count"])}
    cost = {mib: (c["map_us"] + c["access_each_us"] + c["unmap_each_us"]) / (mib << 20) for mib, c in sizes.items()}
    cheap = [mib for mib in sorted(cost) if cost[mib] <= 0.1 * 1e6 / bytes_per_s]
    return (cheap[0] if cheap else min(cost, key=cost.get)) << 20


def smallest_at(link, share):
    """Bytes of the smallest copy from which on both ways reach this share of their best rate; of the largest, if that does not itself (the
    clock is noisy)."""
    best = {way: max(c[way] for c in link) for way in ("out_gb_s", "in_gb_s")}
    chosen = max(c["kib"] for c in link) << 10
    for c in sorted(link, key=lambda c: -c["kib"]):
        if any(c[way] < share * best[way] for way in best):
            break
        chosen = c["kib"] << 10
    return chosen


def propose(costs):
    """name -> bytes, bytes per second, or microseconds."""
    link, events = costs["link"], costs["events"]
    largest = max(link, key=lambda c: c["kib"])
    out, back = 1e9 * largest["out_gb_s"], 1e9 * largest["in_gb_s"]
    found = {"chunk": choose_chunk(costs["chunks"], min(out, back)), "least buffer": smallest_at(link, 0.5),
             "piece": smallest_at(link, NEAR)}
    found["window"] = 4 * found["piece"]
    calls = 2 * (events["record_host_us"] + events["wait_host_us"] + events["kernel_after_event_us"])
    found["least gap"] = round(1e6 * found["least buffer"] * (1 / (0.5 * out) + 1 / (0.5 * back)) + calls)
    found["link"] = round(1e9 * min(largest["both_out_gb_s"], largest["both_in_gb_s"]))
    return found


def say(name, value):
    if value is None:
        return "measured" if name == "link" else "?"
    if name == "least gap":
        return f"{value} us"
    if name == "link":
        return f"{value / 1e9:.1f} GB/s"
    return f"{value >> 20} MiB" if value >= 1 << 20 else f"{value >> 10} KiB"


def lines(costs):
    found = propose(costs)
    return table(["default", "now", "these figures say", "rule"], [[n, say(n, now(n)), say(n, found[n]), RULES[n]] for n in RULES])


def figures_in(found):
    """The figures, whichever of the files they come from."""
    return found.get("steps", {}).get("costs", found).get("figures", found)


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    costs = figures_in(read_json(sys.argv[1]))
    try:
        print("\n".join(lines(costs)))
    except (KeyError, ValueError, TypeError, ZeroDivisionError) as error:
        print(f"defaults.py: {sys.argv[1]} has not what gpu_costs prints: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
