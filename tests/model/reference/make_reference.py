#!/usr/bin/env python3
"""Makes reference.json: what PyTorch gets for small training runs of ebb-train: GPT-2, without and with dropout; Llama, with a
head of its own and shared keys, and tied with dropout and stretched rotary waves; one of each family in BF16, with much weight
decay; and three that train low-rank adapters alone: of all matrices of GPT-2, of PEFT's two of Llama, and in BF16 of all of Llama.

    python3 tests/model/reference/make_reference.py > tests/model/reference/reference.json

Everything is written again here, from the descriptions in the trainer's headers and in tests/model/text.h: the text, the
batches, the initial values, the dropout masks, the model, the schedule. Only torch and numpy are used. Each run is made
twice, in its own type (the numbers that the test compares with) and in double (which tells how far rounding alone carries them).
In BF16 parameters and moments stay fp32; each micro-batch sees the parameters rounded, computes by PyTorch's BF16 operations, and
adds its gradients up in fp32. Attention, norms, rotations and the loss are fp32 inside, their results BF16.
Needs torch 1.12 or newer, on the CPU; takes a few seconds.
"""
import json
import math
import platform
import sys

import numpy as np
import torch
import torch.nn.functional as F

RUNS = [dict(seed=7, layers=3, width=128, heads=4, context=64, batch=8, accumulate=2, dropout=0.0, steps=20, lr=1.5e-3,
             warmup=0.2, lr_final=0.05, beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1, clip=1.0),
        dict(seed=11, layers=2, width=60, heads=5, context=37, batch=3, accumulate=2, dropout=0.2, steps=10, lr=1e-3,
             warmup=0.2, lr_final=0.1, beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1, clip=1.0),
        dict(seed=5, family="llama", layers=3, width=96, heads=6, kv_heads=2, hidden=224, tied=False, norm_eps=1e-5,
             rope_theta=1e4, rope_factor=1.0, context=64, batch=8, accumulate=2, dropout=0.0, steps=20, lr=1.5e-3,
             warmup=0.2, lr_final=0.05, beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1, clip=1.0),
        dict(seed=13, family="llama", layers=2, width=64, heads=4, kv_heads=4, hidden=172, tied=True, norm_eps=1e-4,
             rope_theta=5e5, rope_factor=8.0, context=37, batch=3, accumulate=2, dropout=0.2, steps=10, lr=1e-3,
             warmup=0.2, lr_final=0.1, beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1, clip=1.0),
        dict(seed=17, dtype="bf16", layers=2, width=64, heads=4, context=32, batch=8, accumulate=2, dropout=0.1, steps=20, lr=2e-3,
             warmup=0.2, lr_final=0.1, beta1=0.9, beta2=0.95, eps=1e-8, decay=4.0, clip=1.0),
        dict(seed=19, dtype="bf16", family="llama", layers=2, width=64, heads=4, kv_heads=2, hidden=176, tied=False, norm_eps=1e-5,
             rope_theta=1e4, rope_factor=1.0, context=32, batch=8, accumulate=2, dropout=0.0, steps=20, lr=2e-3,
             warmup=0.2, lr_final=0.1, beta1=0.9, beta2=0.95, eps=1e-8, decay=4.0, clip=1.0),
        dict(seed=23, lora_rank=4, lora_targets="all-linear", layers=3, width=60, heads=5, context=37, batch=4, accumulate=2, dropout=0.1,
             steps=20, lr=5e-3, warmup=0.2, lr_final=0.1, beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1, clip=0.1),
        dict(seed=29, lora_rank=6, lora_targets="q_proj,v_proj", family="llama", layers=2, width=96, heads=6, kv_heads=2, hidden=224,
             tied=False, norm_eps=1e-5, rope_theta=1e4, rope_factor=1.0, context=64, batch=4, accumulate=2, dropout=0.0, steps=20,
             lr=2e-2, warmup=0.2, lr_final=0.1, beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1, clip=0.1),
        dict(seed=31, lora_rank=8, lora_targets="all-linear", dtype="bf16", family="llama", layers=2, width=64, heads=4, kv_heads=2,
             hidden=176, tied=True, norm_eps=1e-5, rope_theta=1e4, rope_factor=1.0, context=32, batch=8, accumulate=2, dropout=0.0,
             steps=20, lr=5e-3, warmup=0.2, lr_final=0.1, beta1=0.9, beta2=0.95, eps=1e-8, decay=1.0, clip=1.0)]
