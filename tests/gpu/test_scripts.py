#!/usr/bin/env python3
"""Of the scripts' own logic, what needs neither a GPU nor PyTorch: what they read, how they judge, what they draw, what they leave."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import xml.dom.minidom
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import common  # noqa: E402: beside this file
import conformance  # noqa: E402
import costs  # noqa: E402
import defaults  # noqa: E402
import differential  # noqa: E402
import facts  # noqa: E402
import hostile  # noqa: E402
import kernels  # noqa: E402
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

    def test_kernels_that_read_buffers_whole_are_left_out(self):
        words = sanitizer.TOOLS["initcheck"]
        out = re.compile(next(word for word in words if word.startswith("regex=")).removeprefix("regex="))
        kernels = [name for file in ("hash.cu", "tiles.cu") for name in re.findall(r"__global__ void (\w+)\(", (common.ROOT / "ckpt/run/profile/kernels" / file).read_text())]
        self.assertGreater(len(kernels), 3)
        self.assertEqual([name for name in kernels if not out.search(name)], [])

    def test_several_processes_are_added(self):
        self.assertEqual(sanitizer.judge(9, CLEAN + RACES), ("findings", 1))

    def test_nothing_looked_at_is_not_clean(self):
        self.assertEqual(sanitizer.judge(0, "step 1\n")[0], "not looked at")
        self.assertEqual(sanitizer.judge(127, "no such file")[0], "not looked at")
        self.assertEqual(sanitizer.judge(1, CLEAN)[0], "failed")
        self.assertEqual(sanitizer.judge(124, CLEAN)[0], "no time")


class Kernels(unittest.TestCase):
    def test_lines_are_read_with_their_bounds(self):
        rows = throughput.read_kernels(["NVIDIA H200", "B 16  T 1024  C 768  H 12  V 50304  dropout 0  bf16  peak 989400.0 GFLOP/s",
                                        "attention_forward            0.500 ms  (median     0.510)   201.3 GB/s  412316.9 GFLOP/s",
                                        "bias_forward (3C)            0.100 ms  (median     0.120)  2000.0 GB/s",
                                        "B 16  T 1024  C 768  H 12  V 50304  dropout 0  fp32  peak 66900.0 GFLOP/s",
                                        "attention_forward            5.000 ms  (median     5.010)   201.3 GB/s  33450.0 GFLOP/s",
                                        "sum (N)                      0.010 ms  (median     0.010)     6.6 GB/s"], 4000.0)
        self.assertEqual([r["dtype"] for r in rows], ["bf16", "bf16", "fp32", "fp32"])
        self.assertEqual(rows[0]["tflop_s"], 412.32)
        self.assertEqual((rows[0]["of_peak"], rows[2]["of_peak"], rows[3]["of_peak"]), (0.417, 0.5, None))
        self.assertEqual((rows[1]["kernel"], rows[1]["of_memory"], rows[1]["tflop_s"]), ("bias_forward (3C)", 0.5, None))

    def test_unknown_bounds_leave_gaps(self):
        rows = throughput.read_kernels(["B 1  T 32  C 64  H 2  V 64  dropout 0  bf16", "sum (N)   0.010 ms  (median     0.010)     6.6 GB/s  5.0 GFLOP/s"], None)
        self.assertEqual((rows[0]["dtype"], rows[0]["of_memory"], rows[0]["of_peak"]), ("bf16", None, None))

    def test_the_rate_of_memory_is_not_measured_twice(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        machine = {"device": "d", "commit": "c"}
        context = common.Context(folder, folder, folder, machine=machine)
        costs.keep(context, {"alias": {"one_address_gb_s": 7.0}, "right": True})
        with mock.patch.object(throughput, "gpu_costs", lambda *_: ({"alias": {"one_address_gb_s": 8.0}}, {})):
            self.assertEqual(throughput.memory_rate(context), 7.0)
            context.machine = {**machine, "commit": "other"}
            self.assertEqual(throughput.memory_rate(context), 8.0)


class Failure(unittest.TestCase):
    def failure(self, rc, err, out=""):
        return common.failure({"rc": rc, "out": out, "err": err})

    def test_only_who_says_that_memory_lacks_has_lacked_it(self):
        for said in ("torch.OutOfMemoryError: CUDA out of memory.", "cudaErrorMemoryAllocation", "CUBLAS_STATUS_ALLOC_FAILED",
                     "ebb:   a budget of 161 MiB would do", "ebb-train: out of device memory: asked"):
            self.assertEqual(self.failure(1, said), "no memory", said)
        for said in ("an illegal memory access was encountered", "CUDA error: misaligned address", "cudaErrorIllegalAddress", "174.5 MiB device memory",
                     "CUBLAS_STATUS_EXECUTION_FAILED", "cudaErrorLaunchFailure", "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED", "Traceback"):
            self.assertEqual(self.failure(1, said), "failed", said)
        self.assertEqual(self.failure(1, "an illegal memory access was encountered\n" + 50 * "x\n" + "out of memory"), "failed")
        self.assertEqual(self.failure(1, "out of memory\nCUBLAS_STATUS_NOT_INITIALIZED when calling cublasCreate"), "no memory")
        self.assertEqual(self.failure(1, "CUBLAS_STATUS_NOT_INITIALIZED when calling cublasCreate"), "failed")

    def test_how_it_ended_comes_first(self):
        self.assertIsNone(self.failure(0, "out of memory"))
        self.assertEqual(self.failure(124, "out of memory"), "no time")
        self.assertEqual(self.failure(-11, "out of memory"), "failed")


class Facts(unittest.TestCase):
    SOFTWARE = {"maps.first.at": "112:128 240:8", "handles.CUfunction.cuKernelGetName": "400"}

    def step(self, answer, device="cuda"):
        """The step, with a program that answers as said: (rc, out) by question."""
        environments = []

        class Recorder(common.Context):
            def run(self, command, *_, **more):
                environments.append(more)
                rc, out = answer(command[1], more.get("SOFTGPU_ARCH"))
                return {"rc": rc, "out": out, "err": "told", "seconds": 1}

        folder = pathlib.Path(tempfile.mkdtemp())
        committed = folder / "committed.json"
        committed.write_text(json.dumps({"80": {}, "90": self.SOFTWARE}))
        context = Recorder(folder, folder, folder / "work", device, machine={"compute_capability": "9.0"})
        with mock.patch.multiple(facts, SOFTWARE=committed), mock.patch.object(facts.importlib.util, "find_spec", lambda _: None):
            return facts.step(context), context

    def test_answers_are_compared_and_a_difference_is_named(self):
        said = "fact maps.first.at 0:128 128:8\nfigure maps.words.first 0 1\nfact handles.CUfunction.cuKernelGetName signal 11\nfact cut"
        well, context = self.step(lambda question, _: (0, said))
        rows = {row["fact"]: row["verdict"] for row in context.figures["compared"]}
        self.assertTrue(well)  # a difference is an answer
        self.assertEqual(rows, {"maps.first.at": "different", "handles.CUfunction.cuKernelGetName": "different"})
        lines = "\n".join(facts.summary(context.figures))
        self.assertIn("2 different, beside", lines)
        self.assertIn("| maps.first.at | 0:128 128:8 | 112:128 240:8 | different | the software device lays out", lines)
        self.assertIn("- maps.words.first: 0 1", lines)
        self.assertEqual(json.loads((context.out / "facts.json").read_text())["answers"]["compared"], context.figures["compared"])

    def test_a_question_that_crashes_leaves_the_others_and_fails(self):
        well, context = self.step(lambda question, _: (-11, "fact maps.first.at 112:128 240:8\n") if question == "maps" else (0, f"fact {question} 0\n"))
        self.assertFalse(well)
        self.assertEqual((context.figures["maps"]["ended"], context.figures["maps"]["tail"]), ("signal 11", ["fact maps.first.at 112:128 240:8", "told"]))
        self.assertEqual(context.figures["maps"]["facts"], {"maps.first.at": "112:128 240:8"})
        self.assertEqual(context.figures["copies"]["ended"], "well")
        self.assertEqual({row["verdict"] for row in context.figures["compared"]}, {"same", "only here", "no answer"})
        facts.summary(context.figures)

    def test_a_stale_file_fails_on_the_software_device(self):
        def as_committed(question, architecture):
            return 0, "" if architecture == "80" else "".join(f"fact {name} {value}\n" for name, value in self.SOFTWARE.items())

        self.assertTrue(self.step(as_committed, "software")[0])
        well, context = self.step(lambda question, architecture: (0, "fact maps.first.at 0:128\n"), "software")
        self.assertEqual((well, context.figures["stale"]), (False, ["80", "90"]))
        self.assertIn("--keep", "\n".join(facts.summary(context.figures)))

    def test_what_all_questions_may_take_fits_into_the_step(self):
        limits = []

        class Recorder(common.Context):
            def run(self, command, limit, **_):
                limits.append(limit)
                return {"rc": 0, "out": "", "err": "", "seconds": 1}

        folder = pathlib.Path(tempfile.mkdtemp())
        with mock.patch.object(facts.importlib.util, "find_spec", lambda _: True):
            facts.step(Recorder(folder, folder, folder / "work"))
        self.assertEqual(len(limits), len(facts.SECONDS) + 1)  # and PyTorch's
        self.assertLess(sum(limits), steps.limit_of("facts", mock.Mock(limit=None)))

    def test_every_answer_has_a_meaning(self):
        names = {name for answers in common.read_json(facts.SOFTWARE).values() for name in answers}
        self.assertGreater(len(names), 50)
        self.assertEqual([name for name in names if not facts.meaning(name)], [])

    def test_kernels_that_ebb_sees_nothing_of(self):
        found = facts.of_trace([{"kind": "kernel", "name": "nvjet", "param_bytes": 512, "access": [], "verdict": "untried"},
                                {"kind": "kernel", "name": "add", "param_bytes": 8, "access": [[1, 0, 0, 0, 0, 1]], "verdict": "globals"},
                                {"kind": "kernel", "name": "none", "param_bytes": 0, "access": [], "verdict": "untried"}, {"kind": "copy"}])
        self.assertEqual(found, {"kernels": 3, "verdicts": {"untried": 2, "globals": 1}, "no_access": {"nvjet": 1}, "globals": {"add": 1}})


    def test_a_step_of_pytorch_is_read(self):
        class Recorder(common.Context):
            def run(self, command, *_, **more):
                words = [str(word) for word in command]
                pathlib.Path(words[words.index("--stats") + 1]).write_text(json.dumps({"obscure": 2, "obscure_kernels": [{"name": "nvjet"}], "launches": 9}))
                pathlib.Path(more["EBB_TRACE"]).write_text('{"kind": "kernel", "name": "gemm", "param_bytes": 8, "access": [], "verdict": "opaque"}\n')
                return {"rc": 0, "out": "", "err": "ebb: kernel nvjet: it counts as touching everything\nebb: other\n", "seconds": 1}

        folder = pathlib.Path(tempfile.mkdtemp())
        figures = facts.pytorch_step(Recorder(folder, folder, folder / "work"))["figures"]
        self.assertEqual((figures["statistics"], len(figures["log"])), ({"obscure": 2, "obscure_kernels": [{"name": "nvjet"}]}, 1))
        self.assertEqual((figures["no_access"], figures["verdicts"]), ({"gemm": 1}, {"opaque": 1}))


class KernelTests(unittest.TestCase):
    def step(self, codes):
        class Recorder(common.Context):
            def run(self, command, *_, **__):
                return {"rc": codes.get(command[0].name, 0), "out": "told", "err": "", "seconds": 1}

        context = Recorder("/nowhere", "/nowhere", tempfile.mkdtemp())
        return kernels.step(context), context.figures

    def test_all_have_to_pass_that_the_device_can_run(self):
        self.assertTrue(self.step({})[0])
        well, figures = self.step({"kernels_attention_tensor": 77})
        self.assertTrue(well)
        self.assertIn("| kernels_attention_tensor | skipped | 77 | 1 |", kernels.summary(figures))
        self.assertFalse(self.step(dict.fromkeys(common.KERNELS, 77))[0])
        for code, verdict in ((1, "failed"), (-11, "failed"), (124, "no time")):
            well, figures = self.step({"kernels_passes": code})
            self.assertEqual((well, figures["tests"][1]["verdict"]), (False, verdict))

    def test_the_build_makes_the_same(self):
        made = re.search(r"kernel_tests=\((.*?)\)", (HERE / "build.sh").read_text()).group(1)
        self.assertEqual(made.split(), common.KERNELS)


class PyTorch(unittest.TestCase):
    def test_verdicts(self):
        eager = {"hash": "a"}
        row = {"hash": "a", "under_ebb": True, "budget_bytes": 100, "held_bytes": 90, "seen_bytes": 95}
        self.assertEqual(pytorch.verdict(row, eager), "equal")
        self.assertEqual(pytorch.verdict({**row, "hash": "b"}, eager), "other bits")
        self.assertEqual(pytorch.verdict({**row, "seen_bytes": 101}, eager), "above the budget")
        self.assertEqual(pytorch.verdict({**row, "held_bytes": 101, "seen_bytes": None}, eager), "above the budget")
        self.assertEqual(pytorch.verdict({**row, "held_bytes": 0}, eager), "ebb was not there")
        self.assertEqual(pytorch.verdict({**row, "held_bytes": 0, "budget_bytes": None}, eager), "ebb was not there")
        self.assertEqual(pytorch.verdict({"under_ebb": True, "failure": "no memory"}, eager), "does not fit")
        self.assertEqual(pytorch.verdict({"failure": "no memory"}, eager), "out of memory")
        self.assertEqual(pytorch.verdict({"under_ebb": True, "failure": "no time"}, eager), "no time")
        self.assertEqual(pytorch.verdict({"failure": "failed"}, eager), "failed")
        self.assertEqual(pytorch.verdict({**row, "rc": -11, "failure": "failed"}, eager), "failed")

    def test_ways_without_a_result_do_not_pass(self):
        self.assertTrue(pytorch.has_result({"hash": "b", "verdict": "other bits"}))
        self.assertTrue(pytorch.has_result({"verdict": "out of memory"}))
        self.assertFalse(pytorch.has_result({"verdict": "failed"}))
        self.assertFalse(pytorch.has_result({"verdict": "no time"}))

    def step(self, way, models=("gpt2",), again="a"):
        """The step as on a GPU, with runs that are none: `way` is what becomes of each of PyTorch's own; `again`, of eager mode's second run."""
        self.runs = []

        def run_model(context, watched, model, name, words=(), budget=None, **environment):
            row = {"name": name, "rc": 0, "seen_bytes": 700 << 20, "hash": "a", "ms": 1.0, "seconds": 1}
            self.runs.append(name)
            if budget:
                budget = budget if isinstance(budget, int) else 1000 << 20
                return {**row, "under_ebb": True, "budget_bytes": budget, "held_bytes": min(budget, 600 << 20), "seen_bytes": 1}
            if name.startswith("eager"):
                return {**row, "hash": again if "again" in name else "a"}
            return {"name": name, "rc": 0, "seen_bytes": None, **way}

        folder = tempfile.mkdtemp()
        self.context = common.Context(folder, folder, folder, models=models)
        with mock.patch.multiple(pytorch, run_model=run_model, watch_for=lambda device: None, plot=lambda *_: None, has_transformers=lambda: False):
            return pytorch.step(self.context), {name: part["status"] for name, part in self.context.parts.items()}

    def test_shares_come_behind_the_first_of_pytorchs_ways(self):
        self.step({"hash": "b"})
        self.assertEqual(self.runs[:7], ["eager", "eager, again", "ebb, all memory", "checkpoint", "ebb, 70%", "ebb, 50%", "save_on_cpu"])
        self.assertEqual(self.runs[-4:], ["ebb, 85%", "ebb, 60%", "ebb, 40%", "native allocator"])

    def test_eager_mode_that_differs_from_itself_is_named(self):
        self.assertEqual(self.step({"hash": "b"}, again="c"), (False, {"gpt2": "failed"}))
        rows = {row["name"]: row["verdict"] for row in self.context.figures["gpt2"]}
        self.assertEqual((rows["eager, again"], rows["checkpoint"], rows["ebb, 70%"]), ("other bits", "other bits, as eager mode", "equal"))

    def test_without_time_nothing_is_begun(self):
        folder = tempfile.mkdtemp()
        context = common.Context(folder, folder, folder, limit=5)
        with mock.patch.multiple(pytorch, watch_for=lambda device: None):
            rows = pytorch.Table(context, "gpt2")
            self.assertEqual(rows.add("eager")["verdict"], "no time")
            context.until += 50
            rows.rows[0].update(seconds=60)
            self.assertEqual(rows.add("ebb")["verdict"], "no time")

    def test_step_passes_only_with_results_of_pytorchs_ways(self):
        self.assertEqual(self.step({"hash": "b"}), (True, {"gpt2": "passed"}))
        self.assertEqual(self.step({"failure": "no memory"}), (True, {"gpt2": "passed"}))
        self.assertEqual(self.step({"failure": "failed"}), (False, {"gpt2": "failed"}))
        self.assertEqual(self.step({"hash": "b"}, ("gpt2", "hf-gpt2")), (True, {"gpt2": "passed", "hf-gpt2": "skipped"}))
        self.assertEqual(self.step({"hash": "b"}, ("hf-gpt2",)), (False, {"hf-gpt2": "skipped"}))

    def test_all_models_decide(self):
        self.assertTrue(pytorch.all_well({"gpt2": {"status": "passed"}, "hf-gpt2": {"status": "skipped"}}))
        self.assertFalse(pytorch.all_well({"gpt2": {"status": "passed"}, "llama": {"status": "broken off"}}))
        self.assertFalse(pytorch.all_well({"hf-gpt2": {"status": "skipped"}}))

    def test_only_small_budgets_may_be_too_small(self):
        row = {"verdict": "does not fit", "budget_bytes": 49}
        self.assertTrue(pytorch.passes(row, 100))
        self.assertFalse(pytorch.passes({**row, "budget_bytes": 50}, 100))
        self.assertFalse(pytorch.passes({"verdict": "no time"}, 100))

    def test_budgets_that_were_there_are_not_run_again(self):
        context = common.Context("/nowhere", "/nowhere", tempfile.mkdtemp(), quick=True)
        self.assertEqual(pytorch.shares_for(context, (85, 70, 50), 1000, []), [("ebb, 70%", 700), ("ebb, 50%", 500)])
        self.assertEqual(pytorch.shares_for(context, (70, 50), 1000, [690]), [("ebb, 50%", 500)])

    def test_summary_takes_rows_that_lack_things(self):
        lines = pytorch.summary({"gpt2": [{"name": "eager", "verdict": "failed", "tail": ["no CUDA"]}, {"name": "ebb", "verdict": "no time"}]})
        self.assertIn("- eager: no CUDA", lines)


class Differential(unittest.TestCase):
    plain = {"bits": ["a"]}
    ran = {"rc": 0, "bits": ["a"], "tail": [], "seen_bytes": 90, "stats": {"peak_bytes": 80, "overhead_bytes": 10, "steps_driven": 3}}

    def judge(self, drives=True, **changes):
        return differential.judge({**self.ran, **changes}, self.plain, 100, drives)

    def test_verdicts(self):
        self.assertEqual(self.judge(), "equal")
        self.assertEqual(self.judge(bits=["b"]), "other bits")
        self.assertEqual(self.judge(seen_bytes=101), "above the budget")
        self.assertEqual(self.judge(stats={}), "ebb was not there")
        self.assertEqual(self.judge(rc=3, failure="no memory"), "does not fit")
        self.assertEqual(self.judge(rc=-11, failure="failed"), "failed")
        self.assertEqual(self.judge(rc=124, failure="no time"), "no time")

    def test_regular_steps_have_to_be_driven(self):
        reactive = {**self.ran["stats"], "steps_driven": 0}
        self.assertEqual(self.judge(stats=reactive), "not driven")
        self.assertEqual(self.judge(drives=False, stats=reactive), "equal")

    def compare(self, name, driven):
        self.limits = []
        context = common.Context("/nowhere", "/nowhere", tempfile.mkdtemp(), "software")

        def run(budget, _watch, limit):
            self.limits.append(limit)
            held = budget if isinstance(budget, int) else 100
            return {**self.ran, "ms": 1.0, "seconds": 3, "seen_bytes": None, "stats": {"peak_bytes": held, "overhead_bytes": 0, "steps_driven": driven}}

        well = differential.compare(context, name, run, [100, 70, 50, 30], name == "loop")
        return well, [row["verdict"] for row in context.figures[name][2:]]

    def test_a_loop_that_no_plan_drives_fails_where_the_budget_bites(self):
        self.assertEqual(self.compare("loop", 5), (True, ["equal"] * 4))
        self.assertEqual(self.limits, [120] + 5 * [60])
        self.assertEqual(self.compare("loop", 0), (False, ["equal", "not driven", "not driven", "equal"]))
        self.assertEqual(self.compare("loop deviate", 0), (True, ["equal"] * 4))


class Hostile(unittest.TestCase):
    plain = {"rc": 0, "out": "hash 1\n", "err": "size 100 40 10 20\n"}

    def test_verdicts(self):
        def judge(name="zeros", held=90, **changes):
            return hostile.judge(name, {**self.plain, **changes}, self.plain, held, 100)

        self.assertEqual(judge(), "equal")
        self.assertEqual(judge(out="hash 2\n"), "other bits")
        self.assertEqual(judge(held=101), "above the budget")
        self.assertEqual(judge(held=0), "ebb was not there")
        self.assertEqual(judge(rc=124), "no time")
        lost = {"rc": 3, "err": "ebb: launch 3 has other bits\ncudaErrorLaunchFailure\n"}
        self.assertEqual(judge("flag", **lost), "lost, and told")
        self.assertEqual(judge("zeros", **lost), "failed")
        self.assertEqual(judge("flag", rc=3), "failed")

    def test_sizes_stand_on_either_output_and_are_no_result(self):
        self.assertEqual(hostile.sizes(self.plain), [100, 40, 10, 20])
        self.assertEqual(hostile.sizes({"out": "a\nsize 1 2 3 4\n", "err": ""}), [1, 2, 3, 4])
        self.assertIsNone(hostile.sizes({"out": "a\n", "err": ""}))
        self.assertEqual(hostile.output({"out": "a\nsize 1 2 3 4\n"}), ["a"])

    def test_budgets_lie_between_what_is_needed_and_all(self):
        for kind in ("nasty", "fuzz"):
            least, most = hostile.bounds(kind, [100 << 20, 30 << 20, 2 << 20, 100 << 20])
            self.assertLess(30 << 20, least)
            self.assertLess(least, most)

    def test_a_program_is_run_without_with_and_with_less(self):
        budgets = []

        class Recorder(common.Context):
            def run(self, command, *_, **__):
                if "--budget" not in command:
                    return {**Hostile.plain, "err": f"size {100 << 20} {40 << 20} {1 << 20} {20 << 20}\n", "seconds": 1}
                budgets.append(command[command.index("--budget") + 1])
                command[command.index("--stats") + 1].write_text(json.dumps({"peak_bytes": 60 << 20, "overhead_bytes": 500 << 20}))
                return {**Hostile.plain, "seconds": 1}

        folder = tempfile.mkdtemp()
        rows = hostile.try_one(Recorder(folder, folder, folder), "nasty", "zeros")
        self.assertEqual([row["verdict"] for row in rows], ["equal", "equal", "equal"])
        self.assertEqual(budgets, ["100%", common.with_headroom(584 << 20), common.with_headroom(566 << 20)])


class Conformance(unittest.TestCase):
    def test_what_a_failed_program_has_said_stands_beside_it(self):
        lines = ["passed   a.a", "b.b (LD_LIBRARY_PATH=): exit 1", "b.c:12: 3 != 4", "FAILED   b.b", "c.c: no peer", "skipped  c.c"]
        said = conformance.complaints(lines, {"a.a": "passed", "b.b": "FAILED", "c.c": "skipped"})
        self.assertEqual(said, {"b.b": lines[1:3], "c.c": ["c.c: no peer"]})

    def test_those_that_compare_free_memory_run_alone(self):
        folder = common.ROOT / "tests/conformance"
        asking = {f"{p.parent.name}.{p.stem}" for p in folder.glob("*/*.c") if "MemGetInfo" in p.read_text()}
        self.assertEqual(asking, set(conformance.ALONE))

    def test_all_run_once_and_alone_comes_last(self):
        build = pathlib.Path(tempfile.mkdtemp())
        (build / "conformance").mkdir()
        (build / "conformance/cases").write_text("".join(f"{name}\n" for name in ["a.a", "b.b", *conformance.ALONE]))
        calls = []

        class Recorder(common.Context):
            def run(self, command, *_, **__):
                calls.append(command[4:])
                return {"rc": 0, "out": "".join(f"passed   {name}\n" for name in command[4:]), "err": ""}

        self.assertTrue(conformance.step(Recorder(build, build, build)))
        self.assertEqual(sorted(calls[:-1]), [["a.a"], ["b.b"]])
        self.assertEqual(calls[-1], sorted(conformance.ALONE))


class Costs(unittest.TestCase):
    printed = '{\n  "device": "a [b", "cuda": 13000,\n  "chunks": [\n    {"x": 1},\n    {"x": 2}'

    def test_what_was_cut_off_keeps_its_beginning(self):
        head = {"device": "a [b", "cuda": 13000}
        self.assertEqual(common.close_json(self.printed), {**head, "chunks": [{"x": 1}, {"x": 2}]})
        self.assertEqual(common.close_json(self.printed[:-3]), {**head, "chunks": [{"x": 1}]})
        self.assertEqual(common.close_json(self.printed + '\n  ],\n  "alias": {"r'), {**head, "chunks": [{"x": 1}, {"x": 2}]})
        self.assertEqual(common.close_json(self.printed + '\n  ],\n  "right": true\n}\n')["right"], True)
        for nothing in ("", "{", "no device", "[1, 2"):
            self.assertEqual(common.close_json(nothing), {})

    def test_a_killed_one_leaves_figures_and_a_file_that_names_the_machine(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        (folder / "bin").mkdir()
        program, whole = folder / "bin/gpu_costs", json.dumps({**Defaults.costs, "right": True})
        context = common.Context(folder, folder, folder, machine={"device": "d", "commit": "c"}, command="run.sh", limit=2)
        program.write_text(f"#!/bin/sh\necho '{self.printed}'\nsleep 60\n")
        program.chmod(0o755)
        self.assertFalse(costs.step(context))
        self.assertIn("| 2 |", costs.summary(context.figures))
        found = json.loads((folder / "gpu_costs.json").read_text())
        self.assertEqual((found["machine"], found["command"]), ({"device": "d", "commit": "c"}, "run.sh"))
        self.assertEqual(defaults.figures_in(found)["chunks"], [{"x": 1}, {"x": 2}])
        # A whole one replaces it, and is replaced by none that is not.
        costs.keep(context, json.loads(whole))
        costs.keep(context, {"device": "cut"})
        self.assertEqual(defaults.figures_in(json.loads((folder / "gpu_costs.json").read_text())), json.loads(whole))


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

    def test_a_slow_largest_copy_takes_nothing_with_it(self):
        slow = {**self.costs, "link": [*self.costs["link"][:-1], link_line(16384, 40, 50)]}
        self.assertEqual(defaults.propose(slow)["piece"], 16 << 20)

    def test_tables_stay_where_nothing_follows(self):
        lines = costs.summary({"chunks": self.costs["chunks"], "link": [link_line(64, 0, 0)]})
        self.assertIn("Microseconds per chunk:", lines)
        self.assertTrue(lines[-1].startswith("Nothing follows"))

    def test_figures_are_found_in_every_file(self):
        for found in (self.costs, {"machine": {}, "figures": self.costs}, {"steps": {"costs": {"figures": self.costs}}}):
            self.assertEqual(defaults.figures_in(found), self.costs)

    def test_gpu_costs_json_is_read(self):
        path = pathlib.Path(tempfile.mkdtemp()) / "gpu_costs.json"
        path.write_text(json.dumps({"machine": {"device": "d"}, "command": "run.sh", "figures": self.costs}))
        result = subprocess.run([sys.executable, HERE / "defaults.py", path], capture_output=True, text=True, check=True)
        self.assertIn("| chunk | 2 MiB | 16 MiB |", result.stdout)

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
            until = time.monotonic() + 30
            while not any(looker.most.values()) and time.monotonic() < until:
                time.sleep(0.01)
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


def may_attach():
    scope = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
    return not os.geteuid() or not scope.exists() or scope.read_text().strip() == "0"


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

    @unittest.skipUnless(shutil.which("cuda-gdb") or shutil.which("gdb"), "no debugger")
    @unittest.skipUnless(may_attach(), "a debugger may not look at any process")
    def test_of_the_first_that_hangs_it_is_told_where(self):
        context = self.context()
        first, second = (context.run(["sleep", "60"], limit=1) for _ in range(2))
        self.assertIn("nanosleep", "\n".join(first["stacks"]))
        self.assertNotIn("stacks", second)

    def test_programs_get_no_options_of_ebbs_but_the_host_budget(self):
        folder = tempfile.mkdtemp()
        with mock.patch.dict(os.environ, {"EBB_POLICY": "keep"}):
            self.assertNotIn("EBB_POLICY", common.Context(folder, folder, folder).environment())
            self.assertEqual(common.Context(folder, folder, folder, host="4GiB").environment()["EBB_HOST_BUDGET"], "4GiB")

    def test_pytorch_meets_its_own_libraries(self):
        context = self.context()
        found = f"{context.build}/found"
        with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": f"{found}:{found}/cuda:/else"}):
            self.assertEqual(context.own_libraries(), {"LD_LIBRARY_PATH": f"{found}:/else"})

    def test_a_crash_is_looked_at_once_by_a_debugger(self):
        context = self.context()
        debugger = pathlib.Path(tempfile.mkdtemp()) / "cuda-gdb"
        debugger.write_text("#!/bin/sh\necho \"$@\"\n")
        debugger.chmod(0o755)
        with mock.patch.dict(os.environ, {"PATH": f"{debugger.parent}:{os.environ['PATH']}"}):
            self.assertEqual(common.crash(context, {"rc": 1}, ["prog"]), [])
            self.assertRegex(" ".join(common.crash(context, {"rc": -11}, ["prog", "x"], 5)), "bt 24.* --args .*/ebb run --budget 5 -- prog x$")
            self.assertEqual(common.crash(context, {"rc": -11}, ["prog"]), [])

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


STEPS_OF_A_TEST = """
import sys, types
sys.path.insert(0, {here!r})
import steps
def step(c):
    for model in c.models:
        c.figures[model], c.parts[model] = [len(c.figures)], dict(status="broken off")
        if model == "llama" and {dies}:
            import os; os._exit(3)
        c.parts[model]["status"] = "failed" if model == {bad!r} else "passed"
    return all(p["status"] == "passed" for p in c.parts.values())
