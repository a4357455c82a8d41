"""test_kernels.py BUILD OUT: the library that kernels.c makes of ebb's own fat binary has the kernels, with the parameters, that the one which
was built from their source has."""

import ctypes as c
import pathlib
import subprocess
import sys


class Param(c.Structure):
    _fields_ = [("offset", c.c_uint32), ("bytes", c.c_uint32), ("align", c.c_uint32)]


class Kernel(c.Structure):  # its beginning: softgpu/kernel_abi.h
    _fields_ = [("name", c.c_char_p), ("count", c.c_uint32), ("params", c.POINTER(Param))]


class Table(c.Structure):
    _fields_ = [("version", c.c_uint32), ("count", c.c_uint32), ("kernels", c.POINTER(c.POINTER(Kernel)))]


def kernels_of(library, table="softgpu_kernel_table"):
    """In the table's order: names, and the offsets and sizes of parameters."""
    table = Table.in_dll(c.CDLL(str(library)), table)
    kernels = [table.kernels[i].contents for i in range(table.count)]
    return {k.name: [(p.offset, p.bytes) for p in k.params[: k.count]] for k in kernels}


def main():
    build, out = (pathlib.Path(path) for path in sys.argv[1:])
    include = pathlib.Path(__file__).resolve().parents[2] / "softgpu/include"
    source, library = out / "of_ebb.c", out / "of_ebb.so"
    with source.open("w") as file:
        subprocess.run([build / "bin/pytorch_kernels", build / "ckpt/hash.fatbin"], stdout=file, check=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-I", include, "-o", library, source], check=True)
    made, real = kernels_of(library), kernels_of(build / "lib/libebb.so.softgpu.so")
    # A program with one kernel that says what is meant (tests/ckpt/programs/nasty/lists.cu).
    table = subprocess.run([build / "bin/pytorch_kernels", "--known", build / "bin/nasty"], capture_output=True, text=True, check=True).stdout
    known = {line.split()[0]: line.split()[1:4] for line in table.splitlines()}
    print(f"{len(made)} kernels, {sum(map(len, made.values()))} parameters")
    sys.exit(not (made == real and made and known["multi_tensor_apply_kernel"] == ["1", "of", "1"] and known["10TensorInfoI"] == ["0", "of", "0"]))


if __name__ == "__main__":
    main()
