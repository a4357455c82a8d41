"""Programs that try to break ebb (tests/ckpt/programs/nasty, tests/fuzz), each with and without it: the same output, bit for bit, with
budgets from what must be there at once up to what the program holds.

Several at once, each with a context of its own, if the driver tells how much each process holds.
"""

import concurrent.futures

from common import MIB, crash, ebb_lines, read_json, tail, with_headroom

CHUNK = 2 * MIB
PERCENTS = [70, 35]
SEEDS = 24
# What only ebb could have seen writing: it may lose contents, if it says so.
MAY_LOSE = ("flag", "later", "perhaps")
# What goes by a word of its arguments that had always held junk: it may fault, if ebb says why (tests/ckpt/test_nasty.c).
UNSEEN_READS = {"hidden": "perhaps at a word of a kernel's arguments"}
OUT_OF_REACH = ("device_table", "object")  # nothing may leave the device


def sizes(result):
    """The numbers of the line "size ..." that both programs print, on one of their outputs."""
    lines = [line for line in (result["out"] + "\n" + result["err"]).splitlines() if line.startswith("size ")]
    return [int(word) for word in lines[-1].split()[1:]] if lines else None


def output(result):
    return [line for line in result["out"].splitlines() if not line.startswith("size ")]


def bounds(kind, size):
    """Bytes of ebb's own that are needed, and with which nothing has to leave the device."""
    if kind == "nasty":  # peak, what must be there, small, largest
        return size[1] + 2 * size[2] + 3 * CHUNK, size[0] + size[2]
    return size[1] + 2 * size[2] + 6 * CHUNK, size[3] + 2 * size[2]  # of fuzz: peak, need, small, chunks


def told_of_loss(name, result):
    said = "has other bits" if name in MAY_LOSE else UNSEEN_READS.get(name)
    return result["rc"] == 3 and said is not None and said in result["err"]


def judge(name, result, plain, held, budget):
    if result["rc"] == 124:
        return "no time"
    if result["rc"]:
        return "lost, and told" if told_of_loss(name, result) else "failed"
    if output(result) != output(plain):
        return "other bits"
    if not held:
        return "ebb was not there"
    return "above the budget" if held > budget else "equal"


def try_one(context, kind, name):
    """The rows of one program."""
    command = [context.build / "bin" / kind, name]
    kernels = context.build / "bin/fuzz_kernels.fatbin"  # of a kit
    more = {"FUZZ_KERNELS": str(kernels)} if kernels.exists() else {}
    plain = context.run(command, 60, **more)
    size = sizes(plain)
    if plain["rc"] or not size:
        return [{"program": f"{kind} {name}", "verdict": "failed without ebb", "rc": plain["rc"], "tail": tail(plain)}]
    least, most = bounds(kind, size)
    rows, overhead = [], None
    for percent in [100] if name in OUT_OF_REACH else [None, *PERCENTS]:
        stats = context.work / f"{kind}-{name}-{percent}.stats"
        stats.unlink(missing_ok=True)
        own = (least + max(most - least, 0) * (percent or 100) // 100) // CHUNK * CHUNK
        budget = with_headroom(own + overhead) if overhead is not None else "100%"
        result = context.run([context.build / "bin/ebb", "run", "--budget", budget, "--stats", stats, "--log", "info", "--", *command],
                             30 + 10 * plain["seconds"], **more)
        said = read_json(stats)
        held = said.get("peak_bytes", 0) + said.get("overhead_bytes", 0)
        verdict = judge(name, result, plain, held, budget if isinstance(budget, int) else held)
        rows.append({"program": f"{kind} {name}", "budget": f"{percent}%" if percent else "all", "verdict": verdict, "rc": result["rc"],
                     "driven": said.get("steps_driven"), "offloaded": said.get("offloaded"), "dropped": said.get("dropped"),
                     "evictions": said.get("evictions"), "mismatches": said.get("mismatches")})
        if verdict not in ("equal", "lost, and told"):
            rows[-1].update(tail=tail(result), log=ebb_lines(result), crash=crash(context, result, command, budget), stacks=result.get("stacks"))
        overhead = said.get("overhead_bytes", overhead)
        if overhead is None:
            break
    return rows


def names(context):
    listed = context.run([context.build / "bin/nasty", "--list"], 20)
    nasty = listed["out"].split() if not listed["rc"] else []
    if context.software:
        return [("nasty", name) for name in nasty[:2]] + [("fuzz", "1")]
    seeds = [("fuzz", str(seed)) for seed in range(1, (8 if context.quick else SEEDS) + 1)]
    return [("nasty", name) for name in nasty] + seeds if nasty else [("nasty", "--list"), *seeds]


def step(context, lanes):
    """Rows into the figures; whether all is well."""
    rows, well = context.figures.setdefault("programs that try to break it", []), True

    def one(program):
        if context.left() < 10:
            return [{"program": " ".join(program), "verdict": "no time"}]
        return try_one(context, *program)

    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        for found in pool.map(one, names(context)):
            rows += found
            well = well and all(row["verdict"] in ("equal", "lost, and told") for row in found)
    return well


def summary(rows):
    counts = {}
    for row in rows:
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
    lines = [", ".join(f"{count} {verdict}" for verdict, count in counts.items())]
    for row in rows:
        if row["verdict"] not in ("equal", "lost, and told"):
            lines.append(f"- {row['program']}, {row.get('budget')}: {row['verdict']}: {' / '.join(row.get('tail', []))}")
    return lines
