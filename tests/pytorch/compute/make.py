"""make.py WHEEL_KERNELS TORCH BUILD OUT: kernels that compute, for a library of the wheel (run.sh --compute).

WHEEL_KERNELS is the kernel library that kernels.c has made of it: its kernels' names and parameters. Each source here is compiled to PTX by
softgpu-clang++, translated to C by softgpu/ptx, and compiled to a library of its own (a unit, in OUT/<library>). OUT/<library>.softgpu.so has
all kernels of the wheel, those that a unit computes with its code, the others with none: to launch one is an error. Names are compared as
c++filt shows them, which has no hashes in it. Parameters have to be the same. A file is made again where what it is made of, or the command,
is another."""

import concurrent.futures
import hashlib
import pathlib
import re
import shlex
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent))
from test_kernels import kernels_of  # noqa: E402

# Lambdas of the wheel's sources, which no header holds: function, and the number of its first lambda if it has several that are meant;
# then the functor here, with the types of the lambda's arguments as {0}, {1}, or the type that the last of those around it is for as {type}.
functors = {
    "neg_kernel_cuda": "compute::neg<{0}>",
    "direct_copy_kernel_cuda": "compute::copy<{0}>",
    "bfloat16_copy_kernel_cuda": "compute::narrowed<c10::BFloat16>",
    "float16_copy_kernel_cuda": "compute::narrowed<c10::Half>",
    "rsqrt_kernel_cuda": "compute::rsqrt<{0}>",
    "sqrt_kernel_cuda": "compute::sqrt<{0}>",
    "exp_kernel_cuda": "compute::exp<{0}>",
    "xlogy_kernel_cuda": "compute::xlogy<{0}>",
    "addcmul_cuda_kernel": "compute::addcmul<{0}>",
    "addcdiv_cuda_kernel": "compute::addcdiv<{0}>",
    "lerp_scalar_kernel": "compute::lerp_scalar<{0}>",
    "cos_kernel_cuda": "compute::cos<{0}>",
    "sin_kernel_cuda": "compute::sin<{0}>",
    "pow_tensor_scalar_kernel_impl#1": "compute::square<{0}>",
    "pow_tensor_scalar_kernel_impl#2": "compute::cube<{0}>",
    "tanh_kernel_cuda": "compute::tanh<{0}>",
    "tanh_backward_kernel_cuda": "compute::tanh_backward<{0}>",
    "bitwise_not_kernel_cuda": "compute::bitwise_not<{0}>",
    "reciprocal_kernel_cuda": "compute::reciprocal<{0}>",
    "silu_kernel": "compute::silu<{0}>",
    "silu_backward_kernel": "compute::silu_backward<{0}>",
    "GeluCUDAKernelImpl#1": "compute::gelu_tanh<{0}>",
    "GeluCUDAKernelImpl#2": "compute::gelu<{0}>",
    "GeluBackwardCUDAKernelImpl#1": "compute::gelu_tanh_backward<{0}>",
    "GeluBackwardCUDAKernelImpl#2": "compute::gelu_backward<{0}>",
    "launch_clamp_scalar": "compute::clamp<{0}>",
    "masked_scale_kernel": "compute::masked_scale<{0}>",
    "sum_functor": "compute::sum<{0}>",
    "and_kernel_cuda": "compute::both<{0}>",
    "or_kernel_cuda": "compute::either<{0}>",
    "arange_cuda_out": "compute::arange<{type}>",
    "remainder_kernel_cuda": "compute::remainder<{0}>",
    "div_trunc_kernel_cuda": "compute::div_trunc<{0}>",
    "where_kernel_impl": "compute::where<{1}>",
    "compare_scalar_kernel": "compute::compare_scalar<{0}>",
    "_amp_foreach_non_finite_check_and_unscale_cuda_": "compute::unscale<{0}>",
}

of_wheel = re.compile(
    r"at::native::(?:binary_internal::)?(?:\(anonymous namespace\)::)?(\w+)(?:<[^()<>]*>)?(?:::operator\(\))?\((?:[^()]|\(anonymous namespace\))*\)"
    r"((?:::\{lambda\(\)#\d+\}::operator\(\)\(\) const)*)::\{lambda\(([^()]+)\)(#\d+)\}")

