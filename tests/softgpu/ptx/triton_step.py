"""triton_step.py: training steps of a small GPT-2 (one layer), all kernels by Triton, on the device that libcuda.so.1 has. Each kernel's results are compared with NumPy's, in float64, of what it
has read; the loss falls. No PyTorch."""

import ctypes
import re
import sys

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

B, T, C, H, V = 2, 16, 32, 2, 64
D = C // H


# ---- kernels ----
@triton.jit
def embed(tokens, wte, wpe, out, T, C: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, C)
    tl.store(out + r * C + c, tl.load(wte + tl.load(tokens + r) * C + c) + tl.load(wpe + (r % T) * C + c))


@triton.jit
def embed_back(tokens, dx, dwte, dwpe, T, C: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, C)
    d = tl.load(dx + r * C + c)
    tl.atomic_add(dwte + tl.load(tokens + r) * C + c, d)
    tl.atomic_add(dwpe + (r % T) * C + c, d)


@triton.jit
def layernorm(x, w, b, y, mean, rstd, C: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, C)
    v = tl.load(x + r * C + c)
    mu = tl.sum(v, 0) / C
    d = v - mu
    rs = 1 / tl.sqrt(tl.sum(d * d, 0) / C + 1e-5)
    tl.store(mean + r, mu)
    tl.store(rstd + r, rs)
    tl.store(y + r * C + c, d * rs * tl.load(w + c) + tl.load(b + c))


@triton.jit
def layernorm_back(x, w, dy, mean, rstd, dx, dw, db, C: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, C)
    rs = tl.load(rstd + r)
    n = (tl.load(x + r * C + c) - tl.load(mean + r)) * rs
    g = tl.load(dy + r * C + c)
    d = g * tl.load(w + c)
    tl.store(dx + r * C + c, tl.load(dx + r * C + c) + rs * (d - tl.sum(d, 0) / C - n * tl.sum(d * n, 0) / C))
    tl.atomic_add(dw + c, g * n)
    tl.atomic_add(db + c, g)


@triton.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, ADD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * sam + (k + rk)[None, :] * sak, mask=(rm[:, None] < M) & ((k + rk)[None, :] < K), other=0.)
        y = tl.load(b + (k + rk)[:, None] * sbk + rn[None, :] * sbn, mask=((k + rk)[:, None] < K) & (rn[None, :] < N), other=0.)
        acc = tl.dot(x, y, acc)
    at = c + rm[:, None] * N + rn[None, :]
    inside = (rm[:, None] < M) & (rn[None, :] < N)
    if ADD:
        acc += tl.load(at, mask=inside)
    tl.store(at, acc, mask=inside)


