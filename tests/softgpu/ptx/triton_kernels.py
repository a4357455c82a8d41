"""triton_kernels.py OUT: the kernels of a training step and some that use what is left of the language, as PTX for sm_80 and sm_90. No GPU is needed."""

import pathlib
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice


@triton.jit
def add(x, y, z, n, B: tl.constexpr):
    i = tl.program_id(0)*B + tl.arange(0,B)
    m = i < n
    tl.store(z+i, tl.load(x+i,mask=m)+tl.load(y+i,mask=m), mask=m)

@triton.jit
def softmax(x, y, n, s, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0,B)
    v = tl.load(x+r*s+i, mask=i<n, other=-float('inf')).to(tl.float32)
    v = v - tl.max(v,0)
    e = tl.exp(v)
    tl.store(y+r*s+i, e/tl.sum(e,0), mask=i<n)

@triton.jit
def layernorm(x, w, b, y, mean, rstd, n, eps, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0,B)
    m = i<n
    v = tl.load(x+r*n+i, mask=m, other=0.).to(tl.float32)
    mu = tl.sum(v,0)/n
    d = tl.where(m, v-mu, 0.)
    var = tl.sum(d*d,0)/n
    rs = 1/tl.sqrt(var+eps)
    tl.store(mean+r, mu); tl.store(rstd+r, rs)
    tl.store(y+r*n+i, (d*rs*tl.load(w+i,mask=m)+tl.load(b+i,mask=m)), mask=m)

