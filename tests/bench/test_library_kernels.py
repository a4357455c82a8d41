"""test_library_kernels.py PROGRAM FOLDER: what NVIDIA's libraries in FOLDER say of their kernels, read as files (bench/library_kernels.c). All that
ebb assumes of kernels' parameters is asked of each kernel that is there; 77 where none of the libraries is."""

import json
import pathlib
import subprocess
import sys
import unittest

PROGRAM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
LIBRARIES = [FOLDER / name for name in ("libcublas.so.13", "libcublasLt.so.13", "libnccl.so.2")] + sorted(FOLDER.glob("libcudnn_*.so.9"))
# What the parameters' place in the constant bank leaves of the multiples of 64 there, seen from the first parameter: 0x160, 0x210, 0x380.
FIRST_ALIGNED = {75: 32, 80: 32, 86: 32, 89: 32, 90: 48, 100: 0, 103: 0, 110: 0, 120: 0, 121: 0}


def run(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=True).stdout


class Libraries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.there = [path for path in LIBRARIES if path.exists()]
        cls.read = json.loads(run(*cls.there))["libraries"]

    def all_counts(self):
        for name, library in self.read.items():
            for architecture, counts in library["architectures"].items():
                yield f"{name}, sm_{architecture}", int(architecture), counts

    def test_every_kernel_is_read_and_every_image_judged(self):
        self.assertEqual([name for name, library in self.read.items() if library["unread"] or library["fat_binaries"]["unknown"]], [])
        kernels = 0
        for where, _, counts in self.all_counts():
            self.assertEqual(counts["unread"], 0, where)
            kernels += counts["kernels"]
        self.assertGreater(kernels, 1000)

    def test_each_kernel_has_one_reason_or_none(self):
        for where, _, counts in self.all_counts():
            ends = sum(counts[end] for end in ("variables", "too_large", "no_parameters", "may_repeat"))
            self.assertEqual(ends, counts["kernels"], where)

    def test_first_parameters_lie_at_the_bank_s_alignment(self):
        """At 0, or where the bank's address is a multiple of 64 or 128: nowhere else."""
        for where, architecture, counts in self.all_counts():
            if architecture in FIRST_ALIGNED:
                places = {0, FIRST_ALIGNED[architecture], FIRST_ALIGNED[architecture] + 64}
                self.assertLessEqual({int(place) for place in counts["first"]}, places, where)

    def test_kernels_of_sm_90_have_aligned_structures_that_steps_of_64_miss(self):
        """A structure aligned to 64 that comes first lies at 48. Whatever may hold a tensor map there lies off the multiples of 64."""
        for name in ("libcublasLt.so.13", "libcudnn_engines_precompiled.so.9"):
            if name in self.read:
                counts = self.read[name]["architectures"]["90"]
                self.assertGreater(counts["first"]["48"], 100)
                self.assertGreaterEqual(counts["may_hold_maps"], counts["first"]["48"])
                self.assertEqual(counts["off_64"], counts["may_hold_maps"])
        for where, architecture, counts in self.all_counts():
            if FIRST_ALIGNED.get(architecture) == 0:
                self.assertEqual(counts["off_64"], 0, where)

    def test_where_variables_are(self):
        """Of cuBLAS and cuDNN ebb repeats nearly every kernel, as far as their modules' variables go; of NCCL nearly none."""
        for where, _, counts in self.all_counts():
            if "nccl" in where:
                self.assertLess(counts["may_repeat"], 0.2 * counts["kernels"], where)
            elif counts["kernels"] > 10:
                self.assertGreater(counts["may_repeat"], 0.98 * counts["kernels"], where)

    def test_a_sample_is_a_part(self):
        if FOLDER / "libcublas.so.13" not in self.there:
            self.skipTest("no cuBLAS")
        part = json.loads(run("--architecture", 90, "--one-in", 20, FOLDER / "libcublas.so.13"))["libraries"]["libcublas.so.13"]["architectures"]
        whole = self.read["libcublas.so.13"]["architectures"]["90"]
        self.assertEqual(list(part), ["90"])
        self.assertTrue(0 < part["90"]["kernels"] < whole["kernels"] / 5)


if __name__ == "__main__":
    if not any(path.exists() for path in LIBRARIES):
        print(f"none of NVIDIA's libraries in {FOLDER}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
