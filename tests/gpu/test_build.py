#!/usr/bin/env python3
"""Of build.sh, with a cmake, an ldd and libraries that are none: what is built, what stays of earlier builds, where libraries are found."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] not in "ZX"
    except OSError:
        return False


class Building(unittest.TestCase):
    """build.sh with a cmake that is none."""

    def build(self, cmake, limit=20):
        folder = pathlib.Path(tempfile.mkdtemp())
        (folder / "cmake").write_text("#!/bin/bash\n" + cmake)
        (folder / "cmake").chmod(0o755)
        began = time.monotonic()
        result = subprocess.run(["bash", "-uc", f"root=/nowhere; source {HERE}/build.sh; gpu_build {folder}/b 90 costs {limit}"],
                                env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}, check=False)
        return result.returncode, (folder / "b.log").read_text(), time.monotonic() - began

    def test_a_target_that_fails_stops_no_other(self):
        rc, log, _ = self.build('echo "$@"; [[ $1 != --build ]] || exit 5\n')
        self.assertEqual(rc, 5)
        self.assertRegex(log, r"--target ebb ebb-cli ebb-train gpu_costs -- -k")

    def test_without_configuration_nothing_is_built(self):
        rc, log, _ = self.build('echo "$1"; exit 3\n')
        self.assertEqual((rc, log), (3, "-S\n"))

    def test_programs_of_other_sources_go_when_a_build_fails(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        root, bin_folder = folder / "root", folder / "b/bin"
        (root / "alloc").mkdir(parents=True)
        bin_folder.mkdir(parents=True)
        (folder / "cmake").write_text(f"#!/bin/bash\n[[ $1 != --build ]] || {{ echo >{bin_folder}/new; exit $STATUS; }}\n")
        (folder / "cmake").chmod(0o755)

        def build(source, status):
            if not (root / "alloc/a.c").exists() or (root / "alloc/a.c").read_text() != source:
                (root / "alloc/a.c").write_text(source)
            time.sleep(0.05)
            subprocess.run(["bash", "-uc", f"root={root}; source {HERE}/build.sh; gpu_build {folder}/b 90 costs"], check=False,
                           env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "STATUS": str(status)})
            return sorted(p.name for p in bin_folder.iterdir())

        (bin_folder / "old").touch()
        time.sleep(0.05)
        self.assertEqual(build("1", 0), ["new", "old"])
        self.assertEqual(build("1", 1), ["new", "old"])  # the same sources: nothing is stale
        self.assertEqual(build("22", 1), ["new"])
        (bin_folder / "other").touch()
        self.assertEqual(build("22", 1), ["new", "other"])

    def test_libraries_are_found_and_cudas_lie_apart(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        for path in ("b/bin", "b/lib/more", "b/conformance", "cuda/lib64"):
            (folder / path).mkdir(parents=True)
        for path in ("cuda/lib64/libcublas.so.13", "cuda/lib64/libcudart.so.13", "b/lib/more/libcjson.so.1"):
            (folder / path).touch()
        (folder / "b/bin/program").touch(0o755)
        (folder / "ldd").write_text(f"#!/bin/sh\nprintf '\\t%s\\n' 'libcjson.so.1 => not found' 'libcublas.so.13 => not found' "
                                    f"'libcudart.so.13 => {folder}/b/softgpu/lib/libcudart.so.13 (0x7f)' 'libcuda.so.1 => not found' "
                                    "'libnone.so.9 => not found' 'libc.so.6 => /lib/libc.so.6 (0x7f)'\n")
        (folder / "ldd").chmod(0o755)
        result = subprocess.run(["bash", "-uc", f"source {HERE}/build.sh; find_libraries {folder}/b {sys.executable}"], capture_output=True, text=True,
                                env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "CUDA_HOME": str(folder / "cuda")}, check=False)
        self.assertEqual((result.returncode, result.stdout.split(":")[0]), (1, "no libnone.so.9"))
        found = sorted(str(p.relative_to(folder / "b/found")) for p in (folder / "b/found").rglob("*.so*"))
        self.assertEqual(found, ["cuda/libcublas.so.13", "cuda/libcudart.so.13", "libcjson.so.1"])

    def test_its_time_is_limited_with_all_that_it_started(self):
        rc, log, seconds = self.build('sleep 61 & echo $!; wait\n', 1)
        self.assertEqual(rc, 124)
        self.assertLess(seconds, 10)
        until = time.monotonic() + 10
        while alive(log.split()[0]) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertFalse(alive(log.split()[0]))


if __name__ == "__main__":
    unittest.main()
