"""test_ranks_benches.py BENCH BUILD: bench/scaling.py and bench/compression.py on a model that is small enough, so that their rows are as they say."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

MODEL = "gpt2:124M"


def table(script, *options):
    return subprocess.run([sys.executable, "-B", os.path.join(BENCH, script), "--build", BUILD, *options], check=True, capture_output=True,
                          text=True).stdout.splitlines()


class Benches(unittest.TestCase):
    def test_scaling(self):
        """Shards take less memory on each GPU than all of the state does; less time, as fewer weights are updated; and ebb costs something."""
        row = re.compile(r"gpt2:124M +(\d) GPUs (?:nvlink)? +--zero (\d) +([\d.]+) ms +(\d+) tokens/s +([\d.]+)% of ideal +([\d.]+) GiB each  ebb \+([\d.]+)%")
        lines = table("scaling.py", "--models", MODEL, "--worlds", "1,2", "--zeros", "0,1", "--budget", "50")[1:]
        rows = [row.fullmatch(line) for line in lines]
        self.assertTrue(all(rows), lines)
        self.assertEqual([r.group(1, 2) for r in rows], [("1", "0"), ("2", "0"), ("2", "1")])
        alone, whole, shards = ([float(x) for x in r.group(3, 4, 5, 6, 7)] for r in rows)
        self.assertEqual(alone[2], 100)
        self.assertLess(shards[3], whole[3])
        self.assertLess(shards[0], whole[0])
        self.assertGreater(whole[0], alone[0])
        for gpus, (ms, tokens, ideal, _, more) in zip((1, 2, 2), (alone, whole, shards)):
            self.assertAlmostEqual(tokens * ms / gpus / (alone[0] * alone[1]), 1, delta=0.01)
            self.assertAlmostEqual(ideal, 100 * alone[0] / ms, delta=0.1)
            self.assertTrue(0 < more < 60)

    def test_compression(self):
        """What is compressed is in time on a slow link, and its losses are losses."""
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write(" ".join(str(i) for i in range(20000)))
            f.flush()
            lines = table("compression.py", "--model", MODEL, "--gpus", "2", "--links", "nvlink,1", "--steps", "20", "--text", f.name)
        ways = ["none", "powersgd, rank 4", "powersgd, rank 16", "top 1%", "top 0.1%"]
        speeds = [re.search(r"([\d.]+) \((\d+)%\) +([\d.]+) \((\d+)%\)$", line) for line in lines if "%)" in line]
        self.assertEqual(len(speeds), len(ways))
        self.assertEqual(speeds[0].group(2, 4), ("100", "100"))
        for way in speeds[1:]:
            self.assertLess(int(way.group(4)), 50)
        losses = [line for line in lines if "held out" in line]
        self.assertEqual([line[:18].rstrip() for line in losses], ways)
        for line in losses:
            self.assertTrue(all(1 < float(x) < 7 for x in re.findall(r"\d+\.\d{4}", line)))


if __name__ == "__main__":
    BENCH, BUILD = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
