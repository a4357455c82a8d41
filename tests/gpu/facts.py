#!/usr/bin/env python3
"""What the device does where documents are silent, and on which ebb depends: the questions of facts.c, each in a process of its own, and what ebb
sees of the kernels of a PyTorch step. OUT/facts.json has each answer as soon as it is there.

Answers are compared with the software device's, which facts_software.json has for three architectures. A difference is no failure of this
step: it is named, with what it means for ebb. On the software device the step fails where that file is not what the device says.

facts.py --keep BUILD: writes facts_software.json anew.
"""

import collections
import fnmatch
import importlib.util
import json
import pathlib
import sys

from common import ROOT, Context, ebb_lines, json_lines, read_json, table, tail

# Together less than the step has (steps.py).
SECONDS = {"maps": 15, "arguments": 25, "handles": 50, "vmm": 35, "nvml": 10, "copies": 20, "pinning": 40, "waits": 45}
PYTORCH_SECONDS = 100
SOFTWARE = pathlib.Path(__file__).with_name("facts_software.json")
ARCHITECTURES = {"8": "80", "9": "90"}  # by generation; 100 from then on
# Of each answer what it means for ebb if the device differs from the software device.
MEANS = {
    "maps.*.at": "the software device lays out parameters wrongly for this architecture; ebb looks for maps from each parameter's offset on (hook/args.c)",
    "maps.encode": "this device has no tensor maps, or refuses them",
    "maps.encoded_twice": "ebb knows a map by its bytes (alloc/kernel/tensor_map.c): unless they are the same, it misses maps",
    "maps.replaced_address": "a launch that is repeated may get a map of other bytes than the program would encode",
    "maps.words_that_differ": "nothing: ebb knows a map by its bytes",
    "maps.address_in_it": "nothing, as long as ebb knows the map; of one that it does not know, the address may be the only trace",
    "arguments.*.pointers": "ebb cannot launch again by kernelParams (ckpt/run/replay/relaunch.c)",
    "arguments.*.buffer_*": "ebb reads the arguments of such a launch at wrong offsets (ebb_args_pack)",
    "handles.*": "which queries ebb may ask of a handle",
    "vmm.*.idle": "the call that ebb makes for each chunk is refused",
    "vmm.*.beside": "the call that ebb makes for each chunk is refused beside a kernel",
    "vmm.*.kernel_beside": "ebb must not map beside kernels at all",
    "vmm.*.waits_for_the_kernel": "each eviction and fetch by mapping waits for what runs: reactive is as slow as that",
    "nvml.*": "how ebb knows what it has not created itself (alloc/overhead.c)",
    "pinning.*": "ebb's host memory has to be pinned in another way (offload/pinned.c)",
    "copies.*": "copies, or cuBLAS, are not there",
    "waits.*": "which calls ebb may make while a stream waits for what the program has not issued yet (ebb_end_plans)",
}


def read_answers(text):
    """(facts, figures) of what facts.c prints; what was cut off in its last line is left out."""
    answers = {"fact": {}, "figure": {}}
    for line in text[: text.rfind("\n") + 1].splitlines():
        kind, _, rest = line.partition(" ")
        name, _, value = rest.partition(" ")
        if kind in answers:
            answers[kind][name] = value
    return answers["fact"], answers["figure"]


def ended(rc):
    return {0: "well", 124: "no time", 127: "not started"}.get(rc, f"signal {-rc}" if rc < 0 else f"exit {rc}")


def ask(context, question, limit, **environment):
    kernels = context.build / "bin/facts_kernels.fatbin"  # of a kit
    result = context.run([context.build / "bin/facts", question, *(["--small"] if context.software else []), *([kernels] if kernels.exists() else [])],
                         limit, **environment)
    facts, figures = read_answers(result["out"])
    answer = {"facts": facts, "figures": figures, "ended": ended(result["rc"]), "seconds": result["seconds"]}
    return answer if answer["ended"] == "well" else {**answer, "tail": tail(result)}


def software_answers(context, architecture):
    """All that can be compared, as that architecture's."""
    found = {}
    for question in SECONDS:
        found.update(ask(context, question, 60, SOFTGPU_ARCH=architecture)["facts"])
    return found


def architecture_of(capability):
    return ARCHITECTURES.get(str(capability).partition(".")[0], "100")


def meaning(name):
    return next((text for pattern, text in MEANS.items() if fnmatch.fnmatchcase(name, pattern)), "")


def compare(facts, software):
    """Rows of name, answer, the software device's answer, verdict. What one of them has not said is a difference, too."""
    rows = []
    for name in dict.fromkeys([*facts, *software]):
        here, there = facts.get(name), software.get(name)
        verdict = "same" if here == there else "no answer" if here is None else "only here" if there is None else "different"
        rows.append({"fact": name, "here": here, "software": there, "verdict": verdict})
    return rows