@triton.jit
def attention(qkv, p, o, scale, T: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    b = tl.program_id(0)
    h = tl.program_id(1)
    t = tl.arange(0, T)
    d = tl.arange(0, D)
    at = qkv + (b * T + t)[:, None] * (3 * C) + h * D + d[None, :]
    q = tl.load(at)
    k = tl.load(at + C)
    s = tl.dot(q, tl.trans(k)) * scale
    s = tl.where(t[:, None] >= t[None, :], s, -float('inf'))
    e = tl.exp(s - tl.max(s, 1)[:, None])
    e = e / tl.sum(e, 1)[:, None]
    tl.store(p + ((b * tl.num_programs(1) + h) * T + t)[:, None] * T + t[None, :], e)
    tl.store(o + (b * T + t)[:, None] * C + h * D + d[None, :], tl.dot(e, tl.load(at + 2 * C)))


@triton.jit
def attention_back(qkv, p, do, dqkv, scale, T: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    b = tl.program_id(0)
    h = tl.program_id(1)
    t = tl.arange(0, T)
    d = tl.arange(0, D)
    at = (b * T + t)[:, None] * (3 * C) + h * D + d[None, :]
    g = tl.load(do + (b * T + t)[:, None] * C + h * D + d[None, :])
    e = tl.load(p + ((b * tl.num_programs(1) + h) * T + t)[:, None] * T + t[None, :])
    dp = tl.dot(g, tl.trans(tl.load(qkv + at + 2 * C)))
    ds = e * (dp - tl.sum(dp * e, 1)[:, None]) * scale
    tl.store(dqkv + at, tl.dot(ds, tl.load(qkv + at + C)))
    tl.store(dqkv + at + C, tl.dot(tl.trans(ds), tl.load(qkv + at)))
    tl.store(dqkv + at + 2 * C, tl.dot(tl.trans(e), g))


@triton.jit
def gelu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, 0.5 * v * (1 + tl.erf(v * 0.7071067811865476)), mask=i < n)


@triton.jit
def gelu_back(x, dy, dx, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    slope = 0.5 * (1 + tl.erf(v * 0.7071067811865476)) + v * 0.3989422804014327 * tl.exp(-0.5 * v * v)
    tl.store(dx + i, tl.load(dy + i, mask=i < n) * slope, mask=i < n)


@triton.jit
def cross_entropy(logits, targets, losses, dlogits, rows, V: tl.constexpr):
    r = tl.program_id(0)
    v = tl.arange(0, V)
    x = tl.load(logits + r * V + v)
    y = tl.load(targets + r)
    m = tl.max(x, 0)
    e = tl.exp(x - m)
    s = tl.sum(e, 0)
    tl.store(losses + r, tl.log(s) + m - tl.sum(tl.where(v == y, x, 0.), 0))
    tl.store(dlogits + r * V + v, (e / s - tl.where(v == y, 1., 0.)) / rows)


@triton.jit
def adamw(w, g, m, v, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    grad = tl.load(g + i, mask=inside)
    first = 0.9 * tl.load(m + i, mask=inside) + 0.1 * grad
    second = 0.99 * tl.load(v + i, mask=inside) + 0.01 * grad * grad
    x = tl.load(w + i, mask=inside)
    tl.store(m + i, first, mask=inside)
    tl.store(v + i, second, mask=inside)
    bias1 = 1 - tl.exp2(step * -0.15200309344504997)
    bias2 = 1 - tl.exp2(step * -0.014499569695115089)
    tl.store(w + i, x - 1e-2 * (first / bias1 / (tl.sqrt(second / bias2) + 1e-8) + 0.01 * x), mask=inside)
    tl.store(g + i, tl.zeros((BLOCK,), tl.float32), mask=inside)


# ---- the device ----
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        sys.exit(f"{name}: error {result}")


def start():
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)


class Buffer:
    def __init__(self, values, dtype=np.float32):
        values = np.ascontiguousarray(values, dtype=dtype)
        self.shape, self.dtype, self.at = values.shape, values.dtype, ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.at), ctypes.c_size_t(values.nbytes))
        call("cuMemcpyHtoD_v2", self.at, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.nbytes))

    def read(self):
        values = np.empty(self.shape, self.dtype)
        call("cuMemcpyDtoH_v2", values.ctypes.data_as(ctypes.c_void_p), self.at, ctypes.c_size_t(values.nbytes))
        return values.astype(np.float64) if values.dtype == np.float32 else values


functions, errors = {}, {}


def function_of(kernel, arguments, constants):
    key = kernel.__name__, tuple(sorted(constants.items()))
    if key not in functions:
        names = [n for n in kernel.arg_names if n not in constants]
        kinds = {Buffer: lambda b: "*fp32" if b.dtype == np.float32 else "*i32", int: lambda _: "i32", float: lambda _: "fp32"}
        signature = {n: kinds[type(a)](a) for n, a in zip(names, arguments)} | {n: "constexpr" for n in constants}
        compiled = triton.compile(ASTSource(fn=kernel, signature=signature, constexprs=constants), target=GPUTarget("cuda", 80, 32))
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        ptx = compiled.asm["ptx"]
        call("cuModuleLoadData", ctypes.byref(module), ptx.encode())
        call("cuModuleGetFunction", ctypes.byref(function), module, compiled.metadata.name.encode())
        parameters = len(re.findall(rf"\.param .*{compiled.metadata.name}_param_\d+,?$", ptx, re.M))
        functions[key] = function, parameters, compiled.metadata
    return functions[key]


def launch(kernel, grid, *arguments, expected, tolerance=1e-5, **constants):
    """`expected`: what it makes, by buffer, from what is in the buffers now. Triton's own parameters behind ours are NULL."""
    function, parameters, metadata = function_of(kernel, arguments, constants)
    values = [a.at if isinstance(a, Buffer) else ctypes.c_int32(a) if isinstance(a, int) else ctypes.c_float(a) for a in arguments]
    values += [ctypes.c_uint64()] * (parameters - len(values))
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    call("cuLaunchKernel", function, *grid, *(1,) * (3 - len(grid)), 32 * metadata.num_warps, 1, 1, metadata.shared, None, pointers, None)
    for buffer, want in expected.items():
        got = buffer.read()
        error = np.abs(got - want).max() / max(np.abs(want).max(), 1e-6)
        errors[kernel.__name__] = max(errors.get(kernel.__name__, 0), error)
        if not error <= tolerance:
            sys.exit(f"{kernel.__name__}: off by {error:.3g} of the largest, {tolerance:g} is allowed")


