#!/usr/bin/env python3
"""Training on 1 to 64 GPUs, by the software device's computed clock: tokens per second against the ideal, and memory, of each --zero; and what ebb
takes for less memory.

    python3 bench/scaling.py --build build [--models gpt2:1558M,llama:7B] [--worlds 1,8] [--zeros 0,1] [--budget 50] >bench/results/scaling.txt

Rank 0 of N runs by itself, dry (SOFTGPU_DRY=1: nothing is computed, nothing moves, nobody is waited for): a step takes what its kernels, and its
collectives on a ring over the link, are declared to cost. That ranks come late is not in it. Ideal are N times the tokens of one GPU.

Up to 8 GPUs are joined by NVLink. More are joined by a network, at so many Gbit/s for each GPU; then all of the ring is taken to be as slow. NCCL
does better (trees, a ring for each network card): these rows are a lower bound.

--budget PERCENT: under ebb, with the state and so much of the activation peak. The step is recorded in that dry run; what operations write, of which nothing
is seen there, and which may be made again, is learned of a small model on one GPU or two (merge_traces.py). Then it is planned, proven and
simulated (bench_overhead.c). Driven steps do not overlap: where weights are gathered while the next step has begun, that is lost, and in the figure.
"""
import argparse
import datetime
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

# What large models need beside the defaults. GPT-2 1558M on H100s: as llm.c trains it (scripts/run_gpt2_1558M.sh: -b 16 -t 1024).
MODELS = {"gpt2:1558M": ["--batch", "16"], "llama:7B": ["--batch", "1", "--save", "lean"]}
# What is learned of a small one: flags of one GPU, and those of two, where each has half of the batch.
SMALL = {"gpt2": ["--layers", "4", "--width", "128", "--heads", "2", "--context", "256", "--vocab", "16384", "--batch"],
         "llama": ["--layers", "3", "--width", "256", "--heads", "2", "--kv-heads", "2", "--context", "512", "--hidden", "768", "--vocab", "16384", "--batch"]}
SMALL_BATCH = {"gpt2": (18, 9), "llama": (8, 4)}
RATES = {"A100": ("26", "2039"), "H100": ("55", "3350"), "RTX4090": ("26", "1008")}  # link and memory, GB/s (softgpu/driver/scheduler/profile.c)
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


def is_whole(trace):
    """Whether it is there to its last line."""
    try:
        with open(trace, encoding="utf-8") as f:
            head = json.loads(f.readline())
            return sum(1 for line in f if line.endswith("\n")) == head["operations"] + head["buffers"] + head["moments"]
    except (OSError, ValueError):
        return False


def trainer(o, model):
    return [os.path.join(o.build, "bin/ebb-train"), "--model", model, *MODELS.get(model, []), "--dtype", "bf16"]


def clock_of(o, **more):
    return dict(os.environ, LD_LIBRARY_PATH=os.path.join(o.build, "softgpu/lib"), SOFTGPU_SCHEDULER="deterministic", SOFTGPU_PROFILE=o.gpu,
                SOFTGPU_MEMORY="512GiB", SOFTGPU_LOG="0", **more)


def under_ebb(o, trace, **more):
    """It writes the trace of a step."""
    # Of one architecture, so that kernels have the same arguments in all traces.
    return {"LD_PRELOAD": os.path.join(o.build, "lib/libebb.so"), "EBB_TRACE": str(trace), "EBB_LOG": "quiet", "SOFTGPU_ARCH": "80", **more}


