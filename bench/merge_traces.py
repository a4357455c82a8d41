"""merge_traces.py DRY FACTS.. [--times DRY2] -o TRACE: the trace of a step that is too large for this machine.

DRY is a trace of the unmodified program at its true shape, recorded on the software device with SOFTGPU_DRY=1: its operations,
buffers, lifetimes, sizes and times are those of the true shape; what operations write is not, as nothing ran. FACTS are traces of the
same program at small shapes, recorded while its kernels ran: what each operation writes, replaces and updates there has been
seen, what may be replayed has been proven there.

Every operation of DRY gets modes, verdict and proofs of an operation of FACTS that has the same kernel and the same pointers, at the
same offsets of its arguments, to buffers that are shared among them in the same way and live as long (within the step, or
beyond it): of several, the one around which most operations, in a row before and behind, are the same in this sense. So
layers in the middle get theirs from a layer in the middle, the first from the first. An operation without its like is an
error. Which products of matrices are split depends on their size: the facts of one that is not split do for one that is, with the
workspace updated and without its proofs. The time and memory that a proof took is not scaled; planners don't read it.

DRY2 is a dry trace of the same shape with fewer layers, recorded with another GPU's profile: an operation takes what its like with the same
grid takes there (the computed clock's times depend on the launch alone). The device that the trace names is then that one.
"""
import argparse
import json
import math
import sys

AROUND = 200  # operations compared each way
WORKSPACE = (480, 488)  # where the arguments of a split product have its workspace and counters on architecture 80 (gemm_mixed_t, softgpu/blas/gemm.h)
UPDATES = 3
VERSION = 3  # of traces (ckpt/trace/trace.h)


def load(path):
    try:
        rows = [json.loads(line) for line in open(path)]
    except ValueError:
        rows = []
    if not rows or rows[0].get("ebb_trace") != VERSION:
        sys.exit(f"{path} is not a trace of version {VERSION}")
    return {"head": rows[0], "buffers": [r for r in rows if "buffer" in r], "operations": [r for r in rows if "op" in r],
            "moments": [r for r in rows if "moment" in r], "path": path}


def form(trace, operation):
    """What two operations that do the same have in common."""
    first = {}
    pointers = []
    is_product = operation["name"].startswith("softgpu_gemm")
    for k, (buffer, _, param_offset, *_) in enumerate(operation["access"]):
        b = trace["buffers"][buffer]
        if not (is_product and param_offset in WORKSPACE):
            pointers.append((param_offset, first.setdefault(buffer, k), b["born"] is None, b["dies"] is None))
    return operation["kind"], operation["name"].removesuffix("_splitk"), tuple(pointers)


def in_common(a, i, b, j, way):
    """How many operations in a row, from a[i] and b[j] on, have the same form."""
    n = 0
    while n < AROUND and 0 <= i < len(a) and 0 <= j < len(b) and a[i] == b[j]:
        n, i, j = n + 1, i + way, j + way
    return n


def find_like(trace, forms, i, facts, where):
    """The operation of the facts around which most is like around operation i: (trace, index)."""
    name = trace["operations"][i]["name"]
    found = [(facts[t]["operations"][j]["name"] == name, in_common(forms, i, facts[t]["forms"], j, -1) + in_common(forms, i, facts[t]["forms"], j, 1), -t, -j)
             for t, j in where.get(forms[i], ())]
    if not found:
        return None
    _, _, t, j = max(found)
    return facts[-t], -j


def tiles(small, access, buffer, tile_bytes):
    """First tile and count of an access's writes, at this buffer's size."""
    buffers, (number, _, _, first, count, _) = small
    if not count:
        return 0, 0
    scale = buffer["bytes"] / buffers[number]["bytes"]
    most = math.ceil(buffer["bytes"] / tile_bytes)
    begin = min(max(int(first * scale), access[1] // tile_bytes), most - 1)
    return begin, max(1, min(math.ceil((first + count) * scale), most) - begin)


def retime(dry, times):
    """Takes times from a trace of fewer layers."""
    def launch(trace, operation):
        return form(trace, operation), tuple(operation["grid"]), tuple(operation["block"])
    forms = [launch(dry, o) for o in dry["operations"]]
    times["forms"] = [launch(times, o) for o in times["operations"]]
    where = {}
    for j, x in enumerate(times["forms"]):
        where.setdefault(x, []).append((0, j))
    for i, o in enumerate(dry["operations"]):
        like = find_like(dry, forms, i, [times], where)
        if not like:
            sys.exit(f"{dry['path']}: operation {i} ({o['name']}) has no like in {times['path']}")
        o["ns"] = like[0]["operations"][like[1]]["ns"]
    for key in ("device", "hardware"):
        dry["head"].pop(key, None)
        if key in times["head"]:
            dry["head"][key] = times["head"][key]


def merge(dry, facts):
    forms = [form(dry, o) for o in dry["operations"]]
    where = {}
    for t, f in enumerate(facts):
        f["forms"] = [form(f, o) for o in f["operations"]]
        for j, x in enumerate(f["forms"]):
            where.setdefault(x, []).append((t, j))
    for i, o in enumerate(dry["operations"]):
        like = find_like(dry, forms, i, facts, where)
        if not like:
            sys.exit(f"{dry['path']}: operation {i} has no like in the small traces: {forms[i]}")
        trace, j = like
        known = trace["operations"][j]
        for key in ("verdict", "proofs", "proof_ns", "proof_bytes"):
            o[key] = known[key]
        if o["name"] != known["name"]:
            o["verdict"], o["proofs"] = "untried", 0
        at = {b[2]: b for b in known["access"]}
        for a in o["access"]:
            b = at.get(a[2])
            a[3:] = [*tiles((trace["buffers"], b), a, dry["buffers"][a[0]], dry["head"]["tile_bytes"]), b[5]] if b else [0, 1, UPDATES]
    return dry


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dry")
    parser.add_argument("facts", nargs="+")
    parser.add_argument("--times")
    parser.add_argument("-o", "--output", required=True)
    a = parser.parse_args()
    dry = load(a.dry)
    if a.times:
        retime(dry, load(a.times))
    merged = merge(dry, [load(f) for f in a.facts])
    with open(a.output, "w") as out:
        for row in [merged["head"], *merged["buffers"], *merged["operations"], *merged["moments"]]:
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
