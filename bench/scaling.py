#!/usr/bin/env python3
"""Training on 1 to 64 GPUs, by the software device's computed clock: tokens per second against the ideal, and memory, of each --zero.

    python3 bench/scaling.py --build build [--models gpt2:1558M,llama:7B] [--worlds 1,8] [--output bench/results/scaling.json]

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

# Tokens in a micro-batch, and what they need beside the defaults.
MODELS = {
    "gpt2:1558M": ["--model", "gpt2:1558M", "--batch", "4"],
    "llama:7B": ["--model", "llama:7B", "--batch", "1", "--save", "lean"],
}
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


def run(o, model, ranks, link, zero):
    """The last step: how long it takes on the device, and what rank 0 needs. The program is ended there: what comes at its end needs contents."""
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
        command = [os.path.join(o.build, "bin/ebb-train"), "--data", data, *MODELS[model], "--dtype", "bf16", "--steps", "1000", "--sample", "0",
                   "--log", log, "--zero", str(zero)]
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
    out = subprocess.run([os.path.join(o.build, "bin/ebb-train"), "--data", "none", *MODELS[model], "--dtype", "bf16", "--dry-run", "--log", "/dev/stderr"],
                         env=dict(os.environ, LD_LIBRARY_PATH=os.path.join(o.build, "softgpu/lib")), capture_output=True, text=True, check=True)
    return json.loads(out.stderr.splitlines()[-1])["tokens_per_step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--gpu", default="H100")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--worlds", default="1,2,4,8,16,32,64", help="numbers of GPUs, of which 1 is what the others are compared with")
    parser.add_argument("--output")
    o = parser.parse_args()
    rows = []
    for model in o.models.split(","):
        tokens, alone = tokens_of(o, model), None
        for ranks, link in [w for w in WORLDS if str(w[0]) in o.worlds.split(",")]:
            for zero in range(4 if ranks > 1 else 1):
                ms, peak = run(o, model, ranks, link, zero)
                alone = alone or ms
                rows.append({"model": model, "gpus": ranks, "link": "" if ranks == 1 else link, "zero": zero, "ms": round(ms, 3),
                             "tokens_per_s": round(ranks * tokens / ms * 1e3), "of_ideal": round(alone / ms, 4), "peak_gib": round(peak / 2**30, 2)})
                print("{model:12} {gpus:3} GPUs {link:7} --zero {zero}  {ms:9.2f} ms  {tokens_per_s:9} tokens/s  {of_ideal:7.2%} of ideal  "
                      "{peak_gib:6.2f} GiB each".format(**rows[-1]), flush=True)
    if o.output:
        with open(o.output, "w", encoding="utf-8") as f:
            json.dump({"command": f"python3 bench/scaling.py --gpu {o.gpu} --models {o.models} --worlds {o.worlds}", "date": datetime.date.today().isoformat(),
                       "clock": f"computed, {o.gpu}", "rows": rows}, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
