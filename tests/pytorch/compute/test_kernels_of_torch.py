"""test_kernels_of_torch.py [WORD]...: operators of PyTorch whose kernels no header of the wheel holds (norm.cu, softmax.cu, loss.cu, dropout.cu,
shape.cu, indexing.cu, sort.cu, attention.cu, some of elementwise.cu, multi_tensor.cu and reduce.cu), forward and backward, against PyTorch's CPU
backend; random numbers (random.cu) against those that philox.py computes. run.sh --compute runs it. A line for each case; with
words, those whose name has one. 1 if one is wrong, differs when it is run again, or lacks a kernel."""

import sys

import torch
import torch.nn.functional as F
from philox import randoms
from torch.nn.attention import SDPBackend, sdpa_kernel

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CLOSE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.int64: 0, torch.bool: 0}  # of the largest number
WIDTHS = (1, 5, 64, 77, 200, 513, 1024, 2048, 3000, 5000, 70001)


def results(of, inputs, dtype):
    """What it gives, and the gradients of what has one, for random gradients of its outputs."""
    inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    out = of(*inputs)
    out = [out] if torch.is_tensor(out) else list(out)
    differentiable = [(y, g) for y, g in zip(out, gradients_for(out, dtype)) if y.requires_grad]
    wanted = [x for x in inputs if x.requires_grad] if differentiable else []
    grads = torch.autograd.grad([y for y, _ in differentiable], wanted, [g for _, g in differentiable], allow_unused=True) if wanted else []
    return [y.detach().cpu() for y in out] + [g.cpu() for g in grads if g is not None]


def gradients_for(out, dtype):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(y.shape, generator=generator).to(dtype).to(y) for y in out]


def difference(of, inputs, dtype, reference=None):
    """Against CPU in double, by the type's rounding; "" if it is right."""
    device = [x.cuda() for x in inputs]
    got, again = results(of, device, dtype), results(of, device, dtype)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    expected = results(reference or of, wide, dtype)
    if len(got) != len(expected):
        return f"{len(got)} results, not {len(expected)}"
    for i, (a, b, c) in enumerate(zip(got, again, expected)):
        if a.shape != c.shape:
            return f"result {i} is {tuple(a.shape)}, not {tuple(c.shape)}"
        if a.numel() and not torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8)):
            return f"result {i} differs when it is run again"
        if not torch.equal(a.isnan(), c.isnan()):
            return f"result {i} is NaN elsewhere"
        error = (a.nan_to_num().double() - c.nan_to_num().double()).abs().max().item() if a.numel() else 0
        scale = max(1.0, c.nan_to_num().double().abs().max().item()) if c.numel() else 1
        if error > CLOSE[a.dtype] * scale:
            return f"result {i} is {error:.2g} off, of {scale:.2g}"
    return ""


def random(*shape, dtype):
    return torch.randn(*shape).to(dtype)


def norms(dtype):
    for width in WIDTHS:
        x, g, b = random(5, width, dtype=dtype), random(width, dtype=dtype), random(width, dtype=dtype)
        yield f"layer_norm {width}", lambda x, g, b, w=width: F.layer_norm(x, (w,), g, b), (x, g, b)
        yield f"rms_norm {width}", lambda x, g, w=width: F.rms_norm(x, (w,), g, 1e-5), (x, g)
    for rows in (0, 1, 63, 64, 100, 300, 600, 1500):
        x, g, b = random(rows, 72, dtype=dtype), random(72, dtype=dtype), random(72, dtype=dtype)
        yield f"layer_norm rows {rows}", lambda x, g, b: F.layer_norm(x, (72,), g, b), (x, g, b)
        yield f"rms_norm rows {rows}", lambda x, g: F.rms_norm(x, (72,), g, 1e-5), (x, g)
    yield "layer_norm plain", lambda x: F.layer_norm(x, (77,)), (random(9, 77, dtype=dtype),)


