#!/usr/bin/env python3
"""A small GPT, trained by loops as people write them; none knows of ebb (run.sh -- --model pattern-NAME). Several patterns at once: NAME+NAME. Prints
one JSON object (result.py), with the losses that it keeps, or the last one, and a hash of these, of what it reads, of the weights and of what optimizers keep."""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from result import state_of, tell
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
    "item": "each loss is read at once",
    "prefetch": "the next batch is copied on another stream, as data prefetchers do",
    "last": "every eighth batch is smaller",
    "foreach": "Adam as it is by default",
    "zeros": "gradients are zeroed, not given back",
    "begin": "this is done at the beginning of a step",
    "dropout": "dropout behind each block",
    "teacher": "another model, without gradients, whose outputs are learned",
    "sam": "two forward and backward passes for each update, the second at other weights (SAM)",
    "gan": "two models with an optimizer each, in turns",
    "penalty": "the gradient's norm is part of the loss",
    "log": "the weights' norms are read every 10 steps",
    "reload": "the state is saved to the host every 20 steps",
}
BATCHES = 64


class Block(nn.Module):
    def __init__(self, o, dropout):
        super().__init__()
        self.heads, self.dropout = o.heads, nn.Dropout(dropout)
        self.norm1, self.norm2 = nn.LayerNorm(o.width), nn.LayerNorm(o.width)
        self.qkv, self.out = nn.Linear(o.width, 3 * o.width), nn.Linear(o.width, o.width)
        self.mlp = nn.Sequential(nn.Linear(o.width, 4 * o.width), nn.GELU(), nn.Linear(4 * o.width, o.width))

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.dropout(self.mlp(self.norm2(x)))


class Model(nn.Module):
    def __init__(self, o, saves=False, dropout=0.0):
        super().__init__()
        self.saves = saves
        self.embedding, self.head = nn.Embedding(o.vocab, o.width), nn.Linear(o.width, o.vocab)
        self.blocks = nn.ModuleList(Block(o, dropout) for _ in range(o.layers))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.saves else block(x)
        return self.head(x)


def train(patterns, o):
    model = Model(o, "checkpoint" in patterns, 0.1 if "dropout" in patterns else 0.0).cuda()
    other = copy.deepcopy(model) if patterns & {"ema", "teacher", "gan"} else None
    optimizer = torch.optim.AdamW(model.parameters(), fused="foreach" not in patterns)
    second = torch.optim.AdamW(other.parameters(), fused=True) if "gan" in patterns else None
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    scaler = torch.amp.GradScaler("cuda", enabled="scaler" in patterns)
    host = torch.randint(o.vocab, (BATCHES, o.batch, o.context + 1)).pin_memory()
    data = host.cuda()
    losses, running, read, evaluated = [], torch.zeros((), device="cuda"), [], []
    beside, ahead = torch.cuda.Stream(), None

    def batch(number):
        nonlocal ahead
        if "prefetch" in patterns:
            torch.cuda.current_stream().wait_stream(beside)
            now = host[number % BATCHES].cuda() if ahead is None else ahead
            now.record_stream(torch.cuda.current_stream())
            with torch.cuda.stream(beside):
                ahead = host[(number + 1) % BATCHES].cuda(non_blocking=True)
            return now
        if "last" in patterns:
            return data[number % BATCHES][: o.batch // 2 if number % 8 == 7 else o.batch]
        if "loader" in patterns:
            return host[number % BATCHES].cuda(non_blocking=True)
        if "gather" in patterns:
            return data[torch.randint(BATCHES, (1,), device="cuda")][0]
        return data[number % BATCHES]

    def loss_of(tokens, model=model):
        with torch.autocast("cuda", torch.float16 if "scaler" in patterns else torch.bfloat16):
            logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        if "teacher" in patterns:
            with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
                wanted = other(tokens[:, :-1])
            loss = loss + F.kl_div(logits.float().log_softmax(-1), wanted.float().softmax(-1), reduction="batchmean")
        if "penalty" in patterns:
            slopes = torch.autograd.grad(loss, model.head.weight, create_graph=True)[0]
            loss = loss + slopes.square().sum()
        return loss

    micro = 4 if "accumulate" in patterns else 1
    for step in range(o.steps):
        if "begin" in patterns:
            optimizer.zero_grad("zeros" not in patterns)
        for number in range(micro):
            loss = loss_of(batch(micro * step + number)) / micro
            scaler.scale(loss).backward()
        if "sam" in patterns:
            up = [weight.grad * 0.05 for weight in model.parameters()]
            with torch.no_grad():
                torch._foreach_add_(list(model.parameters()), up)
            optimizer.zero_grad()
            loss_of(batch(step)).backward()
            with torch.no_grad():
                torch._foreach_sub_(list(model.parameters()), up)
            del up
        if "clip" in patterns:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if "begin" not in patterns:
            optimizer.zero_grad("zeros" not in patterns)
        if "gan" in patterns:
            loss_of(batch(step), other).backward()
            second.step()
            second.zero_grad()
        if "clip" in patterns:
            schedule.step()
        if "item" in patterns:
            read.append(loss.item())
        if "log" in patterns and step % 10 == 9:
            read += [weight.norm().item() for weight in model.parameters()]
        if "reload" in patterns and step % 20 == 19:
            saved = {name: value.cpu() for name, value in model.state_dict().items()}
            model.load_state_dict(saved)
        if "losses" in patterns:
            losses.append(loss.detach())
        if "metric" in patterns:
            running = running * 0.9 + loss.detach() * 0.1
        if "ema" in patterns:
            with torch.no_grad():
                torch._foreach_lerp_(list(other.parameters()), list(model.parameters()), 0.01)
        if "evaluate" in patterns and step % 10 == 9:
            with torch.no_grad():
                evaluated.append(sum(loss_of(data[number]).item() for number in range(3)))
    models, optimizers = (model, other) if other else (model,), (optimizer, second) if second else (optimizer,)
    weights = [weight for each in models for weight in each.parameters()]
    tell(o.model, [loss.item() for loss in losses] or [loss.item()], [*weights, *state_of(*optimizers), running], o, read=read, evaluated=evaluated)


parser = argparse.ArgumentParser(description=__doc__)
for name, value in {"steps": 60, "layers": 4, "width": 256, "heads": 4, "context": 256, "batch": 16, "vocab": 2048, "warmup": 0, "seed": 1}.items():
    parser.add_argument(f"--{name}", type=int, default=value)
parser.add_argument("--model", required=True)
parser.add_argument("--precision", choices=["bf16"], default="bf16")
parser.add_argument("--device", choices=["cuda"], default="cuda")
options = parser.parse_args()
patterns = set(options.model.removeprefix("pattern-").split("+"))
if unknown := patterns - set(PATTERNS):
    parser.error(f"no pattern {', '.join(unknown)}; there are {', '.join(PATTERNS)}")
torch.manual_seed(options.seed)
train(patterns, options)
