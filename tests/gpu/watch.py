"""Memory in use while a program runs: of the device by NVML, or of the process (its resident set) in trials without a GPU.

A watch has start(pid), where pid leads a process group of its own, and stop(), which gives the most bytes that were seen (None: not
to be had). `way` tells what was watched.
"""

import ctypes
import os
import pathlib
import threading


class Process(ctypes.Structure):
    """nvmlProcessInfo_t"""

    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("instance", ctypes.c_uint), ("compute", ctypes.c_uint)]


class Memory(ctypes.Structure):
    """nvmlMemory_t"""

    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


NOT_KNOWN = 1 << 50  # bytes of a process from here on: the driver does not tell (it says all ones)


class Nvml:
    """What the watch asks of NVML. Raises OSError where it cannot be had."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        try:
            self.check(self.library.nvmlInit_v2())
            self.find_device(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip())
        except AttributeError as error:
            raise OSError(f"an NVML that is too old: {error}") from None

    @staticmethod
    def check(status):
        if status:
            raise OSError(f"NVML: error {status}")

    def find_device(self, first):
        """The one that CUDA calls 0: run.sh sets CUDA_DEVICE_ORDER=PCI_BUS_ID, NVML's own order."""
        if first.startswith(("GPU-", "MIG-")):
            self.check(self.library.nvmlDeviceGetHandleByUUID(first.encode(), ctypes.byref(self.device)))
        else:
            number = int(first) if first.isdigit() else 0
            self.check(self.library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(self.device)))

    def used(self):
        memory = Memory()
        return 0 if self.library.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(memory)) else memory.used

    def processes(self):
        """Bytes by process id; 0 where the driver does not tell them."""
        infos, count = (Process * 128)(), ctypes.c_uint(128)
        if self.library.nvmlDeviceGetComputeRunningProcesses_v3(self.device, ctypes.byref(count), infos):
            return {}
        return {p.pid: p.used if p.used < NOT_KNOWN else 0 for p in infos[: count.value]}

    def driver(self):
        text = ctypes.create_string_buffer(96)
        return None if self.library.nvmlSystemGetDriverVersion(text, 96) else text.value.decode()


def in_group(pid, group):
    try:
        return os.getpgid(pid) == group
    except OSError:
        return False


class Sampler:
    """Calls sample() on a thread, every `seconds`, between start and stop."""

    seconds = 0.02  # what was in use stays so for longer, and each question takes the driver some time

    def start(self, pid):
        self.pid, self.over = pid, threading.Event()
        self.thread = threading.Thread(target=self.keep_sampling, daemon=True)
        self.thread.start()

    def keep_sampling(self):
        while not self.over.wait(self.seconds):
            self.sample()

    def finish(self):
        self.over.set()
        self.thread.join()


class Device(Sampler):
    """By NVML, in this order of preference:

    process        what the driver says of the group's processes
    new processes  of those that were not there before: in a container the driver may know processes by other numbers
    device         of the whole device, less what was in use before: it may name no processes at all
    """

    def __init__(self, nvml):
        self.nvml, self.way = nvml, None

    def start(self, pid):
        self.most = {"process": 0, "new processes": 0, "device": 0}
        self.there, self.before = set(self.nvml.processes()), self.nvml.used()
        super().start(pid)

    def sample(self):
        held = self.nvml.processes()
        for way, bytes_now in (("process", sum(used for pid, used in held.items() if in_group(pid, self.pid))),
                               ("new processes", sum(used for pid, used in held.items() if pid not in self.there)),
                               ("device", self.nvml.used() - self.before)):
            self.most[way] = max(self.most[way], bytes_now)

    def stop(self):
        self.finish()
        self.way = next((way for way, most in self.most.items() if most), "device")
        return self.most[self.way]


class Resident(Sampler):
    """The process's resident set."""

    way = "resident set"

    def start(self, pid):
        self.most = 0
        super().start(pid)

    def sample(self):
        try:
            lines = pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return
        self.most = max([self.most] + [1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")])

    def stop(self):
        self.finish()
        return self.most or None


class Nothing:
    """Where there is no NVML."""

    way = None

    def start(self, _pid):
        pass

    def stop(self):
        return None


def watch_for(device):
    if device == "cpu":
        return Resident()
    try:
        return Device(Nvml())
    except OSError:
        return Nothing()
