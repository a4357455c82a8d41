"""The conformance suite against the driver that is there. What fails on a GPU is a mistake of the suite, or of the software device."""

import concurrent.futures
import os

from common import ROOT

# They compare what cuMemGetInfo says before and after: nothing else may run on the device meanwhile.
ALONE = ["context.destroy_pops_and_frees", "peer.memory_counts_per_device"]
TINY = ["vmm.aliases_show_the_same_bytes", "vmm.map_takes_whole_handles"]


def run_some(context, where, cases):
    """One of several at once: most of a case's time is that of making a context."""
    more = {}
    kernels = context.build / "conformance/conformance_kernels.fatbin"  # of a kit
    if kernels.exists():
        more["CONFORMANCE_KERNELS"] = str(kernels)
    if "GPU_VISIBLE" in os.environ:  # those of several devices want more than one
        more["CUDA_VISIBLE_DEVICES"] = os.environ["GPU_VISIBLE"]
    # The script looks for a driver in the loader's cache; a driver in a folder of its own is on the path alone.
    return context.run(["bash", ROOT / "tests/conformance/run.sh", where, context.build, *cases], limit=context.left(), SEEDS="1",
                       GPU_LIBRARY_PATH=context.environment().get("LD_LIBRARY_PATH", ""), GPU_ANYWAY="1", **more)


def complaints(lines, verdicts):
    """What each case that has not passed has said: the lines before its verdict that begin with its name, or follow such a line."""
    said, now = {}, []
    for line in lines:
        words = line.split()
        if len(words) == 2 and words[1] in verdicts and words[0] == verdicts[words[1]]:
            if words[0] != "passed":
                said[words[1]] = now[-6:]
            now = []
        else:
            now.append(line)
    return said


def step(context):
    where, cases, lanes = "soft", TINY, 1
    if not context.software:
        where, lanes = "gpu", 4
        cases = (context.build / "conformance/cases").read_text().split()
    together, alone = [c for c in cases if c not in ALONE], [c for c in cases if c in ALONE]
    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        shares = [share for share in (together[lane::lanes] for lane in range(lanes)) if share]
        parts = list(pool.map(lambda share: run_some(context, where, share), shares))
    parts += [run_some(context, where, alone)] if alone else []
    lines = [line for part in parts for line in (part["out"] + part["err"]).splitlines()]
    words = [line.split() for line in lines]
    verdicts = {w[1]: w[0] for w in words if len(w) == 2 and w[0] in ("passed", "skipped", "FAILED")}
    counts = {verdict: sum(v == verdict for v in verdicts.values()) for verdict in ("passed", "skipped", "FAILED")}
    counts["not run"] = len(cases) - len(verdicts)
    said = complaints(lines, verdicts)
    context.figures.update(counts=counts, cases=dict(sorted(verdicts.items())), said=said)
    if counts["FAILED"] or counts["not run"]:
        context.figures["output"] = [line for line in lines if not line.startswith("passed ")][-300:]
    return counts["passed"] > 0 and not counts["FAILED"] and not counts["not run"]


def summary(figures):
    counts = figures["counts"]
    lines = [", ".join(f"{count} {verdict}" for verdict, count in counts.items())]
    return lines + [f"- {name}: {verdict}{': ' if figures['said'].get(name) else ''}{' / '.join(figures['said'].get(name, []))[:300]}"
                    for name, verdict in figures["cases"].items() if verdict != "passed"]
