"""test_layout.py LIBRARY_KERNELS FOLDER: that the software device lays out parameters as nvcc does for each architecture: what cuFuncGetParamInfo says
there of the kernels in facts.cu (facts_software.json, which the step facts holds to the device) is what their cubins in FOLDER say."""

import json
import pathlib
import subprocess
import sys
import unittest

PROGRAM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
SOFTWARE = json.loads(pathlib.Path(__file__).with_name("facts_software.json").read_text())


class Layout(unittest.TestCase):
    def test_the_device_lays_out_parameters_as_nvcc_does(self):
        for architecture, said in SOFTWARE.items():
            lines = subprocess.run([PROGRAM, "--architecture", architecture, "--list", str(FOLDER / f"facts.{architecture}")], capture_output=True,
                                   text=True, check=True).stdout.splitlines()
            compiled = {words[1].removeprefix("facts_"): " ".join(words[2:]) for words in map(str.split, lines)}
            told = {name.split(".")[1]: at for name, at in said.items() if name.startswith("maps.") and name.endswith(".at")}
            with self.subTest(architecture=architecture):
                self.assertGreater(len(told), 3)
                self.assertEqual({name: compiled.get(name) for name in told}, told)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
