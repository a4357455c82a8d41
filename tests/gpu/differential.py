"""Programs under libebb at falling budgets: the same bits as without, never above the budget, and what it costs.

The budget of P% is that share of the memory that the program's own buffers take at most, plus overhead_mib: what context, loaded code
and libraries take, as ebb found at the start; and the headroom that ebb keeps free for its growth (alloc/chunk.c). NVML counts all of
it for the process; where it names no processes, the whole device less what was in use before is taken (seen_of), and then another
program's memory counts, too. A program that cannot run at all in so little (out of memory) has not failed at less than half;
one with other bits, or above the budget, has, and so has one whose steps are regular if no plan has driven any of them at 70 or 50%. A
run under ebb may take ten times as long as the one without and half a minute; what takes longer hangs.

Programs that try to break ebb (hostile.py) come last.
"""

import hostile
from common import crash, ebb_lines, failure, mib, read_json, table, tail, train, with_headroom
from watch import watch_for

DRIVEN_AT = (70, 50)  # percent
ALL_AT_ONCE = ("arena",)  # one kernel touches all of it: no less memory would do


def run_program(context, name, program, budget, watch, limit):
    stats = context.work / f"{name}.stats"
    stats.unlink(missing_ok=True)
    command = program
    if budget:
        command = [context.build / "bin/ebb", "run", "--budget", budget, "--stats", stats, "--log", "info", "--", *program]
    result = context.run(command, limit, watch)
    lines = result["out"].strip().splitlines()
    return {"rc": result["rc"], "bits": lines[-1:], "seconds": result["seconds"], "ms": 1e3 * result["seconds"],
            "seen_bytes": result.get("peak_bytes"), "stats": read_json(stats), "tail": tail(result) if result["rc"] else [],
            "failure": failure(result), "log": ebb_lines(result), "crash": crash(context, result, program, budget)}


def judge(r, plain, budget, drives):
    """A run's verdict: `plain` is the one without ebb; `drives`, whether there must be steps that a plan has driven."""
    held = r["stats"].get("peak_bytes", 0) + r["stats"].get("overhead_bytes", 0)
    if r["rc"]:
        return "does not fit" if r["failure"] == "no memory" else r["failure"]
    if r["bits"] != plain["bits"]:
        return "other bits"
    if not held:
        return "ebb was not there"
    if max(r["seen_bytes"] or 0, held) > budget:
        return "above the budget"
    return "not driven" if drives and not r["stats"].get("steps_driven") else "equal"