# Of AT_DISPATCH_ALL_TYPES_AND2(Half, BFloat16), in the order of its lambdas.
types = dict(zip(("#1", "#2", "#3", "#4", "#5", "#6", "#7", "#8", "#9"),
                 ("unsigned char", "signed char", "int", "long", "short", "double", "float", "c10::Half", "c10::BFloat16")))


def ours(match):
    function, chain, arguments, own = match.groups()
    numbers = re.findall(r"#\d+", chain) or [own]
    name = functors.get(function) or functors.get(function + numbers[0])
    return name.format(*arguments.split(", "), type=types.get(numbers[-1])) if name else match.group()


# Attention's kernels have many instances, by shape and architecture; here one for each type (attention.cu).
attention = re.compile(r"fmha_cutlass(?P<efficient>[FB])_(?P<element>\w+?)_\w+\(.*|void pytorch_flash::(?P<flash>\w+)<(?P<clear>true|false)?.*?"
                       r"cutlass::(?P<half>\w+)_t.*")
kernels_of_attention = {"F": "efficient_forward<{0}>", "B": "efficient_backward<{0}>", "flash_fwd_kernel": "flash_forward<{0}>",
                        "flash_bwd_dot_do_o_kernel": "flash_delta<{0}, {1}>", "flash_bwd_convert_dq_kernel": "flash_convert<{0}>",
                        "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel": "flash_backward<{0}>"}
elements = {"f32": "float", "f16": "c10::Half", "bf16": "c10::BFloat16", "half": "c10::Half", "bfloat16": "c10::BFloat16"}


def ours_of_attention(match):
    name = kernels_of_attention.get(match["efficient"] or match["flash"])
    return "void compute::" + name.format(elements[match["element"] or match["half"]], match["clear"]) if name else match.group()


# Lambdas of functions that are in a header, but have more in them than Clang's; of one that is in none.
strided = re.compile(r"at::native::gpu_kernel_impl(_nocast)?<(.*?)>\(at::TensorIteratorBase&, \2 const&\)::\{lambda\(int\)#1\}")
indexed = re.compile(r"at::native::gpu_index_kernel<at::native::index_kernel_impl<at::native::OpaqueType<(\d+)>>\(.*?::\{lambda\(int\)#1\}")