@triton.jit
def matmul(a, b, c, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0); pn = tl.program_id(1)
    rm = pm*BM+tl.arange(0,BM); rn = pn*BN+tl.arange(0,BN); rk = tl.arange(0,BK)
    ap = a + rm[:,None]*sam + rk[None,:]
    bp = b + rk[:,None]*sbk + rn[None,:]
    acc = tl.zeros((BM,BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(tl.load(ap, mask=rk[None,:]<K-k, other=0.0), tl.load(bp, mask=rk[:,None]<K-k, other=0.0), acc)
        ap += BK; bp += BK*sbk
    tl.store(c + rm[:,None]*scm + rn[None,:], acc.to(c.dtype.element_ty), mask=(rm[:,None]<M)&(rn[None,:]<N))

@triton.jit
def matmul_i8(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.arange(0,BM); rn = tl.arange(0,BN); rk = tl.arange(0,BK)
    acc = tl.zeros((BM,BN), tl.int32)
    for k in range(0, K, BK):
        acc = tl.dot(tl.load(a+rm[:,None]*K+rk[None,:]+k), tl.load(b+(rk[:,None]+k)*BN+rn[None,:]), acc, out_dtype=tl.int32)
    tl.store(c + rm[:,None]*BN + rn[None,:], acc)

@triton.jit
def attention(q, k, v, o, n, scale, B: tl.constexpr, D: tl.constexpr):
    pid = tl.program_id(0); h = tl.program_id(1)
    rm = pid*B+tl.arange(0,B); d = tl.arange(0,D); rn = tl.arange(0,B)
    base = h*n*D
    qq = tl.load(q+base+rm[:,None]*D+d[None,:])
    m = tl.full((B,), -float('inf'), tl.float32); l = tl.zeros((B,), tl.float32); acc = tl.zeros((B,D), tl.float32)
    for s in range(0, (pid+1)*B, B):
        kk = tl.load(k+base+(s+rn)[None,:]*D+d[:,None])
        sc = tl.dot(qq,kk)*scale
        sc = tl.where(rm[:,None]>=(s+rn)[None,:], sc, -float('inf'))
        mn = tl.maximum(m, tl.max(sc,1))
        p = tl.exp2(sc-mn[:,None]); al = tl.exp2(m-mn)
        l = l*al+tl.sum(p,1)
        vv = tl.load(v+base+(s+rn)[:,None]*D+d[None,:])
        acc = acc*al[:,None]
        acc = tl.dot(p.to(vv.dtype), vv, acc)
        m = mn
    tl.store(o+base+rm[:,None]*D+d[None,:], (acc/l[:,None]).to(o.dtype.element_ty))

@triton.jit
def atomics(x, h, f, n, B: tl.constexpr):
    i = tl.program_id(0)*B+tl.arange(0,B)
    m = i<n
    b = tl.load(x+i, mask=m)
    tl.atomic_add(h+b, 1, mask=m)
    tl.atomic_max(h+b, b, mask=m)
    tl.atomic_add(f+b, 1.0, mask=m)
    tl.atomic_cas(h, 0, 1)
    tl.atomic_xchg(h+1, 3, sem='release', scope='gpu')

@triton.jit
def dropout(x, y, n, p, seed, B: tl.constexpr):
    i = tl.program_id(0)*B+tl.arange(0,B)
    r = tl.rand(seed, i)
    v = tl.load(x+i, mask=i<n)
    tl.store(y+i, tl.where(r>p, v/(1-p), 0.0), mask=i<n)

@triton.jit
def gelu(x, y, n, B: tl.constexpr):
    i = tl.program_id(0)*B+tl.arange(0,B)
    v = tl.load(x+i, mask=i<n).to(tl.float32)
    z = 0.5*v*(1+tl.erf(v*0.7071067811865476))
    z = z + tl.sin(v)*tl.log(tl.abs(v)+1) + tl.floor(v)+tl.ceil(v)+tl.rsqrt(tl.abs(v))+tl.exp2(v)+tl.log2(tl.abs(v))+tl.cos(v)
    tl.store(y+i, z.to(y.dtype.element_ty), mask=i<n)

@triton.jit
def scan(x, y, n, B: tl.constexpr):
    i = tl.arange(0,B)
    v = tl.load(x+i, mask=i<n, other=0)
    c = tl.cumsum(v,0)
    s = tl.sort(v)
    am = tl.argmax(v,0)
    tl.store(y+i, c+s+am, mask=i<n)

@triton.jit
def ints(x, y, z, n, B: tl.constexpr):
    i = tl.program_id(0)*B+tl.arange(0,B)
    a = tl.load(x+i, mask=i<n, other=1, cache_modifier='.cg'); b = tl.load(y+i, mask=i<n, other=1, eviction_policy='evict_first')
    r = a//b + a%b + (a*b) + (a<<3) + (a>>2) + (a&b) + (a|b) + (a^b) + tl.where(a<b,a,b)+ tl.umulhi(a.to(tl.uint32),b.to(tl.uint32)).to(tl.int32)
    tl.store(z+i, r, mask=i<n, cache_modifier='.cs')
    tl.device_assert(a>0)
    tl.device_print("a", a)

@triton.jit
def float8(x, y, z, n, B: tl.constexpr):
    i = tl.arange(0,B)
    v = tl.load(x+i, mask=i<n)
    tl.store(y+i, v.to(tl.float8e5), mask=i<n)
    tl.store(z+i, tl.load(y+i, mask=i<n).to(tl.float32)*v.to(tl.float32), mask=i<n)

@triton.jit
def maths(x, y, n, B: tl.constexpr):
    i = tl.arange(0,B)
    v = tl.load(x+i, mask=i<n)
    r = libdevice.tanh(v)+libdevice.pow(v,v)+libdevice.log1p(v)+libdevice.expm1(v)+libdevice.atan2(v,v)+libdevice.lgamma(v)+libdevice.erfinv(v)+libdevice.fmod(v,v)+libdevice.nearbyint(v)+libdevice.ffs(v.to(tl.int32)).to(v.dtype)+libdevice.j0(v) + libdevice.isnan(v).to(v.dtype)+libdevice.trunc(v)+libdevice.cbrt(v)+libdevice.acos(v)+libdevice.sinh(v)
    tl.store(y+i, r, mask=i<n)

@triton.jit
def histogram(x, y, n, B: tl.constexpr):
    i = tl.arange(0,B)
    h = tl.histogram(tl.load(x+i), 64)
    tl.store(y+tl.arange(0,64), h)
    tl.atomic_and(x+i, 3); tl.atomic_or(x+i,4); tl.atomic_xor(x+i, 5); tl.atomic_min(x+i, 6)
    tl.atomic_add(y, 1, sem='relaxed', scope='cta')
    tl.debug_barrier()
    while tl.atomic_cas(y+3, 0, 1, sem='acquire') == 1:
        pass
    tl.atomic_xchg(y+3, 0, sem='release')

@triton.jit
def elementwise(x, y, z, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)*B+tl.arange(0,B)
    a = tl.load(x+i, mask=i<n); b = tl.load(y+i, mask=i<n)
    tl.store(z+i, tl.maximum(a,b)*tl.minimum(a,b)-tl.abs(a)+tl.where(a>b,a,b)/b - tl.exp(a.to(tl.float32)).to(a.dtype), mask=i<n)
    tl.store(z+i, tl.max(a.to(tl.float32)).to(a.dtype), mask=i<n)
    tl.store(z, tl.clamp(a.to(tl.float32), 0., 1., propagate_nan=tl.PropagateNan.ALL).sum().to(a.dtype))


def kernels(t):
    """Name, kernel, parameters, constants and options, for elements of a type."""
    block = {"B": 1024}
    yield "add", add, f"x:*{t} y:*{t} z:*{t} n:i32", block, {}
    yield "softmax", softmax, f"x:*{t} y:*{t} n:i32 s:i32", block, {}
    yield "layernorm", layernorm, f"x:*{t} w:*{t} b:*{t} y:*{t} mean:*fp32 rstd:*fp32 n:i32 eps:fp32", block, {}
    for stages in (1, 3):
        yield f"matmul{stages}", matmul, f"a:*{t} b:*{t} c:*{t} M:i32 N:i32 K:i32 sam:i32 sbk:i32 scm:i32", {"BM": 64, "BN": 64, "BK": 32}, {"num_stages": stages}
    yield "attention", attention, f"q:*{t} k:*{t} v:*{t} o:*{t} n:i32 scale:fp32", {"B": 64, "D": 64}, {}
    yield "gelu", gelu, f"x:*{t} y:*{t} n:i32", block, {}
    yield "dropout", dropout, f"x:*{t} y:*{t} n:i32 p:fp32 seed:i32", block, {}
    yield "atomics", atomics, f"x:*i32 h:*i32 f:*{t} n:i32", block, {}
    yield "float8", float8, f"x:*{t} y:*fp8e5 z:*fp32 n:i32", block, {}
    yield "elementwise", elementwise, f"x:*{t} y:*{t} z:*{t} n:i32", block, {}


def other_kernels():
    block = {"B": 1024}
    yield "matmul_i8", matmul_i8, "a:*i8 b:*i8 c:*i32 K:i32", {"BM": 64, "BN": 64, "BK": 64}, {}
    yield "histogram", histogram, "x:*i32 y:*i32 n:i32", block, {}
    for t in ("fp32", "fp64"):
        yield f"maths_{t}", maths, f"x:*{t} y:*{t} n:i32", {"B": 128}, {}
    for t in ("i16", "i32", "i64"):
        yield f"scan_{t}", scan, f"x:*{t} y:*{t} n:i32", block, {}
    for t in ("i32", "i64"):
        yield f"ints_{t}", ints, f"x:*{t} y:*{t} z:*{t} n:i32", block, {"debug": True}


def main():
    out = pathlib.Path(sys.argv[1])
    wanted = [(f"{name}_{t}", *rest) for t in ("fp32", "fp16", "bf16") for name, *rest in kernels(t)] + list(other_kernels())
    for arch in (80, 90):
        for name, kernel, parameters, constants, options in wanted:
            signature = dict(p.split(":") for p in parameters.split()) | {c: "constexpr" for c in constants}
            source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
            compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
            (out / f"{name}_{arch}.ptx").write_text(compiled.asm["ptx"])


main()
