"""What the calls that ebb is built on cost (bench/gpu_costs.c), and what that says about ebb's defaults (defaults.py)."""

import defaults
from common import gpu_costs, table, tail


def step(context):
    costs, result = gpu_costs(context, context.left())
    if not costs:
        context.figures["output"] = tail(result)
        return False
    context.figures.update(costs)
    if not context.software:
        (context.out / "gpu_costs.json").write_text(result["out"])  # as bench/results/ takes it
    return result["rc"] == 0 and costs["right"]


def rows(list_of_records):
    return table(list(list_of_records[0]), [list(record.values()) for record in list_of_records])


def summary(figures):
    if "output" in figures:
        return ["```", *figures["output"], "```"]
    lines = ["Microseconds per chunk:", "", *rows(figures["chunks"]), "", "Pinned memory:", "", *rows(figures["pinned"]), "",
             "The link:", "", *rows(figures["link"]), ""]
    for name in ("alias", "mapping_beside_kernels", "events", "copies_beside_products"):
        lines += [f"{name}:", "", *rows([figures[name]]), ""]
    return [*lines, "What follows for the defaults:", "", *defaults.lines(figures)]