steps.WITHOUT["software"] = steps.STEPS
for name in ("pytorch", "costs"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].step, sys.modules[name].summary = step, lambda figures: [str(figures)]
steps.machine = lambda arguments: dict(device="d", commit={commit!r}, date={date!r})
sys.exit(steps.main())
"""


class Calls(unittest.TestCase):
    """Several calls with one OUTDIR."""

    def setUp(self):
        self.out = pathlib.Path(tempfile.mkdtemp())

    def call(self, *words, commit="c", date="1", bad=None, dies=False):
        script = STEPS_OF_A_TEST.format(here=str(HERE), commit=commit, date=date, bad=bad, dies=dies)
        command = [sys.executable, "-c", script, "--out", self.out, "--build", self.out, "--command", "call " + date, "--software", *words]
        rc = subprocess.run([str(w) for w in command], capture_output=True, text=True, check=False).returncode
        return rc, json.loads((self.out / "results.json").read_text())

    def test_models_of_one_commit_stand_together(self):
        self.call("--only", "pytorch", "--models", "gpt2")
        rc, results = self.call("--only", "pytorch", "--models", "llama", date="2")
        self.assertEqual(rc, 0)
        self.assertEqual(results["steps"]["pytorch"]["figures"], {"gpt2": [0], "llama": [1]})
        self.assertEqual(results["earlier"], {})

    def test_status_comes_from_all_models(self):
        self.call("--only", "pytorch", "--models", "gpt2", bad="gpt2")
        rc, results = self.call("--only", "pytorch", "--models", "llama")
        self.assertEqual((rc, results["steps"]["pytorch"]["status"]), (1, "failed"))
        rc, results = self.call("--only", "pytorch", "--models", "gpt2")
        self.assertEqual((rc, results["steps"]["pytorch"]["status"]), (0, "passed"))

    def test_a_call_that_dies_leaves_the_earlier_models(self):
        self.call("--only", "pytorch", "--models", "gpt2")
        rc, results = self.call("--only", "pytorch", "--models", "llama", dies=True)
        entry = results["steps"]["pytorch"]
        self.assertEqual((rc, entry["status"], entry["figures"]["gpt2"]), (1, "failed", [0]))

    def test_figures_of_another_commit_stand_apart(self):
        self.call("--only", "pytorch", "--models", "gpt2")
        _, results = self.call("--only", "pytorch", "--models", "llama", commit="other")
        self.assertEqual(list(results["steps"]["pytorch"]["figures"]), ["llama"])
        self.assertEqual(results["earlier"]["pytorch"]["figures"], {"gpt2": [0]})
        self.assertEqual(results["earlier"]["pytorch"]["machine"]["commit"], "c")

    def test_each_step_keeps_its_machine(self):
        self.call("--only", "costs")
        _, results = self.call("--only", "pytorch", commit="other", date="2")
        told = {name: (r["machine"]["commit"], r["machine"]["date"], r["command"]) for name, r in results["steps"].items()}
        self.assertEqual(told, {"costs": ("c", "1", "call 1"), "pytorch": ("other", "2", "call 2")})
        summary = (self.out / "summary.md").read_text()
        self.assertIn("- commit: c\n", summary)
        self.assertIn("- commit: other\n", summary)

    def test_what_is_not_begun_replaces_nothing(self):
        self.call("--only", "costs")
        rc, results = self.call("--only", "costs", "--limit", "1", date="2")
        self.assertEqual((rc, results["steps"]["costs"]["status"]), (1, "passed"))

    def test_machine_of_an_older_file_goes_to_its_steps(self):
        (self.out / "results.json").write_text(json.dumps({"machine": {"device": "old"}, "command": "x", "steps": {
            "costs": {"status": "passed", "seconds": 1, "figures": {"a": 1}}}}))
        _, results = self.call("--only", "pytorch")
        self.assertEqual(results["steps"]["costs"]["machine"], {"device": "old"})

    def test_a_build_that_failed_is_told_and_the_steps_run(self):
        log = self.out / "build.log"
        log.write_text("FAILED: bin/loop\nninja: stopped\n")
        rc, results = self.call("--only", "costs", "--built", "1", "12", log)
        self.assertEqual((rc, results["steps"]["costs"]["status"], results["steps"]["build"]["status"]), (1, "passed", "failed"))
        self.assertIn("FAILED: bin/loop", results["steps"]["build"]["error"])
        self.assertEqual(self.call("--only", "costs", "--built", "0", "12", log)[0], 0)


class Writing(unittest.TestCase):
    def test_incomplete_figures_are_no_end(self):
        out = pathlib.Path(tempfile.mkdtemp())
        results = {"steps": {name: {"status": "failed", "seconds": 1, "machine": {"device": "none"}, "command": "run",
                                    "figures": {"broken": "off"}} for name in steps.STEPS}}
        steps.write(out, results)
        self.assertIn("figures are incomplete", (out / "summary.md").read_text())
        self.assertEqual(json.loads((out / "results.json").read_text()), results)

    def test_tables_have_a_cell_for_each_column(self):
        lines = common.table(["a", "b"], [[1, None]])
        self.assertEqual(lines, ["| a | b |", "| --- | --- |", "| 1 |  |"])


if __name__ == "__main__":
    unittest.main()
