#!/usr/bin/env python3
"""A small GPT, trained by loops as people write them, each with one pattern of its own; none knows of ebb (run.sh -- --model pattern-NAME). Prints one
JSON object with PyTorch's peak."""

import argparse
import copy
import json

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

PATTERNS = {
    "window": "a batch is a part of data on the device",
    "loader": "it is copied from pinned memory",
    "gather": "it is gathered by an index on the device",
    "clip": "gradients are clipped, and the rate follows a schedule",
    "accumulate": "four batches for each update",
    "losses": "losses are kept in a list",
    "metric": "a running mean of them on the device",
    "ema": "a moving average of the weights",
    "evaluate": "three batches without gradients after every tenth step",
    "checkpoint": "blocks by torch.utils.checkpoint",
    "scaler": "fp16 with a GradScaler",
}
WIDTH, HEADS, LAYERS, CONTEXT, BATCH, VOCABULARY, BATCHES = 256, 4, 4, 256, 16, 2048, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, saves):
        super().__init__()
        self.saves = saves
        self.embedding, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.saves else block(x)
        return self.head(x)


def train(pattern, steps):
    model = Model(pattern == "checkpoint").cuda()
    average = copy.deepcopy(model) if pattern == "ema" else None
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    scaler = torch.amp.GradScaler("cuda", enabled=pattern == "scaler")
    host = torch.randint(VOCABULARY, (BATCHES, BATCH, CONTEXT + 1)).pin_memory()
    data = host.cuda()
    losses, running = [], torch.zeros((), device="cuda")

    def batch(number):
        if pattern == "loader":
            return host[number % BATCHES].cuda(non_blocking=True)
        if pattern == "gather":
            return data[torch.randint(BATCHES, (1,), device="cuda")][0]
        return data[number % BATCHES]

    def loss_of(tokens):
        with torch.autocast("cuda", torch.float16 if pattern == "scaler" else torch.bfloat16):
            logits = model(tokens[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())

    micro = 4 if pattern == "accumulate" else 1
    for step in range(steps):
        for number in range(micro):
            loss = loss_of(batch(micro * step + number)) / micro
            scaler.scale(loss).backward()
        if pattern == "clip":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if pattern == "clip":
            schedule.step()
        if pattern == "losses":
            losses.append(loss.detach())
        if pattern == "metric":
            running = running * 0.9 + loss.detach() * 0.1
        if pattern == "ema":
            with torch.no_grad():
                torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.01)
        if pattern == "evaluate" and step % 10 == 9:
            with torch.no_grad():
                sum(loss_of(data[number]).item() for number in range(3))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", choices=[f"pattern-{name}" for name in PATTERNS], required=True)
parser.add_argument("--steps", type=int, default=60)
options = parser.parse_args()
train(options.model.removeprefix("pattern-"), options.steps)
print(json.dumps({"model": options.model, "steps": options.steps, "torch_peak_bytes": torch.cuda.max_memory_allocated()}))