TEXT_SEED, TEXT_BYTES = 1, 60000
VOCAB = 256
MASK = (1 << 64) - 1


# ---- random numbers: model/base/rng.h ----
GAMMA = 0x9E3779B97F4A7C15


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def at(key, index):
    return mix((key + (index + 1) * GAMMA) & MASK)


def at_each(key, indices):
    """at() for an array of indices."""
    with np.errstate(over="ignore"):
        z = np.uint64(key) + (indices.astype(np.uint64) + np.uint64(1)) * np.uint64(GAMMA)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def unit(x):
    return ((x >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53


def normal(seed, tensor, shape, deviation):
    key = at(seed, tensor)
    count = math.prod(shape)
    pairs = np.arange((count + 1) // 2)
    radius = np.sqrt(-2.0 * np.log(unit(at_each(key, 2 * pairs))))
    angle = 2.0 * math.pi * unit(at_each(key, 2 * pairs + 1))
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]
    return torch.from_numpy((deviation * both).astype(np.float32).reshape(shape))


def philox(counters, seed):
    """Philox4x32-10's four words for each 64-bit counter, [n, 4]."""
    low32, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    c = [counters & low32, counters >> shift, np.zeros_like(counters), np.zeros_like(counters)]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> shift) ^ c[1] ^ np.uint64(k[0]), b & low32, (a >> shift) ^ c[3] ^ np.uint64(k[1]), a & low32]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, axis=1)


class Dropout:
    """Masks in the order in which the trainer uses them: model/kernels/kernels.h (dropout_t), model/layers/pass.h (counters)."""

    def __init__(self, seed, rate):
        self.seed, self.rate, self.counter = at(seed, 2 << 32), float(np.float32(rate)), 0

    def __call__(self, x):
        if self.rate == 0:
            return x
        count = x.numel()
        groups = (count + 3) // 4
        counters = np.arange(self.counter, self.counter + groups, dtype=np.uint64)
        self.counter += groups
        words = philox(counters, self.seed).reshape(-1)[:count]
        kept = torch.from_numpy(words.astype(np.float64) * 2.0**-32 >= self.rate).reshape(x.shape)
        return x * kept.to(x.dtype) / (1.0 - self.rate)


