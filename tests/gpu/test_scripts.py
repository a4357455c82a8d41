#!/usr/bin/env python3
"""Of the scripts' own logic, what needs neither a GPU nor PyTorch: what they read, how they judge, what they draw, what they leave."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import xml.dom.minidom

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import common  # noqa: E402: beside this file
import defaults  # noqa: E402
import picture  # noqa: E402
import pytorch  # noqa: E402
import sanitizer  # noqa: E402
import steps  # noqa: E402
import throughput  # noqa: E402
import watch  # noqa: E402

# As compute-sanitizer's documentation shows them.
CLEAN = "========= COMPUTE-SANITIZER\nstep 1\n========= ERROR SUMMARY: 0 errors\n"
RACES = ("========= COMPUTE-SANITIZER\n========= Error: Race reported between Write access at f+0x90 in a.cu:41\n"
         "=========     and Read access at f+0x100 in a.cu:51 [508 hazards]\n=========\n"
         "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n")


class Sanitizer(unittest.TestCase):
    def test_summaries_decide(self):
        self.assertEqual(sanitizer.judge(0, CLEAN), ("clean", 0))
        self.assertEqual(sanitizer.judge(9, RACES), ("findings", 1))
        self.assertEqual(sanitizer.judge(9, CLEAN.replace("0 errors", "12 errors")), ("findings", 12))
        self.assertEqual(sanitizer.judge(0, RACES.replace("1 hazard ", "3 hazards ")), ("findings", 3))

    def test_several_processes_are_added(self):
        self.assertEqual(sanitizer.judge(9, CLEAN + RACES), ("findings", 1))

    def test_nothing_looked_at_is_not_clean(self):
        self.assertEqual(sanitizer.judge(0, "step 1\n")[0], "not looked at")
        self.assertEqual(sanitizer.judge(127, "no such file")[0], "not looked at")
        self.assertEqual(sanitizer.judge(1, CLEAN)[0], "failed")
        self.assertEqual(sanitizer.judge(124, CLEAN)[0], "no time")


class Kernels(unittest.TestCase):
    def test_lines_are_read_with_their_bounds(self):
        rows = throughput.read_kernels(["NVIDIA H200", "B 16  T 1024  C 768  H 12  V 50304  dropout 0  bf16",
                                        "attention_forward            0.500 ms  (median     0.510)   201.3 GB/s  412316.9 GFLOP/s",
                                        "bias_forward (3C)            0.100 ms  (median     0.120)  2000.0 GB/s",
                                        "B 16  T 1024  C 768  H 12  V 50304  dropout 0  fp32",
                                        "sum (N)                      0.010 ms  (median     0.010)     6.6 GB/s"], 4000.0, 989e12)
        self.assertEqual([r["dtype"] for r in rows], ["bf16", "bf16", "fp32"])
        self.assertEqual(rows[0]["tflop_s"], 412.32)
        self.assertEqual(rows[0]["of_peak"], 0.417)
        self.assertEqual((rows[1]["kernel"], rows[1]["of_memory"], rows[1]["tflop_s"]), ("bias_forward (3C)", 0.5, None))

    def test_unknown_bounds_leave_gaps(self):
        row = throughput.read_kernels(["sum (N)   0.010 ms  (median     0.010)     6.6 GB/s"], None, None)[0]
        self.assertEqual((row["of_memory"], row["of_peak"]), (None, None))


class PyTorch(unittest.TestCase):
    def test_verdicts(self):
        eager = {"hash": "a"}
        row = {"hash": "a", "budget_bytes": 100, "held_bytes": 90, "seen_bytes": 95}
        self.assertEqual(pytorch.verdict(row, eager), "equal")
        self.assertEqual(pytorch.verdict({**row, "hash": "b"}, eager), "other bits")
        self.assertEqual(pytorch.verdict({**row, "seen_bytes": 101}, eager), "above the budget")
        self.assertEqual(pytorch.verdict({**row, "held_bytes": 101, "seen_bytes": None}, eager), "above the budget")
        self.assertEqual(pytorch.verdict({**row, "held_bytes": 0}, eager), "ebb was not there")
        self.assertEqual(pytorch.verdict({"budget_bytes": 100, "tail": ["CUDA out of memory"]}, eager), "does not fit")
        self.assertEqual(pytorch.verdict({"tail": ["CUDA out of memory"]}, eager), "failed")

    def test_only_small_budgets_may_be_too_small(self):
        row = {"verdict": "does not fit", "budget_bytes": 49}
        self.assertTrue(pytorch.passes(row, 100))
        self.assertFalse(pytorch.passes({**row, "budget_bytes": 50}, 100))
        self.assertFalse(pytorch.passes({"verdict": "no time"}, 100))

    def test_budgets_that_were_there_are_not_run_again(self):
        context = common.Context("/nowhere", "/nowhere", tempfile.mkdtemp(), quick=True)
        self.assertEqual(pytorch.shares_for(context, 1000, []), [("ebb, 70%", 700), ("ebb, 50%", 500)])
        self.assertEqual(pytorch.shares_for(context, 1000, [690]), [("ebb, 50%", 500)])

    def test_summary_takes_rows_that_lack_things(self):
        lines = pytorch.summary({"gpt2": [{"name": "eager", "verdict": "failed", "tail": ["no CUDA"]}, {"name": "ebb", "verdict": "no time"}]})
        self.assertIn("- eager: no CUDA", lines)


class Picture(unittest.TestCase):
    def test_drawn_points_are_in_the_picture(self):
        drawing = picture.draw("a < b", "peak", [(1 << 30, 0.0, "eager", "equal"), (1 << 29, 0.25, "ebb, 50%", "equal"),
                                                 (1 << 29, -0.2, "compile", "other bits")])
        dom = xml.dom.minidom.parseString(drawing)
        circles = dom.getElementsByTagName("circle")
        self.assertEqual(len(circles), 3)
        for circle in circles:
            self.assertTrue(0 <= float(circle.getAttribute("cx")) <= picture.WIDTH)
            self.assertTrue(0 <= float(circle.getAttribute("cy")) <= picture.HEIGHT)
        self.assertIn("compile (other bits)", drawing)

    def test_one_point_or_none(self):
        xml.dom.minidom.parseString(picture.draw("t", "peak", [(0, 0.0, "eager", "equal")]))
        self.assertIsNone(picture.draw("t", "peak", []))


def chunk_line(mib, count, each):
    return {"chunk_mib": mib, "count": count, "map_us": each, "access_each_us": each, "unmap_each_us": each}


def link_line(kib, out, back):
    return {"kib": kib, "out_gb_s": out, "in_gb_s": back, "both_out_gb_s": 0.8 * out, "both_in_gb_s": 0.7 * back}


class Defaults(unittest.TestCase):
    costs = {"chunks": [chunk_line(2, 1, 1.0), chunk_line(2, 1024, 10.0), chunk_line(4, 1024, 10.0), chunk_line(16, 1024, 10.0)],
             "link": [link_line(64, 10, 12), link_line(256, 20, 30), link_line(1024, 30, 40), link_line(4096, 49, 49), link_line(16384, 50, 50)],
             "events": {"record_host_us": 1, "wait_host_us": 2, "kernel_after_event_us": 4}}

    def test_figures_give_defaults(self):
        # 2 MiB: 30 us beside the link's 42; 4 MiB: beside 84; 16 MiB: beside 336, more than ten times as much.
        self.assertEqual(defaults.propose(self.costs), {"chunk": 16 << 20, "least buffer": 1 << 20, "piece": 4 << 20, "window": 16 << 20,
                                                        "least gap": round((1 << 20) / 25e3 * 2) + 14, "link": 35_000_000_000})

    def test_cheap_chunks_stay_small(self):
        cheap = {**self.costs, "chunks": [chunk_line(2, 1024, 1.0), chunk_line(4, 1024, 1.0)]}
        self.assertEqual(defaults.propose(cheap)["chunk"], 2 << 20)
        dear = {**self.costs, "chunks": [chunk_line(2, 1024, 100.0), chunk_line(4, 1024, 150.0)]}
        self.assertEqual(defaults.propose(dear)["chunk"], 4 << 20)

    def test_defaults_are_found_in_the_sources(self):
        self.assertEqual([name for name in defaults.SOURCES if defaults.now(name) is None], [])
        self.assertEqual(defaults.now("chunk"), 2 << 20)


class FakeNvml:
    """NVML as a container shows it, or not: processes by pid, and what the whole device has in use."""

    def __init__(self, before, after):
        self.answers = [before, after]

    def processes(self):
        return self.answers[0][0]

    def used(self):
        return self.answers[0][1]

    def next(self):
        del self.answers[0]


class Watching(unittest.TestCase):
    def look(self, before, after):
        nvml = FakeNvml(before, after)
        looker = watch.Device(nvml)
        process = subprocess.Popen(["sleep", "30"], start_new_session=True)
        try:
            if "PID" in after[0]:
                after[0][process.pid] = after[0].pop("PID")
            looker.start(process.pid)
            nvml.next()
            time.sleep(0.05)
            return looker.stop(), looker.way
        finally:
            common.end_group(process.pid)
            process.wait()

    def test_own_process_is_told_from_others(self):
        self.assertEqual(self.look(({1: 500}, 500), ({1: 900, "PID": 70}, 970)), (70, "process"))

    def test_foreign_numbers_are_told_by_being_new(self):
        self.assertEqual(self.look(({1 << 29: 500}, 500), ({1 << 29: 500, (1 << 29) + 1: 80}, 590)), (80, "new processes"))

    def test_without_processes_the_device_counts(self):
        self.assertEqual(self.look(({}, 500), ({}, 590)), (90, "device"))

    def test_resident_set_is_seen(self):
        looker = watch.Resident()
        process = subprocess.Popen(["sleep", "30"], start_new_session=True)
        looker.start(process.pid)
        time.sleep(0.2)
        self.assertGreater(looker.stop(), 100_000)
        common.end_group(process.pid)
        process.wait()


class Running(unittest.TestCase):
    def context(self, limit=60):
        folder = tempfile.mkdtemp()
        return common.Context(folder, folder, folder, limit=limit)

    def test_programs_are_ended_with_all_that_they_started(self):
        context = self.context()
        result = context.run(["bash", "-c", "echo begun; sleep 60 & echo $!; wait"], limit=1)
        self.assertEqual(result["rc"], 124)
        self.assertEqual(result["out"].splitlines()[0], "begun")
        time.sleep(0.1)
        stat = pathlib.Path(f"/proc/{result['out'].split()[1]}/stat")
        self.assertTrue(not stat.exists() or stat.read_text().split()[2] == "Z")

    def test_what_cannot_be_started_is_told(self):
        self.assertEqual(self.context().run(["/nowhere/program"])["rc"], 127)

    def test_a_killed_step_leaves_its_figures(self):
        out = pathlib.Path(tempfile.mkdtemp())
        script = (f"import sys, types; sys.path.insert(0, {str(HERE)!r}); import steps\n"
                  "slow = types.ModuleType('costs')\n"
                  "def step(c):\n    c.figures['first'] = 1\n    c.run(['sleep', '60'])\n    return True\n"
                  "slow.step, slow.summary = step, lambda figures: [str(figures)]\n"
                  "sys.modules['costs'] = slow\nsys.exit(steps.main())\n")
        command = [sys.executable, "-c", script, "--out", out, "--build", out, "--command", "test", "--only", "costs,sanitizer", "--software"]
        process = subprocess.Popen([str(w) for w in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={k: v for k, v in os.environ.items() if k != "COMPUTE_SANITIZER"})
        until = time.monotonic() + 60
        while time.monotonic() < until and not (out / "results.json").exists():
            time.sleep(0.1)
        self.assertEqual(json.loads((out / "results.json").read_text())["steps"]["costs"]["status"], "broken off")
        process.terminate()
        self.assertEqual(process.wait(30), 1)
        found = json.loads((out / "results.json").read_text())["steps"]
        self.assertEqual((found["costs"]["status"], found["costs"]["figures"]), ("failed", {"first": 1}))
        self.assertIn("told to stop", " ".join(found["costs"]["error"]))
        self.assertEqual(found["sanitizer"]["status"], "skipped")
        self.assertIn("{'first': 1}", (out / "summary.md").read_text())


class Writing(unittest.TestCase):
    def test_incomplete_figures_are_no_end(self):
        out = pathlib.Path(tempfile.mkdtemp())
        results = {"machine": {"device": "none"}, "command": "run", "steps": {
            name: {"status": "failed", "seconds": 1, "figures": {"broken": "off"}} for name in steps.STEPS}}
        steps.write(out, results)
        self.assertIn("figures are incomplete", (out / "summary.md").read_text())
        self.assertEqual(json.loads((out / "results.json").read_text()), results)

    def test_tables_have_a_cell_for_each_column(self):
        lines = common.table(["a", "b"], [[1, None]])
        self.assertEqual(lines, ["| a | b |", "| --- | --- |", "| 1 |  |"])


if __name__ == "__main__":
    unittest.main()
