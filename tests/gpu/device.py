"""The GPU that is used, as its driver and NVML tell: no nvidia-smi is needed, which containers often lack.

As a program: prints its compute capability as nvcc wants it (90), or tells in one line why there is nothing to run on (exit code 1).
--json prints all that is known. --hold keeps the device in use, without memory of it, until its input ends: where nothing else does
(persistence mode), each program would wait for seconds until the driver has made it ready.
"""

import ctypes
import json
import subprocess
import sys

import watch

CUDA = 13000  # what ebb is built for: its runtime wants a driver that knows it
MAJOR, MINOR, MULTIPROCESSORS = 75, 76, 16  # CU_DEVICE_ATTRIBUTE_*


class NoDevice(Exception):
    pass


def ask_driver():
    """name, compute capability, and so on, of the device that CUDA calls 0. This makes no context."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoDevice(f"no NVIDIA driver: {error}") from None
    version, device, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(128)
    cuda.cuDriverGetVersion(ctypes.byref(version))
    if version.value < CUDA:
        raise NoDevice(f"the driver knows CUDA {version.value // 1000}.{version.value % 1000 // 10}; 13.0 is needed: driver 580, or "
                       "the toolkit's package cuda-compat in LD_LIBRARY_PATH")
    for error in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0)):
        if error:
            raise NoDevice(f"the driver gives error {error}: is a GPU there, and visible (CUDA_VISIBLE_DEVICES)?")

    def attribute(number):
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    cuda.cuDeviceGetName(name, 128, device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    return {"device": name.value.decode(), "compute_capability": f"{attribute(MAJOR)}.{attribute(MINOR)}",
            "multiprocessors": attribute(MULTIPROCESSORS), "memory_mib": total.value >> 20, "cuda": version.value}


def about():
    """What a figure depends on, of the device; in another process, so that this one keeps no device open."""
    result = subprocess.run([sys.executable, __file__, "--json"], capture_output=True, text=True, timeout=120, check=False)
    try:
        return json.loads(result.stdout)
    except ValueError:
        return {"device": None, "why": (result.stdout + result.stderr).strip()[-300:]}


def hold():
    """Until the process that calls this ends."""
    return subprocess.Popen([sys.executable, __file__, "--hold"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            start_new_session=True)  # a terminal's interrupt is not for it


def main():
    try:
        found = ask_driver()
    except NoDevice as error:
        print(error)
        return 1
    if "--hold" in sys.argv:
        sys.stdin.read()
        return 0
    if "--json" not in sys.argv:
        print(found["compute_capability"].replace(".", ""))
        return 0
    try:
        found["driver"] = watch.Nvml().driver()
    except OSError as error:
        found["nvml"] = str(error)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