def is_blind(operation):
    """A kernel with parameters, of which ebb has found no access."""
    return operation.get("kind") == "kernel" and operation.get("param_bytes") and not operation.get("access")


def of_trace(lines):
    """Of a recorded step: its kernels, those without a resolved access, and what is in the way of repeating others, by name."""
    kernels = [line for line in lines if line.get("kind") == "kernel"]
    verdicts = collections.Counter(k.get("verdict") for k in kernels)
    return {"kernels": len(kernels), "verdicts": dict(verdicts.most_common()),
            "no_access": dict(collections.Counter(k["name"] for k in kernels if is_blind(k)).most_common(40)),
            "globals": dict(collections.Counter(k["name"] for k in kernels if k.get("verdict") == "globals").most_common(40))}


def pytorch_step(context):
    """A small BF16 model under ebb: what ebb makes of the kernels that PyTorch and cuBLAS launch on this device."""
    stats, trace = context.work / "pytorch.stats", context.work / "pytorch.trace"
    for path in (stats, trace):
        path.unlink(missing_ok=True)
    result = context.run([context.build / "bin/ebb", "run", "--budget", "100%", "--stats", stats, "--log", "info", "--", sys.executable,
                          ROOT / "tests/gpu/pytorch_models.py", "--model", "gpt2", "--layers", 2, "--width", 512, "--heads", 8, "--context", 256,
                          "--batch", 8, "--steps", 24, "--warmup", 16], PYTORCH_SECONDS, EBB_TRACE=str(trace), **context.own_libraries())
    told = read_json(stats)
    answer = {"facts": {}, "figures": of_trace(json_lines(trace)), "ended": ended(result["rc"]), "seconds": result["seconds"]}
    answer["figures"]["statistics"] = {key: told[key] for key in told if key.startswith("obscure")}
    answer["figures"]["log"] = [line for line in ebb_lines(result, 1000) if "everything" in line][:40]
    return answer if answer["ended"] == "well" else {**answer, "tail": tail(result)}


def expected(context):
    return read_json(SOFTWARE).get("90" if context.software else architecture_of(context.machine.get("compute_capability")), {})


def keep(context, question, answer):
    """One more answer, and the comparison with it; on a GPU in OUT/facts.json, too."""
    answers = context.figures
    answers[question] = answer
    facts = {name: value for a in answers.values() if "facts" in a for name, value in a["facts"].items()}
    answers["compared"] = compare(facts, expected(context))
    if not context.software:
        path = context.out / "facts.json"
        path.write_text(json.dumps({"machine": context.machine, "command": context.command, "answers": answers}, indent=1) + "\n")


def step(context):
    answers = context.figures
    answers["compared"] = []
    for question, limit in SECONDS.items():
        keep(context, question, ask(context, question, limit))
    if context.device == "cuda" and importlib.util.find_spec("torch"):
        keep(context, "pytorch", pytorch_step(context))
    well = all(answers[question]["ended"] == "well" and answers[question]["facts"] for question in SECONDS)
    if context.software:
        answers["stale"] = [architecture for architecture, committed in read_json(SOFTWARE).items() if software_answers(context, architecture) != committed]
        well &= not answers["stale"] and bool(expected(context))
    return well


def summary(figures):
    rows = [{**row, "means": meaning(row["fact"]) if row["verdict"] != "same" else ""} for row in figures["compared"]]
    rows.sort(key=lambda row: row["verdict"] == "same")
    count = collections.Counter(row["verdict"] for row in rows)
    lines = [", ".join(f"{n} {verdict}" for verdict, n in count.items()) + ", beside the software device.", ""]
    if figures.get("stale"):
        lines += [f"facts_software.json is not what the software device says (sm_{', sm_'.join(figures['stale'])}): facts.py --keep BUILD", ""]
    lines += table(["question", "this device", "software device", "", "what it means for ebb"],
                   [[row[key] for key in ("fact", "here", "software", "verdict", "means")] for row in rows])
    for question, answer in figures.items():
        if question in ("compared", "stale"):
            continue
        lines += ["", f"{question}: {answer['ended']}, {answer['seconds']} s", "", *(f"- {name}: {value}" for name, value in answer["figures"].items())]
        lines += ["", "```", *answer["tail"], "```"] if "tail" in answer else []
    return lines


def main():
    if len(sys.argv) != 3 or sys.argv[1] != "--keep":
        print("facts.py --keep BUILD: writes facts_software.json; else it is a step of run.sh", file=sys.stderr)
        return 2
    build = pathlib.Path(sys.argv[2]).resolve()
    context = Context(build, build, build / "gpu/facts", "software")
    SOFTWARE.write_text(json.dumps({architecture: software_answers(context, architecture) for architecture in ("80", "90", "100")}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
