#!/usr/bin/env bash
# library_kernels.sh [--build DIR] [--save]: what the kernels of the toolkit's cuBLAS, cuDNN and NCCL tell of their parameters, and what ebb would make
# of them (library_kernels.c), half a minute. The table goes to stdout, of the architectures that have tensor maps and the one before them; --save writes
# results/library-kernels.json. CUDA_HOME is the toolkit (/usr/local/cuda).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../build save=''
while (($#)); do
    case $1 in
    --build)
        build=${2:?--build needs a folder}
        shift
        ;;
    --save) save=$here/results/library-kernels.json ;;
    *) echo "library_kernels.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift
done
exec python3 - "$build/bin/library_kernels" "${CUDA_HOME:-/usr/local/cuda}" "$save" <<'PYTHON'
import datetime, glob, json, os, re, subprocess, sys

program, cuda, save = sys.argv[1:]
patterns = ("libcublas.so.13", "libcublasLt.so.13", "libcudnn_*.so.9", "libnccl.so.2")
libraries = [path for pattern in patterns for path in sorted(glob.glob(f"{cuda}/lib64/{pattern}"))]
read = json.loads(subprocess.run([program, *libraries], capture_output=True, text=True, check=True).stdout)["libraries"]


def version(header, *names):
    """As the header beside the library has it."""
    try:
        text = open(f"{cuda}/include/{header}").read()
        return ".".join(re.search(rf"#define {name} +(\d+)", text).group(1) for name in names)
    except (OSError, AttributeError):
        return None


print("| library | sm | kernels | first at | 128 bytes and more | may hold maps | missed by steps of 64 | bytes, most | may be repeated |")
print("| --- " * 9 + "|")
for name, library in read.items():
    for architecture, c in library["architectures"].items():
        if architecture in ("80", "90", "100", "120") and c["first"]:
            first = ", ".join(f"{at}: {count}" for at, count in sorted(c["first"].items(), key=lambda item: int(item[0])))
            print(f"| {name.split('.')[0]} | {architecture} | {c['kernels']} | {first} | {c['structures']} | {c['may_hold_maps']} | {c['off_64']} | "
                  f"{8 * c['most_words']} | {c['may_repeat']} |")
if save:
    result = {
        "date": str(datetime.date.today()), "command": "bash bench/library_kernels.sh --save",
        "commit": subprocess.run(["git", "-C", os.path.dirname(save), "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip(),
        "versions": {"cuBLAS": version("cublas_api.h", "CUBLAS_VER_MAJOR", "CUBLAS_VER_MINOR", "CUBLAS_VER_PATCH", "CUBLAS_VER_BUILD"),
                     "cuDNN": version("cudnn_version.h", "CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"),
                     "NCCL": version("nccl.h", "NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH")},
        "libraries": {name: library for name, library in read.items() if library["architectures"]}}
    with open(save, "w") as out:
        out.write(json.dumps(result, indent=1) + "\n")
PYTHON