def run(o, model, ranks, link, *options, trace=None):
    """The last step: how long it takes on the device (ms), and what rank 0 needs (bytes). The program is ended there: what comes at its end needs contents."""
    with tempfile.TemporaryDirectory() as folder:
        log, data = os.path.join(folder, "log"), os.path.join(folder, "text")
        with open(data, "w", encoding="ascii") as f:
            f.write("the sea ebbs and flows " * 50000)
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        env = clock_of(o, SOFTGPU_DRY="1", **(under_ebb(o, trace) if trace else {}))
        if ranks > 1:
            env.update(WORLD_SIZE=str(ranks), RANK="0", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        if link != "nvlink":
            env["SOFTGPU_NCCL_LINK"] = link
        command = [*trainer(o, model), "--data", data, "--steps", "1000", "--sample", "0", "--log", log, *options]
        with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as p:
            if ranks > 1:
                come(port, ranks)
            while p.poll() is None and (len(steps_of(log)) < STEPS or trace and not is_whole(trace)):
                time.sleep(0.1)
            steps = steps_of(log)
            p.kill()
    assert len(steps) >= STEPS, f"{model} on {ranks} GPUs: the training ended by itself"
    return steps[STEPS - 1]["device_ms"], steps[STEPS - 1]["peak_bytes"]


def facts_of(o, folder, model, several, zero):
    """The trace of a small model's step, in which everything is proven."""
    family = model.split(":", maxsplit=1)[0]
    path = os.path.join(folder, f"{family}-{several}-{zero}")
    if not os.path.exists(path + "-0"):
        with open(os.path.join(folder, "text"), "w", encoding="ascii") as f:
            f.write(" ".join(str(i) for i in range(60000)))
        subprocess.run([*trainer(o, model), "--data", f.name, *SMALL[family], str(SMALL_BATCH[family][several]), "--steps", "16", "--sample", "0",
                        "--eval-batches", "1", "--zero", str(zero), *(["--gpus", "2"] if several else [])], check=True, stdout=subprocess.DEVNULL,
                       env=clock_of(o, SOFTGPU_DEVICES="2", **under_ebb(o, path + "-%r", EBB_POLICY="uniform:1")))
    return path + "-0"


def planned_ms(o, folder, model, ranks, link, zero):
    """What a step under ebb takes; None: there is no plan."""
    recorded, merged = (os.path.join(folder, name) for name in ("recorded", "merged"))
    if os.path.exists(recorded):
        os.remove(recorded)
    run(o, model, ranks, link, "--zero", str(zero), trace=recorded)
    subprocess.run([sys.executable, "-B", os.path.join(os.path.dirname(os.path.abspath(__file__)), "merge_traces.py"), recorded,
                    facts_of(o, folder, model, ranks > 1, zero), "-o", merged], check=True)
    planned = subprocess.run([os.path.join(o.build, "bin/bench_overhead"), merged, *RATES[o.gpu], o.budget], check=True, capture_output=True, text=True,
                             env=dict(os.environ, BENCH_POLICY="auto", LD_LIBRARY_PATH=os.path.join(o.build, "softgpu/lib")))
    ns = json.loads(planned.stdout)["budgets"][0]["plans"][0].get("step_ns")
    return ns and ns / 1e6


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
    parser.add_argument("--zeros", default="0,1,2,3")
    parser.add_argument("--budget", help="percent of the activation peak")
    o = parser.parse_args()
    if o.budget and o.gpu not in RATES:
        parser.error(f"--budget knows {', '.join(RATES)}")
    o.build = os.path.abspath(o.build)
    print(f"python3 bench/scaling.py {' '.join(sys.argv[1:])}: {datetime.date.today()}, computed clock of {o.gpu}")
    with tempfile.TemporaryDirectory() as folder:
        rows(o, folder)


def rows(o, folder):
    for model in o.models.split(","):
        tokens, alone = tokens_of(o, model), None
        for ranks, link in [w for w in WORLDS if str(w[0]) in o.worlds.split(",")]:
            for zero in [int(z) for z in o.zeros.split(",")] if ranks > 1 else [0]:
                ms, peak = run(o, model, ranks, link, "--zero", str(zero))
                alone = alone or ms
                planned = planned_ms(o, folder, model, ranks, link, zero) if o.budget else None
                print(f"{model:12} {ranks:3} GPUs {link if ranks > 1 else '':7} --zero {zero}  {ms:9.2f} ms  {ranks * tokens / ms * 1e3:9.0f} tokens/s  "
                      f"{alone / ms:7.2%} of ideal  {peak / 2**30:6.2f} GiB each{f'  ebb {planned / ms - 1:+.2%}' if planned else ''}", flush=True)


if __name__ == "__main__":
    main()
