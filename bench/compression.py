#!/usr/bin/env python3
"""Gradients in fewer bytes (ebb-train --compress): at which link speed that pays, by the software device's computed clock, and what it does to the loss.

    python3 bench/compression.py --build build --text FILE >bench/results/compression.txt

A step as in scaling.py, of which this is part; the losses are of a small model that is really trained, on that text.
"""
import argparse
import datetime
import json
import os
import subprocess
import tempfile

import scaling

WAYS = {"none": [], "powersgd, rank 4": ["--compress", "powersgd"], "powersgd, rank 16": ["--compress", "powersgd", "--compress-rank", "16"],
        "top 1%": ["--compress", "top"], "top 0.1%": ["--compress", "top", "--compress-share", "0.001"]}
SMALL = ["--layers", "4", "--width", "128", "--heads", "4", "--context", "64", "--batch", "8", "--sample", "0"]


def print_speeds(o):
    print(f"{o.model} on {o.gpus} GPUs, {o.gpu}, ms a step (and of the time without compression), by link (numbers: Gbit/s for each GPU)")
    links = o.links.split(",")
    print(f"{'':18}" + "".join(f"{link:>18}" for link in links))
    whole = {}
    for way, options in WAYS.items():
        row = f"{way:18}"
        for link in links:
            ms, _ = scaling.run(o, o.model, o.gpus, link, *options)
            whole.setdefault(link, ms)
            row += f"{f'{ms:.1f} ({ms / whole[link]:.0%})':>18}"
        print(row, flush=True)


def print_losses(o):
    print(f"loss of a training on 2 GPUs: ebb-train {' '.join(SMALL)}, {o.steps} steps; each the mean of a tenth of them")
    for way, options in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(o.build, "softgpu/lib"), SOFTGPU_DEVICES="2")
            subprocess.run([os.path.join(o.build, "bin/ebb-train"), "--data", o.text, *SMALL, "--steps", str(o.steps), "--gpus", "2", "--log", log, *options],
                           env=env, check=True, stdout=subprocess.DEVNULL)
            with open(log, encoding="utf-8") as f:
                rows = [json.loads(line) for line in f]
        losses = [row["loss"] for row in rows if row["kind"] == "step"]
        part = len(losses) // 10
        held_out = [row["held_out_loss"] for row in rows if row["kind"] == "final"]
        print(f"{way:18}" + "".join(f"{sum(losses[i * part:(i + 1) * part]) / part:8.4f}" for i in range(10)) +
              "".join(f"   held out {loss:.4f}" for loss in held_out), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--gpu", default="H100")
    parser.add_argument("--model", default="gpt2:124M")
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--links", default="nvlink,pcie,400,100,10,1")
    parser.add_argument("--text", required=True)
    parser.add_argument("--steps", type=int, default=300)
    o = parser.parse_args()
    print(f"python3 bench/compression.py --gpu {o.gpu} --model {o.model} --gpus {o.gpus} --links {o.links} --steps {o.steps}: {datetime.date.today()}")
    print_speeds(o)
    print_losses(o)


if __name__ == "__main__":
    main()