# ---- the model ----
def product(a, b, out, transpose_a=False, transpose_b=False, add=False):
    x, y = a.read(), b.read()
    x, y = x.T if transpose_a else x, y.T if transpose_b else y
    (m, k), n = x.shape, y.shape[1]
    strides = (*((1, m) if transpose_a else (k, 1)), *((1, k) if transpose_b else (n, 1)))
    # TF32: 11 bits of each factor.
    launch(matmul, (triton.cdiv(m, 32), triton.cdiv(n, 32)), a, b, out, m, n, k, *strides, ADD=add, BM=32, BN=32, BK=16,
           expected={out: x @ y + (out.read() if add else 0)}, tolerance=2e-3)


def layernorm_forward(x, w, b, y, mean, rstd):
    v = x.read()
    mu, rs = v.mean(1), 1 / np.sqrt(v.var(1) + 1e-5)
    launch(layernorm, (B * T,), x, w, b, y, mean, rstd, C=C, expected={mean: mu, rstd: rs, y: (v - mu[:, None]) * rs[:, None] * w.read() + b.read()}, tolerance=1e-4)


def layernorm_backward(x, w, dy, mean, rstd, dx, dw, db):
    g, rs = dy.read(), rstd.read()[:, None]
    n = (x.read() - mean.read()[:, None]) * rs
    d = g * w.read()
    want = dx.read() + rs * (d - d.mean(1, keepdims=True) - n * (d * n).mean(1, keepdims=True))
    launch(layernorm_back, (B * T,), x, w, dy, mean, rstd, dx, dw, db, C=C, tolerance=1e-4,
           expected={dx: want, dw: dw.read() + (g * n).sum(0), db: db.read() + g.sum(0)})


erf = np.vectorize(__import__("math").erf)


def heads(x, parts):
    """[B, H, T, D] of each part."""
    return [p.reshape(B, T, H, D).transpose(0, 2, 1, 3) for p in np.split(x, parts, 1)]


def rows(*parts):
    return np.concatenate([p.transpose(0, 2, 1, 3).reshape(B * T, C) for p in parts], 1)


def elementwise(kernel, *buffers, expected, n, more=(), tolerance=1e-5):
    launch(kernel, (triton.cdiv(n, 256),), *buffers, n, *more, BLOCK=256, expected=expected, tolerance=tolerance)


