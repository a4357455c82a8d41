#!/usr/bin/env python3
"""A few dozen training steps of a model in PyTorch: an ordinary script that knows nothing of ebb (pytorch.py runs it with and
without). Prints one JSON object: a hash of losses and weights, the time of a step, peak memory as PyTorch sees it.

GPT-2-like and Llama-like models from plain modules, or Hugging Face's with random weights; BF16 or FP16 by autocast, AdamW, dropout.
Started by torchrun, each rank takes its part of every batch: DistributedDataParallel or FSDP2. The first one prints then; the hash is of all.
"""

import argparse
import contextlib
import ctypes
import functools
import hashlib
import json
import math
import os
import random
import statistics
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402: cuBLAS reads its variable when it is loaded
import torch.distributed as dist  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts  # noqa: E402


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight.to(x.dtype))


class Attention(nn.Module):
    """Causal; with rotary positions and shared keys and values in the Llama-like model."""

    def __init__(self, o, bias, rotary, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.dropout, self.rotary = o.heads, kv_heads, o.dropout, rotary
        self.size = o.width // o.heads
        self.qkv = nn.Linear(o.width, (o.heads + 2 * kv_heads) * self.size, bias=bias)
        self.out = nn.Linear(o.width, o.width, bias=bias)
        if rotary:
            angles = torch.outer(torch.arange(o.context), 10000.0 ** (-torch.arange(0, self.size, 2) / self.size))
            self.register_buffer("cos", angles.cos().repeat(1, 2), persistent=False)
            self.register_buffer("sin", angles.sin().repeat(1, 2), persistent=False)

    def turn(self, x):
        a, b = x.chunk(2, -1)
        cos, sin = (y[: x.shape[-2]].to(x.dtype) for y in (self.cos, self.sin))
        return x * cos + torch.cat((-b, a), -1) * sin

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split([self.heads * self.size] + 2 * [self.kv_heads * self.size], -1)
        q, k, v = (y.view(B, T, -1, self.size).transpose(1, 2) for y in (q, k, v))
        if self.rotary:
            q, k = self.turn(q), self.turn(k)
        if self.kv_heads != self.heads:
            k, v = (y.repeat_interleave(self.heads // self.kv_heads, 1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class GPT2Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(o.width), nn.LayerNorm(o.width)
        self.attention = Attention(o, True, False, o.heads)
        self.up, self.down = nn.Linear(o.width, 4 * o.width), nn.Linear(4 * o.width, o.width)
        self.drop = nn.Dropout(o.dropout)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class LlamaBlock(nn.Module):
    def __init__(self, o):
        super().__init__()
        hidden = (8 * o.width // 3 + 255) // 256 * 256
        self.norm1, self.norm2 = RMSNorm(o.width), RMSNorm(o.width)
        self.attention = Attention(o, False, True, max(1, o.heads // 4))
        self.gate, self.up = nn.Linear(o.width, hidden, bias=False), nn.Linear(o.width, hidden, bias=False)
        self.down = nn.Linear(hidden, o.width, bias=False)
        self.drop = nn.Dropout(o.dropout)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        y = self.norm2(x)
        return x + self.drop(self.down(F.silu(self.gate(y)) * self.up(y)))


KEPT = [getattr(torch.ops.aten, name).default for name in
        ("mm", "addmm", "bmm", "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu",
         "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention") if hasattr(torch.ops.aten, name)]


class Model(nn.Module):
    """Embedding, blocks, norm, head that shares the embedding's weights; gives the loss."""

    def __init__(self, o):
        super().__init__()
        llama = o.model == "llama"
        self.mode = o.mode
        self.tokens = nn.Embedding(o.vocab, o.width)
        self.positions = None if llama else nn.Embedding(o.context, o.width)
        self.drop = nn.Dropout(o.dropout)
        self.blocks = nn.ModuleList((LlamaBlock if llama else GPT2Block)(o) for _ in range(o.layers))
        self.norm = RMSNorm(o.width) if llama else nn.LayerNorm(o.width)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
        x = self.drop(x)
        for block in self.blocks:
            if self.mode == "checkpoint":
                x = checkpoint(block, x, use_reentrant=False)
            elif self.mode == "selective":
                x = checkpoint(block, x, use_reentrant=False,
                               context_fn=functools.partial(create_selective_checkpoint_contexts, KEPT))
            else:
                x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class HuggingFace(nn.Module):
    def __init__(self, o):
        super().__init__()
        import transformers

        if o.model == "hf-gpt2":
            config = transformers.GPT2Config(vocab_size=o.vocab, n_positions=o.context, n_embd=o.width, n_layer=o.layers, n_head=o.heads,
                                             resid_pdrop=o.dropout, embd_pdrop=o.dropout, attn_pdrop=o.dropout, use_cache=False)
            self.model = transformers.GPT2LMHeadModel(config)
        else:
            config = transformers.LlamaConfig(vocab_size=o.vocab, hidden_size=o.width, num_hidden_layers=o.layers,
                                              num_attention_heads=o.heads, num_key_value_heads=max(1, o.heads // 4),
                                              intermediate_size=(8 * o.width // 3 + 255) // 256 * 256,
                                              max_position_embeddings=o.context, attention_dropout=o.dropout, use_cache=False)
            self.model = transformers.LlamaForCausalLM(config)
        if o.mode == "checkpoint":
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

    def forward(self, tokens, targets):
        logits = self.model(input_ids=tokens).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["gpt2", "llama", "hf-gpt2", "hf-llama"], default="gpt2")
    parser.add_argument("--mode", choices=["eager", "checkpoint", "selective", "offload", "compile", "graph"], default="eager",
                        help="graph: from the fourth step on one CUDA graph, optimizer included")
    parser.add_argument("--memory", type=float, default=1.0, help="torch.compile: share of the activations' memory")
    for name, value in dict(layers=12, width=768, heads=12, context=1024, batch=16, vocab=50304, steps=24, warmup=12).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--precision", choices=["bf16", "fp16", "fp32"], default="bf16", help="bf16, fp16: by autocast; fp16 scales its gradients")
    parser.add_argument("--scale", type=int, default=16, help="fp16: the power of two that gradients are scaled by at first")
    parser.add_argument("--growth", type=int, default=2000, help="fp16: after so many steps without infinite gradients twice that")
    parser.add_argument("--optimizer", choices=["fused", "foreach"], default="fused", help="how AdamW is computed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--accumulate", type=int, default=1, help="batches of a step")
    parser.add_argument("--lengths", choices=["equal", "shuffled", "sorted", "bucketed"], default="equal", help="of batches: log-normal, cut at "
                        "the context, as those of documents are; bucketed: rounded up to eighths of it")
    parser.add_argument("--fast", action="store_true", help="whatever order of sums is fastest")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--parallel", choices=["ddp", "fsdp"], help="under torchrun, on one GPU for each process")
    return parser.parse_args()


def join(o):
    """Of the processes that torchrun has started: which this one is, how many they are."""
    if not o.parallel:
        return 0, 1
    if o.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl")
    return dist.get_rank(), dist.get_world_size()


def of_all(mine, ranks):
    """What each rank has, in their order."""
    all_of_them = [mine] * ranks
    if ranks > 1:
        dist.all_gather_object(all_of_them, mine)
    return all_of_them


def spread(o, model):
    """The model over the ranks."""
    if o.parallel == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if o.parallel == "fsdp":
        mesh = dist.init_device_mesh(o.device, (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def without_sync(o, model, k):
    """Where gradients are accumulated, ranks add theirs with those of the last batch."""
    last = k == o.accumulate - 1
    if o.parallel == "fsdp":
        model.set_requires_gradient_sync(last)
    return model.no_sync() if o.parallel == "ddp" and not last else contextlib.nullcontext()


def make_data(o):
    """Batches, one after another, again and again."""
    if o.lengths == "equal":
        return list(torch.randint(o.vocab, (8, o.batch, o.context + 1)))
    longest = [min(o.context, max(2, round(o.context * math.exp(random.gauss(-0.8, 0.5))))) for _ in range(o.steps * o.accumulate)]
    if o.lengths == "sorted":
        longest.sort()
    if o.lengths == "bucketed":
        longest = [-(-8 * n // o.context) * o.context // 8 for n in longest]
    return [torch.randint(o.vocab, (o.batch, n + 1)) for n in longest]


def train(o, model, optimizer, data):
    """Losses, for each of which its step waits as a script that prints them does; milliseconds; steps that infinite gradients have the scaler skip."""
    device, losses, times, skipped = o.device, [], [], []
    compiled = model
    if o.mode == "compile":
        from torch._functorch import config

        config.activation_memory_budget = o.memory
        compiled = torch.compile(model)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**o.scale, growth_interval=o.growth, enabled=o.precision == "fp16")
    scale = scaler.get_scale()
    for i in range(o.steps):
        begin = time.perf_counter()
        for k in range(o.accumulate):
            batch = data[(i * o.accumulate + k) % len(data)].to(device, non_blocking=True)
            with without_sync(o, model, k):
                with torch.autocast(device, torch.float16 if o.precision == "fp16" else torch.bfloat16, enabled=o.precision != "fp32"):
                    if o.mode == "offload":
                        with torch.autograd.graph.save_on_cpu(pin_memory=device == "cuda"):
                            loss = compiled(batch[:, :-1], batch[:, 1:])
                    else:
                        loss = compiled(batch[:, :-1], batch[:, 1:])
                scaler.scale(loss / o.accumulate if o.accumulate > 1 else loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        times.append((time.perf_counter() - begin) * 1e3)
        before, scale = scale, scaler.get_scale()
        skipped += [i] if scale < before else []
    return losses, times, skipped


def train_captured(o, model, optimizer, data):
    """The same, each step one CUDA graph from the fourth on (https://docs.pytorch.org/docs/stable/notes/cuda.html, whole-network capture)."""
    losses, times, graph = [], [], torch.cuda.CUDAGraph()
    batch = data[0].to(o.device)
    side = torch.cuda.Stream()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(o.device, torch.bfloat16, enabled=o.precision == "bf16"):
            loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    for i in range(o.steps):
        begin = time.perf_counter()
        batch.copy_(data[i % len(data)], non_blocking=True)
        if i < 3:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                loss = step()
            torch.cuda.current_stream().wait_stream(side)
        elif i == 3:
            with torch.cuda.graph(graph):
                loss = step()
        if i >= 3:
            graph.replay()
        losses.append(loss.item())
        times.append((time.perf_counter() - begin) * 1e3)
    return losses, times, []


def of_allocator():
    """What PyTorch says of its memory; what this version or backend cannot say is left out."""
    said = {}
    for name, ask in {"backend": lambda: torch.cuda.get_allocator_backend(), "torch_peak_bytes": lambda: torch.cuda.max_memory_allocated(),
                      "torch_reserved_peak_bytes": lambda: torch.cuda.max_memory_reserved(),
                      "free_bytes": lambda: torch.cuda.mem_get_info()[0]}.items():
        try:
            said[name] = ask()
        except (AttributeError, RuntimeError, NotImplementedError, KeyError):
            pass
    return said


def main():
    o = parse_arguments()
    if not o.fast:
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(o.seed)
    random.seed(o.seed)
    rank, ranks = join(o)
    model = spread(o, (HuggingFace if o.model.startswith("hf-") else Model)(o).to(o.device))
    data = [batch[rank::ranks] for batch in make_data(o)]  # each step copies its batch, as a loader's are
    if o.device == "cuda":
        data = [batch.pin_memory() for batch in data]
    captured = o.mode == "graph" and o.device == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1,
                                  **{o.optimizer: True, "capturable": captured} if o.device == "cuda" else {})
    losses, times, skipped = (train_captured if captured else train)(o, model, optimizer, data)
    sums = hashlib.sha256(json.dumps([loss.hex() for loss in losses]).encode())
    for p in [*model.parameters(), *(t for state in optimizer.state.values() for t in state.values())]:
        bits = (p.to_local() if hasattr(p, "to_local") else p).detach().cpu().contiguous()
        sums.update(ctypes.string_at(bits.data_ptr(), bits.nbytes))
    ms = statistics.median(times[o.warmup :])
    hashes = of_all(sums.hexdigest()[:16], ranks)
    result = {"model": o.model, "mode": o.mode, "ranks": ranks, "hash": ",".join(hashes), "seed": o.seed, "precision": o.precision,
              "losses": [statistics.fmean(of_step) for of_step in zip(*of_all(losses, ranks))], "skipped": skipped,
              "ms": round(ms, 3), "tokens_per_s": round(o.batch * o.context / ms * 1e3),
              "parameters": sum(p.numel() for p in model.parameters())}
    if o.device == "cuda":
        result.update(of_allocator())
        result["torch_peak_bytes"] = max(of_all(result.get("torch_peak_bytes", 0), ranks))
    if rank == 0:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
    if dist.is_initialized():  # nothing of the model is left, whose end may wait for the other ranks (gloo)
        dist.destroy_process_group()