def softmaxes(dtype):
    for width in (2, 3, 9, 17, 33, 128, 129) + WIDTHS:
        x = random(3, width, dtype=dtype)
        yield f"softmax {width}", lambda x: F.softmax(x, -1), (x,)
        yield f"log_softmax {width}", lambda x: F.log_softmax(x, -1), (x,)
    for shape in ((7, 5), (3, 40, 9), (2, 100, 70), (0, 5)):
        yield f"softmax {shape} along 1", lambda x: F.softmax(x, 1 if x.dim() > 2 else 0), (random(*shape, dtype=dtype),)
        yield f"log_softmax {shape} along 1", lambda x: F.log_softmax(x, 1 if x.dim() > 2 else 0), (random(*shape, dtype=dtype),)
    if dtype != torch.float32:
        for width in (33, 200, 3000):
            yield (f"softmax {width} to fp32", lambda x: F.softmax(x, -1, dtype=torch.float32 if x.is_cuda else torch.float64),
                   (random(4, width, dtype=dtype),))


def losses(dtype):
    for rows in (1, 5, 31, 100, 1000):
        x, t = random(rows, 13, dtype=dtype), torch.randint(13, (rows,))
        t[::3] = -100
        w = torch.rand(13).to(dtype)
        for reduction in ("sum", "mean"):
            yield f"nll_loss {rows} {reduction}", lambda x, t, r=reduction: F.nll_loss(x, t, reduction=r), (x, t.clamp(min=0))
            yield (f"nll_loss {rows} {reduction} ignoring", lambda x, t, r=reduction: F.nll_loss(x, t, reduction=r, ignore_index=-100), (x, t))
            yield (f"nll_loss {rows} {reduction} weighted", lambda x, t, w, r=reduction: F.nll_loss(x, t, w.detach(), reduction=r), (x, t, w))
    yield "nll_loss of a row", lambda x, t: F.nll_loss(x, t), (random(13, dtype=dtype), torch.tensor(4))
    yield "cross_entropy 211", lambda x, t: F.cross_entropy(x, t), (random(50, 211, dtype=dtype), torch.randint(211, (50,)))
    yield "cross_entropy 4096", lambda x, t: F.cross_entropy(x, t), (random(9, 4096, dtype=dtype), torch.randint(4096, (9,)))


def shapes(dtype):
    a, b = random(3, 5, 8, dtype=dtype), random(3, 5, 24, dtype=dtype)
    c, d = random(3, 7, 13, dtype=dtype), random(7, 3, 13, dtype=dtype)
    yield "cat of whole vectors", lambda a, b: torch.cat((a, b), -1), (a, b)
    yield "cat of rows", lambda a: torch.cat((a, a, a)), (a,)
    yield "cat in the middle", lambda c: torch.cat((c, c), 1), (c,)
    yield "cat at the end", lambda c: torch.cat((c, c, c), 2), (c,)
    yield "cat transposed", lambda a: torch.cat((a.transpose(1, 2), a.transpose(1, 2)), 1), (a,)
    yield "cat of both sorts", lambda c, d: torch.cat((c, d.transpose(0, 1)), 1), (c, d)
    yield "cat of 200", lambda c: torch.cat([c[i % 3] for i in range(200)], 1), (c,)
    yield "cat with an empty one", lambda a: torch.cat((a[:, :0], a), 1), (a,)
    yield "cat of integers", lambda x: torch.cat((x, x[:, :3]), 1), (torch.randint(99, (3, 5)),)
    yield "cat of heads", lambda a: torch.cat((a.view(3, 5, 2, 4).transpose(1, 2), a.view(3, 5, 2, 4).transpose(1, 2)), -1), (a,)
    for k in (-2, 0, 3):
        yield f"tril {k}", lambda c, k=k: torch.tril(c, k), (c,)
        yield f"triu {k}", lambda d, k=k: torch.triu(d.transpose(0, 1), k), (d,)
    yield "tril of bool", lambda x: torch.tril(x), (torch.ones(9, 11, dtype=torch.bool),)