def main():
    start()
    random = np.random.default_rng(1)
    shapes = {"wte": (V, C), "wpe": (T, C), "w1": (C,), "b1": (C,), "qkv": (C, 3 * C), "proj": (C, C), "w2": (C,), "b2": (C,), "fc": (C, 4 * C), "out": (4 * C, C), "w3": (C,), "b3": (C,)}
    start_of = {n: np.ones(s) if n in ("w1", "w2", "w3") else np.zeros(s) if len(s) == 1 else random.normal(0, 0.1, s) for n, s in shapes.items()}
    w = {n: Buffer(v) for n, v in start_of.items()}
    g, m1, m2 = ({n: Buffer(np.zeros(s)) for n, s in shapes.items()} for _ in range(3))
    text = random.integers(0, V, B * T + 1)
    tokens, targets = Buffer(text[:-1], np.int32), Buffer(text[1:], np.int32)
    zeros = lambda *s: Buffer(np.zeros(s))
    scale, n = float(1 / np.sqrt(D)), B * T
    losses = []
    for step in range(1, 5):
        x, y1, qkv, o, y2, f, a, y3, logits = zeros(n, C), zeros(n, C), zeros(n, 3 * C), zeros(n, C), zeros(n, C), zeros(n, 4 * C), zeros(n, 4 * C), zeros(n, C), zeros(n, V)
        p, loss, dlogits = zeros(B, H, T, T), zeros(n), zeros(n, V)
        stats = [(zeros(n), zeros(n)) for _ in range(3)]
        ids, wte = tokens.read(), w["wte"].read()
        launch(embed, (n,), tokens, w["wte"], w["wpe"], x, T, C=C, expected={x: wte[ids] + np.tile(w["wpe"].read(), (B, 1))})
        x0 = Buffer(x.read())
        layernorm_forward(x, w["w1"], w["b1"], y1, *stats[0])
        product(y1, w["qkv"], qkv)
        q, k, v = heads(qkv.read(), 3)
        s = np.where(np.tri(T), q @ k.transpose(0, 1, 3, 2) * scale, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        e /= e.sum(-1, keepdims=True)
        launch(attention, (B, H), qkv, p, o, scale, T=T, C=C, D=D, expected={p: e, o: rows(e @ v)}, tolerance=2e-3)
        product(o, w["proj"], x, add=True)
        x1 = Buffer(x.read())
        layernorm_forward(x, w["w2"], w["b2"], y2, *stats[1])
        product(y2, w["fc"], f)
        h = f.read()
        elementwise(gelu, f, a, expected={a: 0.5 * h * (1 + erf(h / np.sqrt(2)))}, n=h.size)
        product(a, w["out"], x, add=True)
        layernorm_forward(x, w["w3"], w["b3"], y3, *stats[2])
        product(y3, w["wte"], logits, transpose_b=True)
        l, t = logits.read(), targets.read()
        e = np.exp(l - l.max(1, keepdims=True))
        s = e.sum(1)
        launch(cross_entropy, (n,), logits, targets, loss, dlogits, n, V=V,
               expected={loss: np.log(s) + l.max(1) - l[np.arange(n), t], dlogits: (e / s[:, None] - np.eye(V)[t]) / n})
        losses.append(loss.read().mean())

        dy, dx, da, df, do, dqkv = zeros(n, C), zeros(n, C), zeros(n, 4 * C), zeros(n, 4 * C), zeros(n, C), zeros(n, 3 * C)
        product(dlogits, y3, g["wte"], transpose_a=True, add=True)
        product(dlogits, w["wte"], dy)
        layernorm_backward(x, w["w3"], dy, *stats[2], dx, g["w3"], g["b3"])
        product(dx, w["out"], da, transpose_b=True)
        product(a, dx, g["out"], transpose_a=True, add=True)
        slope = 0.5 * (1 + erf(h / np.sqrt(2))) + h * np.exp(-0.5 * h * h) / np.sqrt(2 * np.pi)
        elementwise(gelu_back, f, da, df, expected={df: da.read() * slope}, n=h.size)
        product(df, w["fc"], dy, transpose_b=True)
        product(y2, df, g["fc"], transpose_a=True, add=True)
        layernorm_backward(x1, w["w2"], dy, *stats[1], dx, g["w2"], g["b2"])
        product(dx, w["proj"], do, transpose_b=True)
        product(o, dx, g["proj"], transpose_a=True, add=True)
        e, = [p.read()]
        d, = heads(do.read(), 1)
        dp = d @ v.transpose(0, 1, 3, 2)
        ds = e * (dp - (dp * e).sum(-1, keepdims=True)) * scale
        launch(attention_back, (B, H), qkv, p, do, dqkv, scale, T=T, C=C, D=D, tolerance=4e-3,
               expected={dqkv: rows(ds @ k, ds.transpose(0, 1, 3, 2) @ q, e.transpose(0, 1, 3, 2) @ d)})
        product(dqkv, w["qkv"], dy, transpose_b=True)
        product(y1, dqkv, g["qkv"], transpose_a=True, add=True)
        layernorm_backward(x0, w["w1"], dy, *stats[0], dx, g["w1"], g["b1"])
        dwte, dwpe = g["wte"].read(), g["wpe"].read()
        np.add.at(dwte, ids, dx.read())
        launch(embed_back, (n,), tokens, dx, g["wte"], g["wpe"], T, C=C, expected={g["wte"]: dwte, g["wpe"]: dwpe + dx.read().reshape(B, T, C).sum(0)})
        for name in shapes:
            grad, value = g[name].read(), w[name].read()
            first, second = 0.9 * m1[name].read() + 0.1 * grad, 0.99 * m2[name].read() + 0.01 * grad * grad
            want = value - 1e-2 * (first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8) + 0.01 * value)
            elementwise(adamw, w[name], g[name], m1[name], m2[name], n=grad.size, more=(float(step),), tolerance=1e-4,
                        expected={w[name]: want, m1[name]: first, m2[name]: second, g[name]: 0 * grad})
    for name, error in errors.items():
        print(f"{name:16} {error:.1e}")
    print("losses " + " ".join(f"{x:.4f}" for x in losses))
    if not all(b < a for a, b in zip(losses, losses[1:])):
        sys.exit("the loss does not fall")


main()
