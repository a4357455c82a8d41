"""test_merge_traces.py MERGE: bench/merge_traces.py on steps small enough to be read: what comes from which trace, and what is refused."""
import json
import subprocess
import sys
import tempfile
import unittest

TILE = 65536


def operation(index, name, access, **more):
    return {"op": index, "kind": "kernel", "stream": 0, "thread": 0, "name": name, "nvtx": "", "grid": [4, 1, 1], "block": [32, 1, 1],
            "shared": 0, "param_bytes": 16, "at": 0, "ns": 10, "verdict": "untried", "proofs": 0, "proof_ns": 0, "proof_bytes": 0,
            "args": "", "access": access, **more}


def step(layers, bytes_each, known, **more):
    """Forward through `layers`: each reads what the one before has made. What is known of the first layer differs from what is of the others."""
    buffers = [{"buffer": i, "bytes": bytes_each, "born": i or None, "dies": None if not i else layers, "next": 0 if not i else None}
               for i in range(layers + 1)]
    facts = {"verdict": "proven", "proofs": 3, "proof_ns": 7, "proof_bytes": 9}
    operations = []
    for i in range(layers):
        access = [[i, 0, 0, 0, 0, 1], [i + 1, 0, 8, 0, bytes_each // TILE if known else 0, 2 if known else 1]]
        operations.append(operation(i, "first" if not i else "layer", access, **(facts if known else {}), **more))
    return [{"ebb_trace": 3, "chunk_bytes": 2 << 20, "tile_bytes": TILE, "operations": layers, "buffers": layers + 1, "moments": 0},
            *buffers, *operations]


class Merge(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, rows):
        path = f"{self.folder.name}/{name}"
        with open(path, "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in rows)
        return path

    def merge(self, dry, facts, times=None):
        out = f"{self.folder.name}/out"
        command = [sys.executable, MERGE, self.write("dry", dry), self.write("facts", facts), "-o", out]
        if times:
            command += ["--times", self.write("times", times)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return done, None
        with open(out) as f:
            return done, [json.loads(line) for line in f]

    def operations(self, *arguments):
        done, rows = self.merge(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [r for r in rows if "op" in r]

    def test_facts_come_from_the_small_step_and_shapes_from_the_true_one(self):
        dry = step(6, 8 * TILE, False, ns=1000)
        done, rows = self.merge(dry, step(3, 2 * TILE, True))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([r for r in rows if "buffer" in r], [r for r in dry if "buffer" in r])
        operations = [r for r in rows if "op" in r]
        self.assertEqual(len(operations), 6)
        for o in operations:
            self.assertEqual((o["verdict"], o["proofs"], o["proof_ns"], o["ns"]), ("proven", 3, 7, 1000))
            self.assertEqual([a[5] for a in o["access"]], [1, 2])
            self.assertEqual(o["access"][1][3:5], [0, 8])  # tiles of the true size

    def test_the_operation_with_most_alike_around_it_is_taken(self):
        facts = step(4, 2 * TILE, True)
        facts[-1]["proofs"] = 5  # of the last layer, which has nothing behind it
        operations = self.operations(step(6, 8 * TILE, False), facts)
        self.assertEqual([o["proofs"] for o in operations[:3]] + [operations[-1]["proofs"]], [3, 3, 3, 5])

    def test_times_come_from_the_further_gpu(self):
        operations = self.operations(step(6, 8 * TILE, False, ns=1000), step(3, 2 * TILE, True), step(2, 8 * TILE, False, ns=400))
        self.assertEqual({o["ns"] for o in operations}, {400})

    def test_the_device_is_the_one_of_the_times(self):
        dry, times = step(6, 8 * TILE, False), step(2, 8 * TILE, False)
        dry[0].update(device="A100", hardware={"out_bytes_per_ns": 26})
        times[0].update(device="H100", hardware={"out_bytes_per_ns": 55})
        _, rows = self.merge(dry, step(3, 2 * TILE, True), times)
        self.assertEqual((rows[0]["device"], rows[0]["hardware"]["out_bytes_per_ns"]), ("H100", 55))

    def test_a_split_product_has_no_proofs(self):
        facts, dry = step(3, 2 * TILE, True), step(3, 8 * TILE, False)
        facts[-1]["name"], dry[-1]["name"] = "softgpu_gemm", "softgpu_gemm_splitk"
        dry[-1]["access"] += [[0, 0, 480, 0, 0, 1], [0, 4096, 488, 0, 0, 1]]  # workspace and counters, which are updated
        last = self.operations(dry, facts)[-1]
        self.assertEqual((last["verdict"], last["proofs"]), ("untried", 0))
        self.assertEqual([a[5] for a in last["access"][2:]], [3, 3])

    def test_an_operation_without_its_like_is_refused(self):
        dry = step(4, 8 * TILE, False)
        dry[-1]["name"] = "unheard_of"
        done, _ = self.merge(dry, step(3, 2 * TILE, True))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("operation 3 has no like", done.stderr)

    def test_another_grid_has_no_time(self):
        times = step(2, 8 * TILE, False)
        times[-1]["grid"] = [5, 1, 1]
        done, _ = self.merge(step(3, 8 * TILE, False), step(3, 2 * TILE, True), times)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("has no like in", done.stderr)

    def test_what_is_no_trace_is_refused(self):
        for wrong in ([{"no": "trace"}], [{"ebb_trace": 2, "chunk_bytes": 1, "tile_bytes": 1}], []):
            done, _ = self.merge(wrong, step(3, 2 * TILE, True))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("is not a trace", done.stderr)


if __name__ == "__main__":
    MERGE = sys.argv.pop(1)
    unittest.main()