# ---- the text: tests/model/text.h ----
def make_text(seed, size):
    counter = 0

    def draw(bound):
        nonlocal counter
        counter += 1
        return at(seed, counter - 1) % bound

    words = []
    for _ in range(200):
        words.append("".join("bdfgklmnprst"[draw(12)] + "aeiou"[draw(5)] for _ in range(1 + draw(4))))
    text = []
    length = sentences = 0
    while length < size:
        count = 4 + draw(8)
        chosen = []
        for _ in range(count):
            first = draw(200)
            chosen.append(words[first * draw(200) // 200])
        sentences += 1
        sentence = " ".join(chosen).capitalize() + (".\n" if sentences % 3 == 0 else ". ")
        text.append(sentence)
        length += len(sentence)
    return "".join(text)[:size].encode()


def hash_bytes(data):
    h = 0
    for byte in data:
        h = mix(((h + GAMMA) & MASK) ^ byte)
    return h


# ---- the models: model/base/layout.h, model/layers/transformer.h ----
def wide(x):
    """What sums are made in."""
    return x.float() if x.dtype == torch.bfloat16 else x


def make_parameters(o, dtype):
    make = make_llama_parameters if "family" in o else make_gpt2_parameters
    p = make(o)
    adapters = make_adapters(o, p) if "lora_rank" in o else p
    return {name: value.to(dtype).requires_grad_(name in adapters) for name, value in (p | adapters).items()}


def make_adapters(o, p):
    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] if "family" in o else \
        ["qkv_w", "proj_w", "up_w", "down_w"]
    adapters, rank = {}, o["lora_rank"]
    for l in range(o["layers"]):
        for i, name in enumerate(names):
            if name in o["lora_targets"].split(",") or o["lora_targets"] == "all-linear":
                out, width = p[f"{l}.{name}"].shape
                units = unit(at_each(at(o["seed"], (6 << 32) + 2 + len(names) * l + i), np.arange(rank * width)))
                a = ((2 * units - 1) / math.sqrt(width)).astype(np.float32)
                adapters[f"{l}.{name}.a"] = torch.from_numpy(a.reshape(rank, width))
                adapters[f"{l}.{name}.b"] = torch.zeros(out, rank)
    return adapters


LORA_SCALE = 2.0  # alpha / rank


def product(x, p, name, bias=None):
    y = F.linear(x, p[name], bias)
    return y + LORA_SCALE * F.linear(F.linear(x, p[name + ".a"]), p[name + ".b"]) if name + ".a" in p else y


def rounded(p, dtype):
    """The parameters as a pass sees them; gradients come back to these here."""
    return {name: value.to(dtype) for name, value in p.items()}


def make_gpt2_parameters(o):
    C, L, seed = o["width"], o["layers"], o["seed"]
    p = {"wte": normal(seed, 0, (VOCAB, C), 0.02), "wpe": normal(seed, 1, (o["context"], C), 0.02),
         "norm_w": torch.ones(C), "norm_b": torch.zeros(C)}
    residual = 0.02 / math.sqrt(2 * L)
    for l in range(L):
        first = 2 + 4 * l
        p[f"{l}.qkv_w"] = normal(seed, first, (3 * C, C), 0.02)
        p[f"{l}.proj_w"] = normal(seed, first + 1, (C, C), residual)
        p[f"{l}.up_w"] = normal(seed, first + 2, (4 * C, C), 0.02)
        p[f"{l}.down_w"] = normal(seed, first + 3, (C, 4 * C), residual)
        for name, size in [("qkv_b", 3 * C), ("proj_b", C), ("up_b", 4 * C), ("down_b", C),
                           ("norm1_b", C), ("norm2_b", C)]:
            p[f"{l}.{name}"] = torch.zeros(size)
        for name in ("norm1_w", "norm2_w"):
            p[f"{l}.{name}"] = torch.ones(C)
    return p


def make_llama_parameters(o):
    """Hugging Face's names, without "model." and ".weight"."""
    C, L, seed = o["width"], o["layers"], o["seed"]
    D, hidden = C // o["heads"], o["hidden"]
    p = {"embed_tokens": normal(seed, 0, (VOCAB, C), 0.02), "norm": torch.ones(C)}
    if not o["tied"]:
        p["lm_head"] = normal(seed, 1, (VOCAB, C), 0.02)
    residual = 0.02 / math.sqrt(2 * L)
    for l in range(L):
        shapes = {"q_proj": (C, C), "k_proj": (o["kv_heads"] * D, C), "v_proj": (o["kv_heads"] * D, C), "o_proj": (C, C),
                  "gate_proj": (hidden, C), "up_proj": (hidden, C), "down_proj": (C, hidden)}
        for i, (name, shape) in enumerate(shapes.items()):
            p[f"{l}.{name}"] = normal(seed, 2 + 7 * l + i, shape, residual if name in ("o_proj", "down_proj") else 0.02)
        p[f"{l}.input_layernorm"] = torch.ones(C)
        p[f"{l}.post_attention_layernorm"] = torch.ones(C)
    return p


def rms_norm(x, weight, eps):
    y = wide(x)
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def rope_angles(o, positions, dtype):
    """Cosines and sines [T, D], each half of a head alike."""
    D = o["width"] // o["heads"]
    w = o["rope_theta"] ** (-2.0 * torch.arange(D // 2, dtype=torch.float64) / D)
    if o["rope_factor"] != 1:
        turns = 8192.0 * w / (2 * math.pi)
        share = ((turns - 1) / 3).clamp(0, 1)
        w = torch.where(turns > 4, w, (1 - share) * w / o["rope_factor"] + share * w)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * torch.cat([w, w])[None, :]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def turned(x, cosine, sine):
    """x [B, H, T, D]: pairs (d, d + D/2)."""
    y = wide(x)
    first, second = y.chunk(2, dim=-1)
    return (y * cosine + torch.cat([-second, first], dim=-1) * sine).to(x.dtype)


def causal(q, k, v, dropout):
    """q, k, v [B, H, T, D]; the result [B, T, C]."""
    B, H, T, D = q.shape
    scores = wide(q) @ wide(k).transpose(2, 3) / math.sqrt(D)
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    y = dropout(F.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)) @ wide(v)
    return y.transpose(1, 2).reshape(B, T, H * D).to(q.dtype)


def cross_entropy(x, head, targets):
    return F.cross_entropy((wide(x) @ wide(head).T).view(-1, VOCAB), targets.reshape(-1), reduction="sum")


def llama_attention(x, p, l, o, angles, dropout):
    B, T, C = x.shape
    H, KV = o["heads"], o["kv_heads"]
    q, k, v = (product(x, p, f"{l}.{name}").view(B, T, -1, C // H).transpose(1, 2)
               for name in ("q_proj", "k_proj", "v_proj"))
    q, k = turned(q, *angles), turned(k, *angles)
    k, v = (y.repeat_interleave(H // KV, dim=1) for y in (k, v))
    return product(causal(q, k, v, dropout), p, f"{l}.o_proj")


def llama_mlp(x, p, l):
    return product(F.silu(product(x, p, f"{l}.gate_proj")) * product(x, p, f"{l}.up_proj"), p, f"{l}.down_proj")


def llama_loss(p, o, inputs, targets, dropout):
    x = dropout(p["embed_tokens"][inputs])
    angles = rope_angles(o, inputs.shape[1], wide(x).dtype)
    for l in range(o["layers"]):
        normed = rms_norm(x, p[f"{l}.input_layernorm"], o["norm_eps"])
        x = x + dropout(llama_attention(normed, p, l, o, angles, dropout))
        x = x + dropout(llama_mlp(rms_norm(x, p[f"{l}.post_attention_layernorm"], o["norm_eps"]), p, l))
    return cross_entropy(rms_norm(x, p["norm"], o["norm_eps"]), p["embed_tokens" if o["tied"] else "lm_head"], targets)


def attention(x, p, l, heads, dropout):
    B, T, C = x.shape
    qkv = product(x, p, f"{l}.qkv_w", p[f"{l}.qkv_b"]).view(B, T, 3, heads, C // heads)
    q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
    return product(causal(q, k, v, dropout), p, f"{l}.proj_w", p[f"{l}.proj_b"])


def mlp(x, p, l):
    return product(F.gelu(product(x, p, f"{l}.up_w", p[f"{l}.up_b"]), approximate="tanh"), p, f"{l}.down_w", p[f"{l}.down_b"])


def model_loss(p, o, inputs, targets, dropout):
    """Sum over all tokens."""
    if "family" in o:
        return llama_loss(p, o, inputs, targets, dropout)
    C = o["width"]
    x = dropout(p["wte"][inputs] + p["wpe"][: inputs.shape[1]])
    for l in range(o["layers"]):
        normed = F.layer_norm(x, (C,), p[f"{l}.norm1_w"], p[f"{l}.norm1_b"])
        x = x + dropout(attention(normed, p, l, o["heads"], dropout))
        x = x + dropout(mlp(F.layer_norm(x, (C,), p[f"{l}.norm2_w"], p[f"{l}.norm2_b"]), p, l))
    return cross_entropy(F.layer_norm(x, (C,), p["norm_w"], p["norm_b"]), p["wte"], targets)


# ---- the data: model/data/data.h ----
def sequences(o, train, first, count):
    T = o["context"]
    key = at(o["seed"], 1 << 32)
    rows = []
    for q in range(first, first + count):
        start = at(key, q) % (len(train) - T)
        rows.append(list(train[start : start + T + 1]))
    rows = torch.tensor(rows)
    return rows[:, :-1], rows[:, 1:]


def held_out_loss(p, o, held):
    T, total = o["context"], 0.0
    with torch.no_grad():
        for start in range(0, len(held) - 1, T):
            row = torch.tensor([list(held[start : start + T + 1])])
            total += float(model_loss(p, o, row[:, :-1], row[:, 1:], Dropout(0, 0.0)))
    return total / (len(held) - 1)


# ---- the training: model/train/optimizer.h, model/train/train.h ----
def rate_of(o, step):
    warmup = round(o["warmup"] * o["steps"])
    if step <= warmup:
        return o["lr"] * step / warmup
    cosine = 0.5 * (1 + math.cos(math.pi * (step - warmup) / (o["steps"] - warmup)))
    return o["lr"] * (o["lr_final"] + (1 - o["lr_final"]) * cosine)


def train(o, text, dtype):
    held = len(text) // 20
    train_part, held_part = text[: len(text) - held], text[len(text) - held :]
    p = make_parameters(o, torch.float32 if dtype == torch.bfloat16 else dtype)
    trained = [v for v in p.values() if v.requires_grad]
    matrices = [v for v in trained if v.dim() == 2]
    vectors = [v for v in trained if v.dim() == 1]
    adamw = torch.optim.AdamW([{"params": matrices, "weight_decay": o["decay"]},
                               {"params": vectors, "weight_decay": 0.0}],
                              betas=(o["beta1"], o["beta2"]), eps=o["eps"])
    rows = o["accumulate"] * o["batch"] * o["context"]
    dropout = Dropout(o["seed"], o["dropout"])
    records = []
    for step in range(1, o["steps"] + 1):
        for group in adamw.param_groups:
            group["lr"] = rate_of(o, step)
        adamw.zero_grad()
        loss = 0.0
        for micro in range(o["accumulate"]):
            number = (step - 1) * o["accumulate"] + micro
            inputs, targets = sequences(o, train_part, number * o["batch"], o["batch"])
            part = model_loss(rounded(p, dtype), o, inputs, targets, dropout) / rows
            part.backward()
            loss += float(part.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(trained, o["clip"]))
        adamw.step()
        records.append((loss, norm, rate_of(o, step)))
    return records, held_out_loss(rounded(p, dtype), o, held_part)


def make_run(o, text):
    own, own_held = train(o, text, torch.bfloat16 if o.get("dtype") == "bf16" else torch.float32)
    double, double_held = train(o, text, torch.float64)
    lines = [dict(kind="reference", torch=torch.__version__, numpy=np.__version__,
                  python=platform.python_version(), machine=platform.machine(), text_seed=TEXT_SEED,
                  text_bytes=TEXT_BYTES, text_hash="%016x" % hash_bytes(text), **o)]
    for i, ((loss, norm, rate), (loss64, norm64, _)) in enumerate(zip(own, double)):
        lines.append(dict(kind="step", step=i + 1, loss=loss, grad_norm=norm, lr=rate, loss_in_double=loss64,
                          grad_norm_in_double=norm64))
    lines.append(dict(kind="eval", step=o["steps"], loss=own_held, loss_in_double=double_held))
    worst = max(abs(a[0] / b[0] - 1) for a, b in zip(own, double))
    print("largest relative difference between its type and double: %.1e" % worst, file=sys.stderr)
    return lines


def main():
    torch.set_num_threads(1)
    text = make_text(TEXT_SEED, TEXT_BYTES)
    lines = [json.dumps(line) for o in RUNS for line in make_run(o, text)]
    print("[\n" + ",\n".join(lines) + "\n]")


main()
