#!/usr/bin/env python3
"""Training on 1 to 64 GPUs, by the software device's computed clock: tokens per second against the ideal, and memory, of each --zero.

    python3 bench/scaling.py --build build [--models gpt2:1558M,llama:7B] [--worlds 1,8] >bench/results/scaling.txt

Rank 0 of N runs by itself, dry (SOFTGPU_DRY=1: nothing is computed, nothing moves, nobody is waited for): a step takes what its kernels, and its
collectives on a ring over the link, are declared to cost. That ranks come late is not in it. Ideal are N times the tokens of one GPU.

Up to 8 GPUs are joined by NVLink. More are joined by a network, at so many Gbit/s for each GPU; then all of the ring is taken to be as slow. NCCL
does better (trees, a ring for each network card): these rows are a lower bound.
"""
import argparse
import datetime
import json
import os
import socket
import struct
import subprocess
import tempfile
import time

# What large models need beside the defaults.
MODELS = {"gpt2:1558M": ["--batch", "4"], "llama:7B": ["--batch", "1", "--save", "lean"]}
STEPS = 4
WORLDS = [(1, "nvlink"), (2, "nvlink"), (4, "nvlink"), (8, "nvlink"), (16, "400"), (32, "400"), (64, "400"), (64, "100")]


def come(port, ranks):
    """The other ranks, as far as rank 0 waits for them (model/ranks/meet.c)."""
    for rank in range(1, ranks):
        for _ in range(600):
            try:
                with socket.create_connection(("127.0.0.1", port)) as s:
                    s.sendall(b"ebb-train rank".ljust(16, b"\0") + struct.pack("<II", ranks, rank))
                    if s.recv(128, socket.MSG_WAITALL):
                        break
            except OSError:
                time.sleep(0.1)


def steps_of(log):
    try:
        with open(log, encoding="utf-8") as f:
            return [json.loads(line) for line in f if '"kind": "step"' in line and line.endswith("\n")]
    except OSError:
        return []


def trainer(o, model):
    return [os.path.join(o.build, "bin/ebb-train"), "--model", model, *MODELS.get(model, []), "--dtype", "bf16"]


def run(o, model, ranks, link, *options):
    """The last step: how long it takes on the device (ms), and what rank 0 needs (bytes). The program is ended there: what comes at its end needs contents."""
    with tempfile.TemporaryDirectory() as folder:
        log, data = os.path.join(folder, "log"), os.path.join(folder, "text")
        with open(data, "w", encoding="ascii") as f:
            f.write("the sea ebbs and flows " * 50000)
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(o.build, "softgpu/lib"), SOFTGPU_DRY="1", SOFTGPU_SCHEDULER="deterministic",
                   SOFTGPU_PROFILE=o.gpu, SOFTGPU_MEMORY="512GiB", SOFTGPU_LOG="0")
        if ranks > 1:
            env.update(WORLD_SIZE=str(ranks), RANK="0", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        if link != "nvlink":
            env["SOFTGPU_NCCL_LINK"] = link
        command = [*trainer(o, model), "--data", data, "--steps", "1000", "--sample", "0", "--log", log, *options]
        with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as p:
            if ranks > 1:
                come(port, ranks)
            while p.poll() is None and len(steps_of(log)) < STEPS:
                time.sleep(0.1)
            steps = steps_of(log)
            p.kill()
    assert len(steps) >= STEPS, f"{model} on {ranks} GPUs: the training ended by itself"
    return steps[STEPS - 1]["device_ms"], steps[STEPS - 1]["peak_bytes"]


def tokens_of(o, model):
    """Of a micro-batch."""
    out = subprocess.run([*trainer(o, model), "--data", "none", "--dry-run", "--log", "/dev/stderr"],
                         env=dict(os.environ, LD_LIBRARY_PATH=os.path.join(o.build, "softgpu/lib")), capture_output=True, text=True, check=True)
    return json.loads(out.stderr.splitlines()[-1])["tokens_per_step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--gpu", default="H100")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--worlds", default="1,2,4,8,16,32,64", help="numbers of GPUs, of which 1 is what the others are compared with")
    o = parser.parse_args()
    print(f"python3 bench/scaling.py --gpu {o.gpu} --models {o.models} --worlds {o.worlds}: {datetime.date.today()}, computed clock of {o.gpu}")
    for model in o.models.split(","):
        tokens, alone = tokens_of(o, model), None
        for ranks, link in [w for w in WORLDS if str(w[0]) in o.worlds.split(",")]:
            for zero in range(4 if ranks > 1 else 1):
                ms, peak = run(o, model, ranks, link, "--zero", str(zero))
                alone = alone or ms
                print(f"{model:12} {ranks:3} GPUs {link if ranks > 1 else '':7} --zero {zero}  {ms:9.2f} ms  {ranks * tokens / ms * 1e3:9.0f} tokens/s  "
                      f"{alone / ms:7.2%} of ideal  {peak / 2**30:6.2f} GiB each", flush=True)


if __name__ == "__main__":
    main()
