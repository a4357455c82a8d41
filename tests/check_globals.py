#!/usr/bin/env python3
"""check_globals.py OBJECT...: the mutable file-scope variables of libebb are those below. State is passed along (alloc/device.h, ckpt/run/state.h):
what is new here wants a place there."""

import pathlib
import re
import subprocess
import sys

# What cannot be passed.
STAYS = {
    "alloc/base/driver.c": "ebb_driver",
    "alloc/base/libc_symbol.c": "ebb_libc",
    "alloc/base/options.c": "ebb_options",
    "alloc/base/status.c": "broken",
    "alloc/base/thread.c": "ebb_this_thread",
    "alloc/device.c": "ebb_current_device",
    "alloc/lock.c": "lock",
    "hook/enter.c": "ebb_global",
    "hook/nccl.c": "nccl",  # called in NCCL's place, with NCCL's arguments
    "ckpt/run/profile/nvtx.c": "nvtx",  # called by NVTX, which passes nothing
    "offload/pin_ahead.c": "ebb_pinned_call",  # of each thread
}
MUTABLE = re.compile(r"^\S+ .{7} (?:\.data|\.bss|\.tdata|\.tbss)(?!\.rel\.ro)\S*\s+[0-9a-f]+ (?:\.hidden )?([^.\s]\S*)$")


def variables(objects):
    for path in objects:
        source = re.sub(r"^.*CMakeFiles/ebb_(\w+)\.dir/(?:\./)?(.*)\.o$", lambda m: {"plan": "ckpt"}.get(m[1], m[1]) + "/" + m[2], path)
        for line in subprocess.run(["objdump", "-t", path], capture_output=True, text=True, check=True).stdout.splitlines():
            if found := MUTABLE.match(line):
                yield source, re.sub(r"\.\d+$", "", found[1])


def main():
    expected = {(path, name) for path, names in STAYS.items() for name in names.split()}
    found = set(variables(path for argument in sys.argv[1:] for path in argument.split(";")))
    for path, name in sorted(found - expected):
        print(f"{path}: {name} is a mutable variable of the process: pass it along")
    for path, name in sorted(expected - found):
        print(f"{path}: {name} is gone: take it from the list")
    print(f"{len(found)} mutable file-scope variables")
    sys.exit(found != expected)


if __name__ == "__main__":
    main()
