"""The trainer's kernels beside a reference on the host (tests/model/kernels): what the software device has shown, on the device that is there.

A test that says that this device cannot run it (77) is skipped; nothing else excuses one. --software: the shortest two.
"""

from common import KERNELS, table, tail

SKIPPED = 77
SHORT = ["kernels_attention_tensor", "kernels_outliers"]


def judge(rc):
    return {0: "passed", SKIPPED: "skipped", 124: "no time"}.get(rc, "failed")


def step(context):
    rows = context.figures.setdefault("tests", [])
    for name in SHORT if context.software else KERNELS:
        result = context.run([context.build / "bin" / name], 150)
        rows.append({"test": name, "verdict": judge(result["rc"]), "rc": result["rc"], "seconds": result["seconds"],
                     "tail": tail(result, 20) if result["rc"] else []})
    verdicts = {row["verdict"] for row in rows}
    return "passed" in verdicts and verdicts <= {"passed", "skipped"}


def summary(figures):
    head = ["test", "verdict", "rc", "seconds"]
    lines = [*table(head, [[row.get(key) for key in head] for row in figures["tests"]]), ""]
    for row in figures["tests"]:
        if row["tail"]:
            lines += [f"{row['test']}:", "", "```", *row["tail"], "```", ""]
    return lines
