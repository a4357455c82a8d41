"""What the calls that ebb is built on cost (bench/gpu_costs.c)."""

import json

from common import table, tail


def step(context):
    result = context.run([context.build / "bin/gpu_costs", *(["--small"] if context.software else [])], limit=context.left())
    try:
        context.figures.update(json.loads(result["out"]))
    except ValueError:
        context.figures["output"] = tail(result)
        return False
    return result["rc"] == 0 and context.figures["right"]


def rows(list_of_records):
    return table(list(list_of_records[0]), [list(record.values()) for record in list_of_records])


def summary(figures):
    lines = ["Microseconds per chunk:", "", *rows(figures["chunks"]), "", "Pinned memory:", "", *rows(figures["pinned"]), "",
             "The link:", "", *rows(figures["link"]), ""]
    for name in ("alias", "mapping_beside_kernels", "events", "copies_beside_products"):
        lines += [f"{name}:", "", *rows([figures[name]]), ""]
    return lines
