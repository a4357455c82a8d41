"""The module `ebb` and its command, with trainer.py on the software device. `python3 -m unittest` runs these as well as pytest does; the module is the one that the
interpreter finds: of the wheel in run.sh, of the build in the short form."""

import json
import os
import pathlib
import subprocess
import sys
import types
import unittest
from unittest import mock

import ebb

HERE = pathlib.Path(__file__).resolve().parent
BUDGET = 48 << 20


def train(scene, *command, **environment):
    """The scene's result and what is on stderr."""
    run = subprocess.run(
        [*command, sys.executable, HERE / "trainer.py", scene],
        env={**os.environ, "SOFTGPU_MEMORY": "256M", "EBB_PLAN_WAIT": "600000", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise AssertionError(f"{run.args}: {run.returncode}\n{run.stdout}{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1]), run.stderr


def under_ebb(*options):
    return (sys.executable, "-m", "ebb", "run", "-b", str(BUDGET), *options, "--")


class WithoutEbb(unittest.TestCase):
    def test_nothing_happens_and_that_is_said_once(self):
        seen, said = train("told")
        self.assertFalse(seen["active"])
        self.assertEqual((seen["stats"], seen["budget"], seen["figures"]), ({}, 0, {}))
        self.assertEqual(said.count("this process is not under ebb"), 1)

    def test_asking_whether_it_is_there_says_nothing(self):
        run = subprocess.run([sys.executable, "-c", "import ebb; print(ebb.active())"], capture_output=True, text=True, check=True)
        self.assertEqual((run.stdout, run.stderr), ("False\n", ""))


class UnderEbb(unittest.TestCase):
    def test_steps_are_driven_with_the_same_bits(self):
        alone, _ = train("plain")
        seen, _ = train("plain", *under_ebb())
        self.assertTrue(seen["active"])
        self.assertEqual(seen["hash"], alone["hash"])
        self.assertEqual((seen["devices"], seen["budget"]), (1, BUDGET))
        self.assertGreater(seen["stats"]["steps_driven"], 8)
        self.assertLessEqual(seen["stats"]["peak_bytes"], BUDGET)
        self.assertEqual(len(seen["stats"]["devices"]), 1)
        self.assertTrue(seen["stats"]["variants"])
        self.assertEqual(seen["figures"]["ebb/steps_driven"], seen["stats"]["steps_driven"])
        self.assertRegex(seen["version"], r"^\d+\.\d+\.\d+$")

    def test_what_is_told_is_done(self):
        alone, _ = train("told", TRAINER_STEPS="45")
        seen, log = train("told", *under_ebb(), TRAINER_STEPS="45", EBB_LOG="info")
        self.assertEqual(seen["hash"], alone["hash"])
        self.assertEqual(seen["budget"], 40 << 20)
        self.assertLessEqual(seen["stats"]["peak_bytes"], 40 << 20)
        self.assertGreater(seen["stats"]["steps_driven"], seen["while_paused"] + 10)
        self.assertGreater(seen["figures"]["ebb/steps_driven"], 10)
        self.assertIn("the budget is 40 MiB from here on: the program says so", log)

    def test_what_means_nothing_is_an_exception(self):
        seen, _ = train("wrong", *under_ebb())
        self.assertEqual((seen["size"], seen["peak"], seen["thing"]), ("ValueError", "ValueError", "TypeError"))
        self.assertEqual((seen["device"], seen["host"]), ("RuntimeError", "RuntimeError"))


class Command(unittest.TestCase):
    def test_script_is_run_by_this_interpreter(self):
        script = HERE / "trainer.py"
        run = subprocess.run(
            [sys.executable, "-m", "ebb", "run", "-b", str(BUDGET), "--", script, "plain"],
            env={**os.environ, "SOFTGPU_MEMORY": "256M"},
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertTrue(json.loads(run.stdout.splitlines()[-1])["active"])

    def test_other_arguments_are_passed_on(self):
        from ebb.__main__ import with_interpreter

        for arguments in (["version"], ["run", "-b", "1GiB", "python3", "a.py"], ["run", "--", "/bin/true", "a.py"], ["run", "--"]):
            self.assertEqual(with_interpreter(arguments), arguments)
        run = subprocess.run([sys.executable, "-m", "ebb", "run", "--", "/bin/false"], capture_output=True, check=False)
        self.assertEqual(run.returncode, 1)
        run = subprocess.run([sys.executable, "-m", "ebb", "doctor", "--no-measure"], capture_output=True, text=True, check=False)
        self.assertIn("libebb.so", run.stdout)


FIGURES = {"ebb/steps_driven": 3.0}


class Callbacks(unittest.TestCase):
    def test_trainer_of_transformers_logs_the_figures(self):
        try:
            from transformers.trainer_callback import CallbackHandler, TrainerControl, TrainerState

            import ebb.transformers
        except ImportError as missing:
            self.skipTest(str(missing))
        state, logs = TrainerState(), {"loss": 1.0}
        with mock.patch("ebb.figures", return_value=FIGURES), mock.patch("ebb.stats", return_value={}), mock.patch("ebb.step") as step:
            handler = CallbackHandler([ebb.transformers.EbbCallback(mark_steps=True)], None, None, None, None)
            handler.on_train_begin(None, state, TrainerControl())
            handler.on_step_begin(None, state, TrainerControl())
            state.log_history.append(dict(logs))
            handler.on_log(None, state, TrainerControl(), logs)
        step.assert_called_once_with()
        self.assertEqual(logs, {"loss": 1.0, **FIGURES})
        self.assertEqual(state.log_history, [{"loss": 1.0, **FIGURES}])

    def test_lightning_logs_the_figures(self):
        """Lightning itself brings PyTorch: what it calls, and with which arguments, is that of its 2.x."""
        modules = {name: types.ModuleType(name) for name in ("lightning", "lightning.pytorch", "lightning.pytorch.callbacks")}
        modules["lightning.pytorch.callbacks"].Callback = object
        with mock.patch.dict(sys.modules, modules):
            import ebb.lightning
        trainer, module = types.SimpleNamespace(accumulate_grad_batches=2), mock.Mock()
        with mock.patch("ebb.figures", return_value=FIGURES), mock.patch("ebb.stats", return_value={}), mock.patch("ebb.step") as step:
            callback = ebb.lightning.EbbCallback(every=4, mark_steps=True)
            callback.on_train_start(trainer, module)
            for batch in range(8):
                callback.on_train_batch_start(trainer, module, None, batch)
                callback.on_train_batch_end(trainer, module, None, None, batch)
        self.assertEqual(step.call_count, 4)
        self.assertEqual(module.log_dict.call_args_list, [mock.call(FIGURES)] * 2)


if __name__ == "__main__":
    unittest.main()