def shown(names):
    """Kernels of namespace compute without their parameters."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return re.sub(r"(?m)^(void compute::[^(\n]*)\(.*", r"\1", text.replace(" >", ">")).split("\n")[: len(names)]


def run(*command, to=None):
    out = open(to, "w") if to else None
    if subprocess.run([str(word) for word in command], stdout=out).returncode:
        sys.exit(f"failed: {shlex.join(map(str, command))}")


def kept(ptx, wanted):
    """The module without the kernels that are not wanted."""
    first, *entries = re.split(r"(?m)^(?=(?:\.visible |\.weak )?\.entry )", ptx)
    names = [re.search(r"\.entry (\w+)", entry).group(1) for entry in entries]
    for entry, text in zip(entries, shown(names)):
        first += entry if text in wanted else entry[re.search(r"(?m)^}\n", entry).end():]
    return first


def make(path, of, *command):
    """Run, if `path` is not yet that which it makes of `of`."""
    note, key = path.with_suffix(path.suffix + ".of"), hashlib.sha256("\0".join(map(str, (*command, of))).encode()).hexdigest()
    if not path.exists() or not note.exists() or note.read_text() != key:
        note.unlink(missing_ok=True)
        run(*command)
        note.write_text(key)


def make_ptx(source, torch, out):
    ptx = out / f"{source.stem}.ptx"
    softgpu = here.parents[2] / "softgpu"
    compiler = softgpu / "softgpu-clang++"
    parts = source, *sorted(here.glob("*.h")), compiler, *sorted((softgpu / "include/clang").iterdir()), torch / "version.py"
    texts = [path.read_text() for path in parts]
    make(ptx, "\0".join(texts), compiler, "-ptx", "-std=c++20", "-arch=sm_80", "-O2", "-w", "-isystem", f"{torch}/include",
         "-mllvm", "-inline-threshold=100000",  # as nvcc does: one function, no stack
         "-o", ptx, source)
    return ptx


def make_unit(source, torch, build, out, folder, wanted):
    """None: no kernel of it is wanted."""
    unit, root = folder / f"{source.stem}.so", here.parents[2]
    ptx = kept(make_ptx(source, torch, out).read_text(), wanted)
    if not re.search(r"(?m)^(?:\.visible |\.weak )?\.entry ", ptx):
        return None
    small, text, whole = (unit.with_suffix(suffix) for suffix in (".kept.ptx", ".c", ".i"))
    small.write_text(ptx)
    run(build / "bin/pytorch_translate", small, to=text)
    flags = subprocess.run([build / "bin/pytorch_translate", "--flags"], capture_output=True, text=True, check=True).stdout.split()
    run("cc", "-std=gnu11", "-E", "-P", *flags, "-I", root / "softgpu/include", "-I", root / "softgpu/ptx",
        f"-Dsoftgpu_kernel_table=unit_{source.stem}", "-o", whole, text)
    make(unit, whole.read_text(), "cc", "-std=gnu11", *flags, "-o", unit, whole, "-lm")
    return unit


def write_library(wheel, bound, units, path):
    with path.open("w") as out:
        out.write('#include "softgpu/kernel_abi.h"\n')
        for unit in units:
            out.write(f"extern const softgpu_kernel_table_t unit_{unit.stem};\n")
        for i, (name, parameters) in enumerate(wheel.items()):
            rows = "".join("{%u, %u, 0}, " % p for p in parameters)
            out.write("static const softgpu_param_t p%u[] = {%s{0, 0, 0}};\n" % (i, rows))
            out.write('static softgpu_kernel_t k%u = {.name = "%s", .param_count = %u, .params = p%u};\n' % (i, name.decode(), len(parameters), i))
        out.write("static const softgpu_kernel_t *const kernels[] = {%s};\n" % ", ".join(f"&k{i}" for i in range(len(wheel))))
        out.write("softgpu_kernel_table_t softgpu_kernel_table = {SOFTGPU_ABI_VERSION, sizeof kernels / sizeof *kernels, kernels, 0, 0};\n")
        out.write("__attribute__((constructor)) static void bind(void)\n{\n"
                  "    static const struct {\n        softgpu_kernel_t *to;\n        const softgpu_kernel_table_t *unit;\n"
                  "        uint32_t kernel;\n    } bound[] = {%s{0, 0, 0}};\n" % "".join("{&k%u, &unit_%s, %u}, " % row for row in bound))
        out.write("    for (int i = 0; bound[i].to; i++) {\n        const softgpu_kernel_t *from = bound[i].unit->kernels[bound[i].kernel];\n"
                  "        bound[i].to->run[SOFTGPU_SIMT] = from->run[SOFTGPU_SIMT];\n"
                  "        bound[i].to->static_shared_bytes = from->static_shared_bytes;\n"
                  "        bound[i].to->max_threads = from->max_threads;\n    }\n}\n")


def main():
    library, torch, build, out = (pathlib.Path(path) for path in sys.argv[1:])
    folder = out / library.name.split(".")[0]
    folder.mkdir(parents=True, exist_ok=True)
    wheel = kernels_of(library)
    numbers = {}
    for i, text in enumerate(shown([name.decode() for name in wheel])):
        text = strided.sub(lambda lambda_: f"compute::strided{'' if lambda_[1] else '_converted'}<{lambda_[2]}>", of_wheel.sub(ours, text))
        text = attention.sub(ours_of_attention, indexed.sub(r"compute::indexed<\1>", text))
        numbers.setdefault(text, []).append(i)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:  # the largest take GiB to compile
        units = list(pool.map(lambda source: make_unit(source, torch, build, out, folder, numbers), sorted(here.glob("*.cu"))))
    units = [unit for unit in units if unit]
    of = list(wheel.values())
    bound, differing = [], []
    for unit in units:
        kernels = kernels_of(unit, f"unit_{unit.stem}")
        for k, (text, parameters) in enumerate(zip(shown([name.decode() for name in kernels]), kernels.values())):
            differing += [f"{text}: {parameters}, and the wheel's {of[i]}" for i in numbers[text] if of[i] != parameters]
            bound += [(i, unit.stem, k) for i in numbers[text]]
    if differing:
        sys.exit("other parameters than the wheel's:\n" + "\n".join(differing))
    source = folder / f"{library.name}.c"
    write_library(wheel, bound, units, source)
    run("cc", "-shared", "-fPIC", "-I", here.parents[2] / "softgpu/include", f"-Wl,-rpath,$ORIGIN/{folder.name}", "-o", out / library.name, source, *units)
    print(f"{library.name}: {len(bound)} of {len(wheel)} kernels compute")


if __name__ == "__main__":
    main()
