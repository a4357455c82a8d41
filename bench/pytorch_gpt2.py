#!/usr/bin/env python3
"""The model that ebb-train trains, in eager PyTorch on the CPU: what bench/compare_pytorch.sh compares with.

GPT-2 (pre-LN, GELU by tanh, learned positions, tied head), fp32, bytes as tokens, AdamW with decay on matrices only,
gradient clipping by norm. Written as one would write it for eager mode: one addmm per linear layer, fused attention where this
PyTorch has it, and the fastest AdamW that it offers on the CPU. Prints one JSON object.
"""

import argparse
import contextlib
import json
import math
import pathlib
import re
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

FUSED_ATTENTION = hasattr(F, "scaled_dot_product_attention")


def drop(x, rate):
    return F.dropout(x, rate) if rate > 0 else x


class Attention(nn.Module):
    def __init__(self, width, heads, context, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        if not FUSED_ATTENTION:
            future = torch.ones(context, context, dtype=torch.bool).triu(1)
            self.register_buffer("future", future, persistent=False)

    def forward(self, x):  # x [B, T, C]
        B, T, C = x.shape
        q, k, v = (y.view(B, T, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(C, dim=2))  # [B, H, T, D]
        if FUSED_ATTENTION:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        else:
            scores = (q * (1.0 / math.sqrt(q.shape[-1]))) @ k.transpose(2, 3)  # [B, H, T, T]
            y = drop(scores.masked_fill_(self.future[:T, :T], -math.inf).softmax(-1), self.dropout) @ v
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, width, heads, context, dropout):
        super().__init__()
        self.dropout = dropout
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, context, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + drop(self.attention(self.norm1(x)), self.dropout)
        return x + drop(self.mlp(self.norm2(x)), self.dropout)


class GPT2(nn.Module):
    def __init__(self, layers, width, heads, context, vocab=256, dropout=0.0):
        super().__init__()
        self.dropout = dropout
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, context, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                residual = name.endswith(("proj.weight", "mlp.2.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens, targets):  # [B, T] each
        x = drop(self.wte(tokens) + self.wpe.weight[: tokens.shape[1]], self.dropout)
        logits = F.linear(self.norm(self.blocks(x)), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def adamw(model, rate):
    """AdamW as fast as this PyTorch has it on the CPU: fused, else over lists of tensors, else one by one."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() == 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    for kind in ("fused", "foreach"):
        try:
            return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), eps=1e-8, **{kind: True}), kind
        except (RuntimeError, TypeError):  # too old for this kind, or only for GPUs
            continue
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), eps=1e-8), "plain"


def built_with(pattern):
    found = re.search(pattern, torch.__config__.show())
    return found.group(1) if found else "unknown"


def loaded_blas():
    """The BLAS that this process runs with: what PyTorch was built for, and the libraries that are mapped now (none if
    it is linked in)."""
    paths = set()
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
            if re.search(r"/lib(open)?blas|/libmkl|/libblis", line):
                paths.add(line.split()[-1])
    return {"built_for": built_with(r"BLAS_INFO=(\w+)"), "loaded": sorted(paths)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="text to train on")
    for name, value in dict(layers=6, width=256, heads=8, context=256, batch=8, steps=30, warmup=5, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=1e-3)
    options = parser.parse_args()
    if options.steps <= options.warmup:
        parser.error("--steps must be more than --warmup, whose steps are not measured")
    return options


def main():
    o = parse_arguments()
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    text = torch.frombuffer(bytearray(pathlib.Path(o.data).read_bytes()), dtype=torch.uint8).long()
    if len(text) <= o.context:
        sys.exit(f"{o.data}: {len(text)} bytes are too few for --context {o.context}")
    model = GPT2(o.layers, o.width, o.heads, o.context)
    optimizer, optimizer_kind = adamw(model, o.lr)
    parameters = list(model.parameters())

    milliseconds, losses = [], []
    for _ in range(o.steps):
        begin = time.perf_counter()
        starts = torch.randint(len(text) - o.context, (o.batch,))
        chunk = torch.stack([text[s : s + o.context + 1] for s in starts.tolist()])
        loss = model(chunk[:, :-1], chunk[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
        milliseconds.append((time.perf_counter() - begin) * 1e3)

    median = statistics.median(milliseconds[o.warmup :])
    result = {
        "torch": torch.__version__,
        "capability": built_with(r"CPU capability usage: (\w+)"),
        "blas": loaded_blas(),
        "attention": "fused" if FUSED_ATTENTION else "matmul and softmax",
        "optimizer": optimizer_kind,
        "threads": torch.get_num_threads(),
        "parameters": sum(p.numel() for p in parameters),
        "shape": {k: getattr(o, k) for k in ("layers", "width", "heads", "context", "batch")},
        "steps": o.steps,
        "loss_first": losses[0],
        "loss_last": losses[-1],
        "ms_per_step": round(median, 3),
        "ms_fastest_step": round(min(milliseconds), 3),
        "tokens_per_s": round(o.batch * o.context / median * 1e3, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
