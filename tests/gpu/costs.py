"""What the calls that ebb is built on cost (bench/gpu_costs.c), and what that says about ebb's defaults (defaults.py)."""

import json

import defaults
from common import gpu_costs, read_json, table, tail


def step(context):
    costs, result = gpu_costs(context, context.left())
    context.figures.update(costs)
    if "right" not in costs:
        context.figures["output"] = tail(result)
    if not context.software:
        keep(context, costs)
    return result["rc"] == 0 and bool(costs.get("right"))


def keep(context, costs):
    """As bench/results/ takes it. What was ended half-way replaces nothing that is whole."""
    path = context.out / "gpu_costs.json"
    if costs and ("right" in costs or "right" not in read_json(path).get("figures", {})):
        path.write_text(json.dumps({"machine": context.machine, "command": context.command, "figures": costs}, indent=1) + "\n")


def rows(list_of_records):
    return table(list(list_of_records[0]), [list(record.values()) for record in list_of_records])


def summary(figures):
    lines = ["Not all was measured:", "", "```", *figures["output"], "```", ""] if "output" in figures else []
    for name, title in (("chunks", "Microseconds per chunk"), ("pinned", "Pinned memory"), ("link", "The link")):
        if figures.get(name):
            lines += [f"{title}:", "", *rows(figures[name]), ""]
    for name in ("alias", "mapping_beside_kernels", "events", "copies_beside_products"):
        if figures.get(name):
            lines += [f"{name}:", "", *rows([figures[name]]), ""]
    if "output" in figures:
        return lines
    try:
        return [*lines, "What follows for the defaults:", "", *defaults.lines(figures)]
    except (KeyError, ValueError, TypeError, ZeroDivisionError) as error:
        return [*lines, f"Nothing follows for the defaults: {error!r}"]
