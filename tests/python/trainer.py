"""trainer.py SCENE: a program of CUDA's runtime alone (ctypes), for the module `ebb`; without ebb it runs as well.
The last line of output is a JSON object: the hash of what it has made, and what the scene has seen. TRAINER_STEPS: 30."""

import ctypes
import hashlib
import json
import os
import sys

import ebb

BUFFERS, FLOATS = 12, 1 << 20
cuda = ctypes.CDLL("libcudart.so.13")
kernels = ctypes.CDLL(os.environ["TEST_KERNELS"])


def launch(name, *arguments):
    """A kernel of tests/ckpt/programs/loop.cuh; whole numbers are sizes."""
    result = getattr(kernels, name)(*(ctypes.c_size_t(a) if isinstance(a, int) else a for a in arguments))
    if result:
        sys.exit(f"{name}: {result}")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        sys.exit(f"{name}: {result}")


class Trainer:
    def __init__(self):
        self.stream = ctypes.c_void_p()
        call("cudaStreamCreateWithFlags", ctypes.byref(self.stream), 1)
        self.weights = ctypes.c_void_p()
        call("cudaMalloc", ctypes.byref(self.weights), ctypes.c_size_t(4 * FLOATS))
        launch("loop_fill", self.weights, ctypes.c_uint(1), FLOATS, self.stream)
        self.sums = ctypes.c_void_p()
        call("cudaMalloc", ctypes.byref(self.sums), ctypes.c_size_t(4 * FLOATS))
        call("cudaMemset", self.sums, 0, ctypes.c_size_t(4 * FLOATS))

    def allocate(self):
        at = ctypes.c_void_p()
        call("cudaMallocAsync", ctypes.byref(at), ctypes.c_size_t(4 * FLOATS), self.stream)
        return at

    def step(self, number):
        """Each buffer follows from the one before; on the way back all are read."""
        buffers = [self.allocate()]
        launch("loop_fill", buffers[0], ctypes.c_uint(number), FLOATS, self.stream)
        for _ in range(BUFFERS):
            buffers.append(self.allocate())
            launch("loop_forward", buffers[-1], buffers[-2], self.weights, None, FLOATS, FLOATS, self.stream)
        for buffer in reversed(buffers):
            launch("loop_probe", self.sums, buffer, FLOATS, self.stream)
            call("cudaFreeAsync", buffer, self.stream)

    def hash(self):
        host = ctypes.create_string_buffer(4 * FLOATS)
        call("cudaStreamSynchronize", self.stream)
        call("cudaMemcpy", host, self.sums, ctypes.c_size_t(4 * FLOATS), 2)
        return hashlib.sha256(host.raw).hexdigest()


def plain(trainer, steps):
    for number in range(steps):
        trainer.step(number)
    return {"stats": ebb.stats(), "devices": ebb.device_count(), "budget": ebb.budget(), "version": ebb.version(), "figures": ebb.figures()}


def told(trainer, steps):
    """Each function once, in the course of a training."""
    seen = {}
    for number in range(steps):
        ebb.step()
        with ebb.named("python step"):
            if number == steps // 3:
                before = ebb.stats()
                ebb.set_budget("40MiB")
                seen["budget"] = ebb.budget()
            if number == steps // 2:
                with ebb.paused(), ebb.keep((trainer.weights.value, 4 * FLOATS)):
                    trainer.step(number)
                    seen["while_paused"] = ebb.stats().get("steps_driven", 0)
            else:
                trainer.step(number)
    seen["figures"] = ebb.figures(before)
    seen["stats"] = ebb.stats()
    return seen


def wrong(trainer, steps):
    """What means nothing is an exception."""

    def raised(function, *arguments):
        try:
            with function(*arguments) or open(os.devnull):
                return "nothing"
        except Exception as error:  # noqa: BLE001 (its kind is the result)
            return type(error).__name__

    trainer.step(0)
    host = ctypes.create_string_buffer(64)
    return {
        "size": raised(ebb.set_budget, "many"),
        "peak": raised(ebb.set_budget, "60%peak"),
        "device": raised(ebb.set_budget, "1GiB", 7),
        "host": raised(ebb.keep, (ctypes.addressof(host), 64)),
        "thing": raised(ebb.keep, 3.5),
    }


def main():
    trainer = Trainer()
    scene = {"plain": plain, "told": told, "wrong": wrong}[sys.argv[1]]
    seen = scene(trainer, int(os.environ.get("TRAINER_STEPS", "30")))
    print(json.dumps({"active": ebb.active(), "hash": trainer.hash(), **seen}))


if __name__ == "__main__":
    main()