def packings(dtype):
    """Lists of tensors: what FSDP does around its collectives, and what optimizers do."""

    def added(*tensors):
        sums, zeros = [x.detach().clone() for x in tensors], [x.detach().clone() for x in tensors]
        torch._foreach_add_(sums, zeros)
        torch._foreach_zero_(zeros)
        return *sums, *zeros

    def split(x, sizes=(1, 5, 0, 300, 2)):
        x = x.detach()
        out = [torch.empty(x.shape[0], size, dtype=x.dtype, device=x.device) for size in sizes]
        torch.split_with_sizes_copy(x, sizes, dim=1, out=out)
        return out

    def packed(*tensors, type=None):
        tensors = [t.detach() for t in tensors]
        if type is None:
            return torch._chunk_cat(tensors, 0, 4)
        return torch._chunk_cat(tensors, 0, 4, out=torch.empty(4, sum(-(-t.shape[0] // 4) * t[0].numel() for t in tensors), dtype=type, device=tensors[0].device))

    tensors = [random(*shape, dtype=dtype) for shape in ((8, 3), (1,), (7, 33), (3, 5, 2), (4001,))]
    yield "split into tensors", split, (random(4, 308, dtype=dtype),)
    yield "chunks of tensors, padded", packed, tensors
    if dtype == torch.bfloat16:
        yield "chunks of tensors, padded, in float32", lambda *t: packed(*t, type=torch.float32), tensors
    if dtype == torch.float32:
        yield "sums of tensors, and zeros", added, tensors
    if dtype != torch.float16:
        yield "copies of tensors", lambda *t: torch._foreach_copy_([torch.empty_like(x) for x in t], [x.detach() for x in t]), tensors


def indexings(dtype):
    for width in (8, 64, 136):  # rows of whole 16 bytes
        for count in (1, 40, 500):
            w, t = random(50, width, dtype=dtype), torch.randint(50, (count,))
            if dtype == torch.float32 or count < 500:
                yield f"embedding {width} by {count}", lambda w, t: F.embedding(t, w), (w, t)
    for count in (60, 3500):  # more than 3072 are sorted
        for rows in (9, 4096):
            w, t = random(rows, 24, dtype=dtype), torch.randint(rows, (count,))
            yield f"embedding with padding, {count} of {rows}", lambda w, t: F.embedding(t, w, padding_idx=3), (w, t)
    yield "index_select along 1", lambda w, t: torch.index_select(w.detach(), 1, t), (random(6, 9, 16, dtype=dtype), torch.randint(9, (7,)))
    if dtype == torch.float32:
        rows, columns = torch.randint(50, (500,)), torch.randint(-40, 40, (500,))
        for shape in ((50, 40), (50, 3, 70)):
            w, g = random(*shape, dtype=dtype), random(500, *shape[1:], dtype=dtype)
            yield f"index {shape}", lambda w, t: w[t], (w, rows)
            yield f"index_put {shape}", lambda w, g, t: w.index_put((t,), g, accumulate=True), (w, g, rows)
        w, g, t = random(600, 40, dtype=dtype), random(5000, 40, dtype=dtype), torch.randint(600, (5000,))
        yield "index_put of many", lambda w, g, t: w.index_put((t,), g, accumulate=True), (w, g, t)
        yield "index of two", lambda w, r, c: w.detach()[r, c], (random(50, 40, dtype=dtype), rows, columns)
    for x in (torch.randint(99, (50, 40)), torch.rand(50, 40) < 0.5, torch.randn(50, 40).to(dtype)):
        yield f"index of {x.dtype}", lambda x, t: x.detach()[:, t], (x, torch.randint(40, (9, 7)))
    yield "cumsum", lambda x: x.cumsum(-1), (torch.randint(9, (5, 300)),)


def elements(dtype):
    """Most of one type."""
    x = random(70, 64, dtype=dtype)
    yield "gelu by tanh", lambda x: F.gelu(x, approximate="tanh"), (x,)
    yield "gelu", F.gelu, (x,)
    yield "silu", F.silu, (x,)
    if dtype != torch.float32:
        return
    x, t = random(70, 33, dtype=dtype), torch.randint(-3, 4, (70, 33))
    yield "tanh", torch.tanh, (x,)
    yield "sin and cos", lambda x: (x.sin(), (100 * x).cos()), (x,)
    yield "pow", lambda x: (x.detach() ** 2, x.detach() ** 3), (x,)
    yield "sqrt", lambda x: (x.detach() ** 2 + 1).sqrt(), (x,)
    yield "rsqrt of a mean", lambda x: torch.rsqrt((x.detach() ** 2).mean(-1) + 1), (x,)
    yield "mean", lambda x: x.mean(0), (x,)
    yield "divided, transposed", lambda x: x.detach()[:, ::2].t() / 3, (x,)
    yield "quotients", lambda x: (x.detach() / (x.detach() ** 2 + 1), x.detach()[:, ::2] / (x.detach() ** 2 + 1)[:, :1]), (x,)
    yield "reciprocal in double", lambda x: (x.detach() ** 2 + 5).double().reciprocal().float(), (x,)
    yield "extremes", lambda x: (x.detach().max(), x.detach().min(), x.detach().argmax(-1), x.detach()[:, :9].argmax(0)), (x,)
    yield "what is not finite", lambda x: ((x.detach() / 0).isnan(), (x.detach() / 0).isinf(), x.detach().abs()), (torch.cat((x, 0 * x)),)
    yield "exponentials", lambda x: (x.detach().exp(), torch.xlogy(x.detach().relu(), x.detach().abs())), (x,)
    yield "three at once", lambda a, b: tuple(f(a.detach(), b.detach(), a.detach() ** 2 + 1, value=0.3) for f in (torch.addcmul, torch.addcdiv)), (x, x.flip(0))
    yield "between two", lambda a, b: tuple(torch.lerp(a.detach(), b.detach(), weight) for weight in (0.1, 0.9)), (x, x.flip(0))
    yield "integers by a number", lambda t: (t / 3, t * 0.25), (t,)
    yield "comparisons of floats", lambda x: (x.detach() == x.detach()[0, 0].item(), x.detach() >= 0.5, x.detach() < 0.5), (x,)
    yield "product of two types, transposed", lambda x: x.detach()[:, ::2].t() * x.detach().bfloat16()[:, 1::2].t()[:1], (x,)
    yield "arange", lambda x: tuple(torch.arange(*of, device=x.device) for of in ((300,), (7, -90, -3), (0, 2, 0.25))), (x,)
    yield "sums of integers", lambda t: (t + t, t + 3, t[:, ::2] + 3, t + t[:1], t[:, ::2] + t[:, 1:2], t.sum()), (t,)
    yield "comparisons", lambda t: (t == 2, t[:, ::2] == 2, t[:, ::2] == t[:, :1], t[:, ::2] <= t[:1, :17], t[:, ::2] > t[:1, :17]), (t,)
    yield "and", lambda t: ((t > 1) & (t == 2), (t > 0) & (t[:1] == 2), (t > 0).all(), (t > -9).all()), (t,)
    yield "assertion", lambda t: (torch._assert_async((t < 9).all()), t[0])[1:], (t,)


def amp(dtype):
    """The scale of AMP's gradients, and unscaling them: of float32 alone."""
    if dtype != torch.float32:
        return

    def unscaled(*gradients):
        gradients, found = [g.detach().to(torch.float32, copy=True) for g in gradients], torch.zeros(1, device=gradients[0].device)
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, torch.full((1,), 2.0**-11, device=found.device))
        return *gradients, found

    def updated(found):
        scale, steps = torch.full((1,), 2.0**15, device=found.device), torch.zeros(1, dtype=torch.int32, device=found.device)
        said = []
        for one in found.detach().float():
            torch._amp_update_scale_(scale, steps, one, 2.0, 0.25, 3)
            said += [scale.clone(), torch.tensor(steps.item())]
        return said

    gradients = [1e4 * random(*shape, dtype=dtype) for shape in ((3, 5), (64, 64), (1,), (70001,))]
    yield "unscaling of finite gradients", unscaled, gradients
    for bad in (torch.inf, -torch.inf, torch.nan):
        gradients = [g.clone() for g in gradients]
        gradients[1][7, 7] = bad
        yield f"unscaling of {bad}", unscaled, gradients
    yield "update of the scale", updated, (torch.tensor([0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0]).to(dtype),)
    yield "update of the largest scale", updated, (torch.zeros(3 * 120).to(dtype),)


def attentions(dtype):
    def of(backend, scale=None, causal=False, mask=None):
        def attend(q, k, v):
            m = mask.to(q) if mask is not None and mask.is_floating_point() else mask if mask is None else mask.to(q.device)
            with sdpa_kernel(backend if q.is_cuda else SDPBackend.MATH):
                return F.scaled_dot_product_attention(q, k, v, m, is_causal=causal, scale=scale)

        return attend

    for name, backend in (("efficient", SDPBackend.EFFICIENT_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        if name == "flash" and dtype == torch.float32:
            continue
        for queries, keys, width in ((1, 1, 8), (37, 37, 32), (33, 70, 64), (130, 130, 24), (5, 200, 128)):
            inputs = [random(2, 3, n, width, dtype=dtype) for n in (queries, keys, keys)]
            yield f"{name} {queries} x {keys} x {width}", of(backend), inputs
            if queries == keys:
                yield f"{name} causal {queries} x {keys} x {width}", of(backend, causal=True, scale=0.3), inputs
        # as models have it: heads beside each other
        inputs = [random(2, 40, 4, 32, dtype=dtype).transpose(1, 2) for _ in range(3)]
        yield f"{name} causal, transposed", of(backend, causal=True), inputs
    inputs = [random(2, 3, 40, 32, dtype=dtype) for _ in range(3)]
    yield "efficient with a mask", of(SDPBackend.EFFICIENT_ATTENTION, mask=torch.ones(40, 40, dtype=torch.bool).tril()), inputs
    yield "efficient with a bias", of(SDPBackend.EFFICIENT_ATTENTION, mask=torch.randn(2, 3, 40, 40).to(dtype)), inputs


def dropped(dtype):
    """Dropout: its own mask says what the rest has to be."""
    for shape in ((3, 64), (77, 13), (1,), (4, 100, 48)):
        def wrong(shape=shape):
            x = random(*shape, dtype=dtype).abs() + 1
            torch.cuda.manual_seed(7)
            y, mask = torch.native_dropout(x.cuda(), 0.25, True)
            y, mask = y.cpu(), mask.cpu()
            if (y.double() - x.double() * mask / 0.75).abs().max() > CLOSE[dtype] * x.abs().max():
                return "not what its mask says"
            torch.cuda.manual_seed(7)
            if not torch.equal(torch.native_dropout(x.cuda(), 0.25, True)[1].cpu(), mask):
                return "differs when it is run again"
            share = mask.double().mean().item()
            return "" if mask.numel() < 1000 or abs(share - 0.75) < 0.03 else f"keeps {share:.2f}"

        yield f"dropout {shape}", wrong
    x = torch.rand(100, 40).t().to(dtype)
    yield "dropout transposed", lambda: "" if torch.equal(*(lambda y, m: (y.cpu() != 0, m.cpu()))(*torch.native_dropout(x.cuda() + 1, 0.5, True))) else "mask"

    for name, backend in (("efficient", SDPBackend.EFFICIENT_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        if name == "flash" and dtype == torch.float32:
            continue

        def wrong_attention(backend=backend):
            def attend(q, k, v):
                torch.cuda.manual_seed(9)
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.25)

            q, k, v = (random(2, 3, 32, 32, dtype=dtype) for _ in range(3))
            eye = torch.eye(32).expand(2, 3, 32, 32).to(dtype)
            mask = attend(q.cuda(), k.cuda(), eye.contiguous().cuda()).cpu() != 0
            share = mask.double().sum().item() / (6 * 32 * 33 / 2)

            def reference(q, k, v):
                s = (q @ k.transpose(-1, -2) / 32**0.5).masked_fill(~torch.ones(32, 32, dtype=torch.bool).tril(), -torch.inf)
                return (s.softmax(-1) * mask / 0.75) @ v

            return difference(attend, (q, k, v), dtype, reference) or ("" if abs(share - 0.75) < 0.05 else f"keeps {share:.2f}")

        yield f"{name} attention with dropout", wrong_attention


def main():
    words, wrong, count = sys.argv[1:], 0, 0
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)  # the gradient of an index is sorted
    torch.utils.deterministic.fill_uninitialized_memory = False
    print("seed 1")
    for of_type, dtype in TYPES.items():
        cases = [(name, lambda of=of, inputs=inputs: difference(of, inputs, dtype)) for family in
                 (norms, softmaxes, losses, shapes, packings, indexings, elements, amp, attentions) for name, of, inputs in family(dtype)]
        for name, of in cases + list(dropped(dtype)) + list(randoms(dtype)):
            name = f"{of_type} {name}"
            if words and not any(word in name for word in words):
                continue
            try:
                why = of()
            except RuntimeError as e:  # a kernel is lacking
                why = str(e).splitlines()[0]
            count, wrong = count + 1, wrong + bool(why)
            print(f"{name}: {why or 'right'}", flush=True)
    print(f"{count} cases, {wrong} wrong")
    sys.exit(1 if wrong or not count else 0)


if __name__ == "__main__":
    main()
