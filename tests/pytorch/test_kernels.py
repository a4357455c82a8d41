"""test_kernels.py BUILD OUT: the library that kernels.c makes of ebb's own fat binary has the kernels, with the parameters, that the one which
was built from their source has."""

import ctypes as c
import pathlib
import subprocess
import sys


class Param(c.Structure):
    _fields_ = [("offset", c.c_uint32), ("bytes", c.c_uint32)]


class Kernel(c.Structure):  # its beginning: softgpu/kernel_abi.h
    _fields_ = [("name", c.c_char_p), ("count", c.c_uint32), ("params", c.POINTER(Param))]


class Table(c.Structure):
    _fields_ = [("version", c.c_uint32), ("count", c.c_uint32), ("kernels", c.POINTER(c.POINTER(Kernel)))]


def kernels_of(library):
    table = Table.in_dll(c.CDLL(str(library)), "softgpu_kernel_table")
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
    print(f"{len(made)} kernels, {sum(map(len, made.values()))} parameters")
    sys.exit(not (made == real and made))


if __name__ == "__main__":
    main()