def compare(context, name, run, percents, drives):
    """run(budget or None, watch, seconds) at each budget. Rows into the figures; whether all is well. `drives`: a program that a plan has to
    drive where the budget bites."""
    watch, well = watch_for(context.device), True
    plain = run(None, watch, 120)
    limit = 30 + 10 * (plain.get("seconds") or 0)
    probe = run("100%", watch, limit)  # as much as there is: what the program takes
    rows = context.figures.setdefault(name, [])
    rows.append({"budget": "none", "rc": plain["rc"], "ms": plain["ms"], "seen_mib": mib(plain["seen_bytes"]), "tail": plain["tail"]})
    if plain["rc"] or probe["rc"] or "peak_bytes" not in probe["stats"] or not any(plain["bits"]):
        rows.append({"budget": "all", "rc": probe["rc"], "verdict": "failed", "tail": probe["tail"] or ["no bits, or no statistics"],
                     "log": probe.get("log"), "crash": probe.get("crash")})
        return False
    overhead, peak = probe["stats"]["overhead_bytes"], probe["stats"]["peak_bytes"]
    rows.append({"budget": "all", "rc": 0, "ms": probe["ms"], "held_mib": mib(overhead + peak), "overhead_mib": mib(overhead),
                 "seen_mib": mib(probe["seen_bytes"]), "seen_of": watch.way})
    for percent in percents:
        if context.left() < 5:
            rows.append({"budget": f"{percent}%", "verdict": "no time"})
            well = False
            continue
        budget = with_headroom(overhead + peak * percent // 100)
        r = run(budget, watch, limit)
        held = r["stats"].get("peak_bytes", 0) + r["stats"].get("overhead_bytes", 0)
        verdict = judge(r, plain, budget, drives and percent in DRIVEN_AT)
        well = well and (verdict == "equal" or verdict == "does not fit" and percent < 50)
        rows.append({"budget": f"{percent}%", "budget_mib": mib(budget), "verdict": verdict, "rc": r["rc"], "ms": r["ms"],
                     "overhead": round(r["ms"] / plain["ms"] - 1, 4) if r["ms"] and plain["ms"] else None,
                     "held_mib": mib(held), "overhead_mib": mib(r["stats"].get("overhead_bytes")),
                     "seen_mib": mib(r["seen_bytes"]), "seen_of": watch.way,
                     "driven": r["stats"].get("steps_driven"), "offloaded": r["stats"].get("offloaded"),
                     "dropped": r["stats"].get("dropped"), "mismatches": r["stats"].get("mismatches"), "tail": r["tail"], "log": r.get("log"), "crash": r.get("crash")})
    return well


def trainings(context):
    if context.software:
        return {"tiny": ["--layers", 2, "--width", 64, "--heads", 2, "--context", 64, "--batch", 32, "--steps", 14]}
    steps = ["--steps", 20 if context.quick else 40]
    shape = ["--model", "gpt2:124M", "--context", 1024, "--batch", 16, *steps]
    all_of = {"gpt2-124M bf16 dropout": [*shape, "--dtype", "bf16", "--dropout", 0.1]}
    if not context.quick:
        all_of["gpt2-124M fp32 naive attention"] = ["--model", "gpt2:124M", "--context", 512, "--batch", 8, *steps, "--attention", "naive"]
        all_of["gpt2-124M bf16 lean graph"] = [*shape, "--dtype", "bf16", "--save", "lean", "--graph"]
    return all_of


def loops(context):
    if context.software:
        return {"loop": ["layers=8", "steps=24", "mib=4"]}
    shape = ["layers=24", "steps=60", "mib=64"]
    found = {"loop": shape, "arena": []}
    if not context.quick:
        found.update({"loop " + name: [*shape, word] for name, word in
                      (("keep", "keep=2"), ("swap", "swap=1"), ("deviate", "deviate=3"), ("through", "through=1"))})
        found["lanes"] = ["layers=24", "steps=40", "mib=64"]
    return found


def step(context):
    """The simplest programs first: whatever ends this has an answer by then."""
    well, percents = True, [70] if context.software else [70, 50] if context.quick else [100, 70, 50, 30]

    def run_loops(some):
        return all([compare(context, name, lambda *how, p=[context.build / "bin" / name.split()[0], *words]: run_program(context, "program", p, *how),
                            [100] if name in ALL_AT_ONCE else percents, name == "loop") for name, words in some])

    def run_trainer(name, words):
        return compare(context, "ebb-train " + name, lambda budget, watch, limit: train(context, "train", words, budget, watch, limit), percents,
                       not context.software)  # whose buffers are too small for a plan

    programs, trainers = list(loops(context).items()), list(trainings(context).items())
    well &= run_loops(programs[:1])
    well &= run_trainer(*trainers[0])
    well &= run_loops(programs[1:])
    well &= all([run_trainer(name, words) for name, words in trainers[1:]])
    ways = {row.get("seen_of") for rows in context.figures.values() for row in rows}
    well &= hostile.step(context, 8 if "process" in ways else 1)
    return bool(well)


def summary(figures):
    head = ["budget", "budget_mib", "verdict", "ms", "overhead", "held_mib", "overhead_mib", "seen_mib", "seen_of", "driven", "offloaded", "dropped"]
    lines = []
    for name, rows in figures.items():
        if name == "programs that try to break it":
            lines += [f"{name}:", "", *hostile.summary(rows), ""]
            continue
        lines += [f"{name}:", "", *table(head, [[row.get(key) for key in head] for row in rows]), ""]
        lines += [f"- {row['budget']}: {' / '.join(row['tail'])}" for row in rows if row.get("tail")]
    return lines
