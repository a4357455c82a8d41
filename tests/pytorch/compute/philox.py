"""philox.py: PyTorch's random numbers on a GPU, computed here: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)
by seed, subsequence and offset as cuRAND's documentation has them, and a subsequence for each thread of PyTorch's kernels (DistributionTemplates.h).
And the cases of test_kernels_of_torch.py that compare with it."""

import math

import numpy as np
import torch

SEED = 2**40 + 1601  # with it some keys of permutations are equal
EPSILON = np.float32(2.0**-23)
LIKELY = 1.95  # by chance above it: one in a thousand, in units of 1 / sqrt(n) of Kolmogorov and Smirnov's statistic


def philox(seed, subsequence, block):
    """Four words of 32 bits for each of the arrays' elements: of a subsequence its so many-th block."""
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    subsequence, block = (a.astype(np.uint64) for a in np.broadcast_arrays(subsequence, block))
    x, key = [block & low, block >> high, subsequence & low, subsequence >> high], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [(b >> high) ^ x[1] ^ np.uint64(key[0]), b & low, (a >> high) ^ x[3] ^ np.uint64(key[1]), a & low]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(x, -1)


def threads_of(count):
    """Of a distribution's kernel for so many elements: 256 for each 256 elements, as many as the device holds at once."""
    device = torch.cuda.get_device_properties(0)
    return 256 * min(device.multi_processor_count * (device.max_threads_per_multi_processor // 256), -(-count // 256))


def drawn(count, offset, of_block):
    """For each element the block that it is of, and its number in it, of so many: a thread has every so many-th element."""
    nth, thread = np.divmod(np.arange(count), threads_of(count))
    return philox(SEED, thread, nth // of_block + offset // 4), nth % of_block


def take(blocks, which):
    return np.take_along_axis(blocks, which[:, None], 1)[:, 0]


def words(count, offset=0):
    return take(*drawn(count, offset, 4))


def wide_words(count, offset=0):
    """Of 64 bits: of integers from a range of 2^28 or more."""
    blocks, which = drawn(count, offset, 2)
    return take(blocks[:, ::2] << np.uint64(32) | blocks[:, 1::2], which)


def in_unit(word):
    """In (0, 1], as cuRAND has it, in float32."""
    return word.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)


def uniform(count, offset=0):
    """In [0, 1)."""
    u = in_unit(words(count, offset))
    return np.where(u == 1, np.float32(0), u)


def normal(count, offset=0):
    """Box and Muller's, of two words that are drawn together."""
    blocks, which = drawn(count, offset, 4)
    radius = np.sqrt(-2 * np.log(in_unit(take(blocks, which // 2 * 2)).astype(float)))
    angle = 2 * math.pi * in_unit(take(blocks, which // 2 * 2 + 1)).astype(float)
    return radius * np.where(which % 2, np.cos(angle), np.sin(angle))


def exponential(count, offset=0):
    u = in_unit(words(count, offset))
    return np.where(u >= 1 - EPSILON / 2, EPSILON / 2, -np.log(u.astype(float)))


def permutation(count):
    """randperm's, and how many of its elements have keys that others have: sorted by random keys, of which so many bits count that two are seldom
    equal; the elements of equal keys are shuffled."""
    bits = min(64, math.ceil(math.log2(count - (6 * count * count + 1) / (12 * math.log(0.9)))))
    width = 32 if bits <= 32 else 64
    keys = (wide_words(count) % np.uint64(2**width - 1) - np.uint64(2 ** (width - 1))) & np.uint64(2**bits - 1)
    if bits == width:
        keys ^= np.uint64(2 ** (width - 1))
    order, offset, shared = np.argsort(keys, kind="stable"), 4 * -(-count // (2 * threads_of(count))), 0
    begins = np.append(np.flatnonzero(np.diff(keys[order], prepend=keys[order[0]] + np.uint64(1))), count)
    for begin, end in ((begins[i], begins[i + 1]) for i in np.flatnonzero(np.diff(begins) > 1)):
        word = philox(SEED, begin, offset // 4 + np.arange(end - begin)).reshape(-1)
        for n, i in enumerate(range(end - begin - 1, 0, -1)):
            k = int(word[n]) % (i + 1)
            order[[begin + i, begin + k]] = order[[begin + k, begin + i]]
        shared += end - begin
    return order, shared


def other_than(got, expected, close=0.0):
    """"" if it is the same, or so close."""
    expected = torch.from_numpy(np.ascontiguousarray(expected)).to(got.dtype)
    got = got.cpu().reshape(-1)
    error = (got.double() - expected.double()).abs().max().item()
    return "" if error <= close else f"{error:.2g} off"


def unlike(numbers, mean, variance, below):
    """"" if numbers are distributed as that, `below` being the share of those below x."""
    x = np.sort(numbers.double().cpu().numpy().reshape(-1))
    n = len(x)
    steps = np.arange(n + 1) / n
    distance = max((steps[1:] - below(x)).max(), (below(x) - steps[:-1]).max()) * math.sqrt(n)
    far = abs(x.mean() - mean) / math.sqrt(variance / n)
    wide = x.var() / variance
    return "" if distance < LIKELY and far < 3.3 and abs(wide - 1) < 0.03 else f"distance {distance:.2f}, mean {far:.1f} sigma off, variance {wide:.3f} times"


def again(draw):
    """Of a fresh generator, twice."""
    torch.cuda.manual_seed(SEED)
    first = draw()
    torch.cuda.manual_seed(SEED)
    if not torch.equal(first.cpu(), draw().cpu()):
        raise RuntimeError("differs when it is run again")
    return first


def samples(rows, columns, count):
    """torch.multinomial's with replacement; each has to be where its number is among the running sums, but for rounding."""
    weights = torch.rand(rows, columns, generator=torch.Generator().manual_seed(3))
    weights[:, 2] = 0
    got = again(lambda: torch.multinomial(weights.cuda(), count, replacement=True)).cpu().reshape(rows, count).numpy()
    number = in_unit(philox(SEED, np.arange(rows)[:, None] * (-(-count // 128) * 128) + np.arange(count), 0)[..., 0])
    sums = np.cumsum((weights / weights.sum(1, keepdim=True)).double().numpy(), 1)
    before = np.take_along_axis(np.pad(sums, ((0, 0), (1, 0))), got, 1)
    wrong = (got == 2) | (before > number + 1e-6) | (np.take_along_axis(sums, got, 1) < number - 1e-6)
    return f"{wrong.sum()} of {wrong.size} wrong" if wrong.any() else ""


def largest(shape, count):
    """torch.multinomial's of one sample or without replacement: where weights by exponential numbers are largest, but for rounding, sorted by that."""
    weights = torch.rand(shape, generator=torch.Generator().manual_seed(3))
    weights[..., 2] = 0
    got = again(lambda: torch.multinomial(weights.cuda(), count)).cpu().reshape(-1, count).numpy()
    quotients = weights.double().numpy().reshape(len(got), -1) / exponential(weights.numel()).reshape(len(got), -1)
    taken = np.take_along_axis(quotients, got, 1)
    rest = quotients.copy()
    np.put_along_axis(rest, got, -1, 1)
    close = 1 + 1e-4
    wrong = (got == 2).sum() + (taken[:, 1:] > taken[:, :-1] * close).sum() + (rest.max(1) > taken[:, -1] * close).sum()
    wrong += sum(len(set(row)) < count for row in got.tolist())
    return f"{wrong} wrong" if wrong else ""


def truncated(count, begin, end):
    """torch.nn.init.trunc_normal_'s of mean 1 and deviation 2: what is a uniform number's share below, of the shares between the two ends."""
    below = [math.erf((x - 1) / 8**0.5) for x in (begin, end)]
    got = again(lambda: torch.nn.init.trunc_normal_(torch.empty(count, device="cuda"), 1, 2, begin, end)).double().cpu().numpy()
    expected = below[0] + (below[1] - below[0]) * uniform(count).astype(float)
    error = np.abs(np.vectorize(math.erf)((got - 1) / 8**0.5) - expected).max()
    if got.min() < begin or got.max() > end or error > 1e-6:
        return f"from {got.min()} to {got.max()}, a share of {error:.2g} off"
    return ""


def randoms(dtype):
    """Cases of that type: name, and what is wrong."""
    cuda = dict(device="cuda", dtype=dtype)
    rounding = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}[dtype]
    for count in (1, 255, 3000, 1000003):
        yield f"uniform {count}", lambda n=count: other_than(again(lambda: torch.rand(n, **cuda)), rounded(uniform(n), dtype))
        yield f"normal {count}", lambda n=count: other_than(again(lambda: torch.randn(n, **cuda)), normal(n), 1e-5 + 4 * rounding)
        yield (f"exponential {count}",
               lambda n=count: other_than(again(lambda: torch.empty(n, **cuda).exponential_()), exponential(n), 1e-5 + 8 * rounding))
        yield f"bernoulli {count}", lambda n=count: other_than(again(lambda: torch.empty(n, **cuda).bernoulli_(0.3)), in_unit(words(n)) < np.float32(0.3))
    yield "uniform, not contiguous", lambda: other_than(again(lambda: torch.zeros(50, 40, **cuda)[:, ::2].uniform_()), rounded(uniform(1000), dtype))
    yield ("uniform of a range, after another",
           lambda: other_than(again(lambda: (torch.rand(3000, **cuda), torch.empty(3000, **cuda).uniform_(-3, 5))[1]), rounded(8 * uniform(3000, 4) - 3, dtype, -3, 5),
                              8 * rounding))
    if dtype != torch.float32:
        return
    integers = dict(device="cuda", dtype=torch.int64)
    yield "integers", lambda: other_than(again(lambda: torch.randint(-7, 50, (3000,), device="cuda")), (words(3000) % 57).astype(np.int64) - 7)
    yield ("integers of a wide range", lambda: other_than(again(lambda: torch.randint(5, 2**40, (3000,), device="cuda")),
                                                          (wide_words(3000) % np.uint64(2**40 - 5)).astype(np.int64) + 5))
    yield ("integers of 64 bits",
           lambda: "" if torch.equal(again(lambda: torch.empty(3000, **integers).random_(-(2**63), None)).cpu(),
                                     torch.from_numpy(wide_words(3000).view(np.int64))) else "others")
    yield ("bernoulli of probabilities", lambda: other_than(again(lambda: torch.bernoulli(torch.linspace(0, 1, 999).cuda())),
                                                            in_unit(philox(SEED, np.arange(999) // 4, 0)[np.arange(999), np.arange(999) % 4]) <=
                                                            torch.linspace(0, 1, 999).numpy()))
    for count in (1, 2, 7, 100, 3000, 29000, 50000):  # with keys of 64 bits from 30084 on
        yield f"permutation {count}", lambda n=count: other_than(again(lambda: torch.randperm(n, device="cuda")), permutation(n)[0])
    yield "permutations with equal keys", lambda: "" if permutation(7)[1] and permutation(100)[1] and permutation(3000)[1] else "none: another seed is needed"
    for rows, columns, count in ((4, 50, 300), (1, 50, 700), (1, 20000, 300), (3, 7, 2)):
        yield f"multinomial of {rows} x {columns}, {count} with replacement", lambda shape=(rows, columns, count): samples(*shape)
    for shape in ((50,), (1, 9), (4, 50), (3, 4000)):
        for count in (1, 2, 20, 40, 100, 700, 1500, 3000):
            if count < shape[-1]:
                yield f"multinomial of {shape}, {count}", lambda shape=shape, n=count: largest(shape, n)
    yield "truncated normal", lambda: truncated(3000, -3, 4)
    yield "truncated normal of one side", lambda: truncated(3000, 2, 9)
    many = 200000
    yield "distribution of uniform", lambda: unlike(again(lambda: torch.rand(many, **cuda)), 0.5, 1 / 12, lambda x: x)
    erf = np.vectorize(math.erf)
    yield ("distribution of normal",
           lambda: unlike(again(lambda: torch.nn.init.normal_(torch.empty(many, **cuda), 3, 2)), 3, 4, lambda x: 0.5 + 0.5 * erf((x - 3) / 8**0.5)))
    yield "distribution of exponential", lambda: unlike(again(lambda: torch.empty(many, **cuda).exponential_(4)), 0.25, 1 / 16, lambda x: 1 - np.exp(-4 * x))


def rounded(numbers, dtype, begin=0.0, end=1.0):
    """What rounds to the end is the beginning."""
    numbers = torch.from_numpy(numbers).to(dtype).double().numpy()
    return np.where(numbers == end, begin, numbers)
