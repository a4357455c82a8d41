"""Random programs, with and without ebb: what tests/fuzz/run.sh runs; `run.sh --help` has the options.

A program is a seed (fuzz.h). It runs by itself first, then under libebb.so with a budget, on a device that has no more memory than that,
or far more: the same hashes, and never more of the device in use than the budget.

  --budgets   as above
  --faults    calls of the driver fail: the same hashes, or the same up to where the program gave up because the error stayed
  --repeats   programs that repeat a step, with divergences: the same hashes, or the error with which ebb says that contents were lost to
              a write that it had never seen (a kernel that writes only now and then)

  --with LIST    axes, any of them together:
    small-host       next to no pinned memory for ebb, and no pageable: the program may be refused memory
    pageable         little pinned memory, the rest goes to pageable memory
    disk             little pinned memory, the rest goes to a file (EBB_DISK)
    failing-install  (--repeats) one of the last calls of the driver before ebb begins to drive a plan fails
    streams, threads at least two of them
    arenas           buffers are cut from few large allocations, as PyTorch cuts them
    deterministic    as often under the scheduler whose order follows from a seed as under real threads
    tables           most launches with many operands find them by tables in device memory, copied from the host, often new and given back at once
    interface        (--repeats) the program tells ebb what to keep, marks steps, pauses, sets budgets (ckpt/run/ebb.h)
    brings           (--repeats) operands are copied from the host into buffers that are freed at once
    lengths          (--repeats) three buffers in four have another size in every step
  --regressions  all in regressions.txt, each three times as often as it took to fail once, five times at least
  --pairs        seven sets of axes, one after another, in which every pair of them is together twice: the complements of the lines of the
                 Fano plane (Colbourn and Dinitz, "Handbook of Combinatorial Designs", II.1), and tables in five of them

Seeds from 100000 on are mean programs (fuzz_mean.c): allocations that fail between steps, memory of the driver's own that comes and goes
so that ebb's budget shrinks and grows, frees in other threads, and where steps repeat buffers that live for several of them, writes that
begin late, evaluations; with pinned memory from nothing to plenty.

In a build with small chunks the same programs are some twelve times cheaper, and go the same ways:

    cmake -G Ninja -B build-small -DEBB_CHUNK_KIB=64 && ninja -C build-small fuzz lib/libebb.so
    bash tests/fuzz/run.sh --repeats 1-5000 --build build-small --continue

Budgets, policy, the device's scheduler and faults follow from the seed (`draw`), and seeds keep their meaning: what is added draws
under names of its own. Every program's outcome goes to BUILD/fuzz/results.jsonl with the commit and a hash of the binaries, so that a
campaign can be interrupted and continued; a failure prints the command that repeats it and leaves what both runs have said in BUILD/fuzz.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import datetime
import fcntl
import functools
import hashlib
import itertools
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODES = ("budgets", "faults", "repeats")
AXES = ("small-host", "pageable", "failing-install", "streams", "threads", "arenas", "deterministic", "tables", "lengths", "interface",
        "disk", "brings")
ARGUMENT_AXES = ("streams", "threads", "arenas", "tables", "lengths", "interface", "brings")
FIRST_MEAN_SEED = 100000
LEAST_REGRESSION_RUNS = 5
TIMEOUT_S = 120
TRACE_TRIES = 5
MIB = 1 << 20

FAULTS = ("alloc free host map unmap copy set launch event stream sync any cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuMemHostRegister"
          " cuMemcpyDtoHAsync cuMemcpyHtoDAsync cuEventRecord cuEventQuery cuStreamWaitEvent cuEventSynchronize").split()
# A failed unmapping or free is not made again and leaves something behind; one of these may not.
CLEAN_FAULT = re.compile(r"(alloc|event|stream|sync|launch|copy|set|cuEvent|cuStream|cuMemcpy|cuMemCreate)[A-Za-z]*@[0-9]+")
NOTHING_LEFT = re.compile(r'"live_bytes": 0, .*"host_bytes": 0, .*"pageable_bytes": 0, .*"disk_bytes": 0, ')
# What ebb says when it has installed a plan, or could not: what comes before is the installation.
INSTALLED = re.compile(r"^ebb: (plan: |a new plan: |.*could not be installed)", re.M)
TRACED_CALL = re.compile(r"^\d+ (cu\w+)\(")
# Why programs with a step that stays the same for a while drive no plan, by the first of these in ebb's log.
UNDRIVEN = {"more is alive than device and host may hold": "more than device and host may hold", "no plan fits": "no plan (for|fits)",
            "the plan came too late": "a plan is being made", "it was learned too late": "learning begins after", "never short of memory": ""}
REPEATS = re.compile(r"repeats .* times, (\d+) of them undisturbed, then (\d+) percent of places diverge; streams: (\d+)")


def make_crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte << 24
        for _ in range(8):
            crc = (crc << 1) ^ (0x04C11DB7 if crc & 0x80000000 else 0)
        table.append(crc & 0xFFFFFFFF)
    return table


CRC_TABLE = make_crc_table()


def cksum(text: str) -> int:
    """POSIX's cksum."""
    data, crc, length = text.encode(), 0, len(text.encode())
    while length:
        data += bytes([length & 0xFF])
        length >>= 8
    for byte in data:
        crc = (crc << 8 & 0xFFFFFFFF) ^ CRC_TABLE[crc >> 24 ^ byte]
    return crc ^ 0xFFFFFFFF


class Failure(Exception):
    """What is wrong with a run."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A mode, and axes in the order of AXES."""
    mode: str
    axes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " with ".join([self.mode, ",".join(self.axes)] if self.axes else [self.mode])

    @property
    def folder(self) -> str:
        return "-".join([self.mode, *self.axes])


@dataclasses.dataclass
class Outcome:
    """Of one process."""
    status: int
    out: str
    log: str


@dataclasses.dataclass
class Sizes:
    """Of the line "size ..." (fuzz.c)."""
    peak: int
    need: int
    small: int
    chunks: int


@dataclasses.dataclass
class Build:
    """Where the binaries are, and a hash of them and of this file."""
    folder: Path
    chunk: int
    commit: str
    binary: str

    @property
    def library(self) -> Path:
        return self.folder / "lib/libebb.so"

    @property
    def fuzz(self) -> Path:
        return self.folder / "bin/fuzz"

    @property
    def journal(self) -> Path:
        return self.folder / "fuzz/results.jsonl"


def find_build(folder: Path) -> Build:
    chunk = 2048
    cache = folder / "CMakeCache.txt"
    if cache.exists() and (found := re.search(r"^EBB_CHUNK_KIB:\w+=(\d+)", cache.read_text(), re.M)):
        chunk = int(found[1])
    digest = hashlib.sha256()
    for name in ("lib/libebb.so", "bin/fuzz", "softgpu/lib/libcuda.so.1"):
        digest.update((folder / name).read_bytes())
    digest.update(Path(__file__).read_bytes())  # which decides what a seed means
    git = subprocess.run(["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return Build(folder, chunk << 10, git.stdout.strip(), digest.hexdigest()[:16])


def draw(seed: int, name: str, below: int) -> int:
    """A number from seed and name: the same whenever the same is asked."""
    return cksum(f"{seed} {name}") % below


# ---- one program ----


class Program:
    """One seed of one kind, and what its runs have shown."""

    def __init__(self, build: Build, kind: Kind, seed: int, work: Path):
        self.build, self.kind, self.mode, self.seed, self.work = build, kind, kind.mode, seed, work
        self.arguments = [str(seed)] + (["--repeat"] if kind.mode == "repeats" else [])
        self.arguments += [f"--{axis}" for axis in ARGUMENT_AXES if axis in kind.axes]
        self.is_mean = seed >= FIRST_MEAN_SEED
        self.arguments += ["--mean"] if self.is_mean else []
        self.command = ""
        self.reached: list = []
        self.failing: dict[tuple, tuple[str, bool]] = {}
        self.differs = False
        self.stopped = 0
        self.installations = 0  # runs in which one of the last calls before one was to fail

    @property
    def may_stop(self) -> bool:
        """The program may be given errors, and may end early."""
        return self.mode == "faults" or "failing-install" in self.kind.axes or \
            ("small-host" in self.kind.axes and "pageable" not in self.kind.axes)

    def draw(self, name: str, below: int) -> int:
        return draw(self.seed, name, below)

    def file(self, ending: str) -> Path:
        return self.work / f"{self.seed}.{ending}"

    def run(self, name: str, settings: dict[str, str], arguments: list[str]) -> Outcome:
        """What it says stays in SEED.NAME and SEED.NAME.log."""
        common = {"LD_LIBRARY_PATH": f"{self.build.folder}/softgpu/lib", "SOFTGPU_POISON": "1", "SOFTGPU_WORKERS": "2", "SOFTGPU_SPIN": "0"}
        if os.environ.get("LD_LIBRARY_PATH"):
            common["LD_LIBRARY_PATH"] += ":" + os.environ["LD_LIBRARY_PATH"]
        said = " ".join(f"{key}={shlex.quote(value)}" for key, value in settings.items())
        self.command = (f"LD_LIBRARY_PATH={self.build.folder}/softgpu/lib SOFTGPU_POISON=1 SOFTGPU_WORKERS=2 SOFTGPU_SPIN=0 {said}{' ' if said else ''}"
                        f"{self.build.fuzz} {' '.join(arguments)}")
        out, log = self.file(name), self.file(name + ".log")
        with out.open("wb") as stdout, log.open("wb") as stderr:
            process = subprocess.Popen([str(self.build.fuzz), *arguments], stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL,
                                       env={**os.environ, **common, **settings}, start_new_session=True)  # ^C is for the campaign
            try:
                status = process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)
                process.wait()
                raise Failure("it hangs") from None
        return Outcome(status, out.read_text(errors="replace"), log.read_text(errors="replace"))

    # -- what follows from the seed --

    def budget(self, sizes: Sizes) -> int:
        """Where it is tight: an operation's own memory, small buffers twice (they are cut from shared chunks), and a few chunks."""
        chunk = self.build.chunk
        least = sizes.need + 2 * sizes.small + 6 * chunk
        if self.mode == "repeats":  # where a plan has something to do, and some chance
            share = 2 * sizes.small + sizes.chunks // 100 * (60 + self.draw("share", 35))
        else:
            share = sizes.peak // 100 * (30 + self.draw("share", 80))
        budget = max(share, least) // chunk * chunk
        if self.may_stop and "small-host" in self.kind.axes and self.draw("small-host fits", 3):
            all_there = 2 * sizes.small + sizes.chunks + 6 * chunk - self.small_host()
            budget = max(budget, all_there // chunk * chunk)
        return budget

    def small_host(self) -> int:
        """Bytes; 0 would stand for the default."""
        chunk = self.build.chunk
        return (1, chunk // 32, chunk // 2, chunk, 2 * chunk, 4 * chunk)[self.draw("small-host", 6)]

    def failing_call(self, log: str) -> tuple[str, bool]:
        """From a run's trace between ebb's own messages: one of the last calls before one of the installations, or, where there are none
        (False), any."""
        ends = [found.start() for found in INSTALLED.finditer(log)]
        if not ends:
            return f"{FAULTS[self.draw('kind 0', len(FAULTS))]}@{self.draw('late', 3000) + 1}", False
        lines = log[:ends[self.draw("installation", len(ends))]].splitlines()
        calls = [found[1] for line in lines if (found := TRACED_CALL.match(line))]
        which = max(len(calls) - 1 - self.draw("before", (20, 80, 300, 1000)[self.draw("reach", 4)]), 0)
        name = calls[which]
        rule = f"{name}@{calls[:which + 1].count(name)}"
        rule += "+" if self.draw("stays", 10) == 0 else ""
        return rule + ("!" if self.draw("lost", 30) == 0 else ""), True

    def fault(self) -> str:
        rules = []
        for i in range(3 if self.draw("several", 3) == 0 else 1):
            rule = f"{FAULTS[self.draw(f'kind {i}', len(FAULTS))]}@{self.draw(f'nth {i}', 300) + 1}"
            rule += "+" if self.draw(f"stays {i}", 5) == 0 else ""
            rules.append(rule + ("!" if self.draw(f"lost {i}", 20) == 0 else ""))
        return ",".join(rules)

    def settings(self, sizes: Sizes, budget: int, time_number: int) -> dict[str, str]:
        repeats = self.mode == "repeats"
        hosts = ("4GiB", "4GiB", "4GiB", "16MiB") if repeats else ("4GiB", "4GiB", "16MiB", "1MiB")
        policy = "reactive" if not repeats and self.draw("policy", 3) == 0 else "auto"
        # The device has no more than the budget, or far more: then it tells whether that was asked for. EBB_BUDGET has a least value: with
        # small chunks the rest of that is kept back.
        kept_back = 0 if self.build.chunk == 2 * MIB else 4 * MIB
        size = (budget if self.draw("device", 2) else 4 * budget) + kept_back
        host = hosts[self.draw("host", len(hosts))]
        if kept_back and host.endswith("MiB"):
            host = f"{int(host[:-3]) * self.build.chunk // 2048}KiB"
        settings = {"LD_PRELOAD": str(self.build.library), "SOFTGPU_MEMORY": str(size), "SOFTGPU_PEAK": str(self.file("peak")),
                    "EBB_BUDGET": str(budget + kept_back), "EBB_POLICY": policy, "EBB_STATS": str(self.file("json")),
                    "EBB_LOG": "debug" if repeats else "warn", "EBB_HOST_BUDGET": host, "EBB_LINK": "10G"}
        if "small-host" in self.kind.axes:
            settings["EBB_HOST_BUDGET"] = str(self.small_host())
            settings["EBB_PAGEABLE"] = "1" if "pageable" in self.kind.axes else "0"
        elif "pageable" in self.kind.axes or "disk" in self.kind.axes or self.is_mean:
            share = 20 + self.draw("pageable", 140)
            if self.is_mean and "pageable" not in self.kind.axes and "disk" not in self.kind.axes:
                share = (0, share, share, share, 1000000, 1000000)[self.draw("mean host", 6)]
            # Of what does not fit on the device. With hardly any pinned memory ebb learns nothing, and makes no plan.
            most = max(sizes.chunks + 2 * sizes.small - budget, 4 * self.build.chunk)
            settings["EBB_HOST_BUDGET"] = str(most * share // 100 + 1)
        if "disk" in self.kind.axes:
            settings |= {"EBB_DISK": f"{self.work}:{1 << 28}" if self.draw("disk", 2) else str(self.work), "EBB_PAGEABLE": "0"}
        if kept_back:
            settings |= {"EBB_RESERVE": str(kept_back), "EBB_MIN_BUFFER": str(self.build.chunk // 2)}
        # The scheduler that puts off work, or does it at once, as its seed says.
        if time_number < 0:
            order = self.draw("order" if time_number == -1 else f"order {-1 - time_number}", 1000000)
            settings |= {"SOFTGPU_SCHEDULER": "deterministic", "SOFTGPU_SEED": str(order)}
        # Where steps repeat, plans with one of their means only.
        if repeats:
            settings["EBB_VERIFY"] = "1"
            means = (None, None, "EBB_OFFLOAD", "EBB_RECOMPUTE")[self.draw("means", 4)]
            if means:
                settings[means] = "0"
            # Half of them go on while a plan is made. An installation that is to fail must come at the same call each time.
            goes_on = "failing-install" not in self.kind.axes and self.draw("plan wait", 2)
            settings["EBB_PLAN_WAIT"] = "0" if goes_on else "600000"
        return settings

    # -- what a run must have shown --

    def without(self) -> tuple[Outcome, Sizes]:
        plain = self.run("without", {}, self.arguments)
        if plain.status:
            raise Failure("without ebb")
        found = re.search(r"^size (\d+) (\d+) (\d+) (\d+)$", plain.out, re.M)
        if not found:
            raise Failure("no size was told")
        return plain, Sizes(*map(int, found.groups()))

    def statistic(self, text: str, name: str) -> int:
        found = re.search(rf'"{name}": (\d+)', text)
        return int(found[1]) if found else 0

    def note_reached(self, plain: Outcome, log: str, stats: str) -> None:
        """What ebb has made of a program that repeats itself: its kind (several: streams or threads; differs: its steps do almost from the
        start; same; leaves: like the same, then they differ), whether its step was found and learned, steps driven, times it left a
        plan, and what it missed. On one stream a step should be found, and learned if it stays the same for long enough; what is learned
        should be driven, or there is a reason."""
        lines = [REPEATS.match(line) for line in plain.out.splitlines() if line.startswith("repeats ")]
        calm, percent, streams = map(int, lines[0].groups()) if lines and lines[0] else (0, 0, 0)
        kind, found, missed = "several", int(self.statistic(stats, "step_operations") > 0), ""
        driven, learned = self.statistic(stats, "steps_driven"), int("ebb: learned in" in log)
        if len(lines) == 1 and streams == 1:
            kind = "differs" if calm <= 10 else "leaves" if percent else "same"
        if kind != "several" and not self.kind.axes and not self.is_mean:
            missed = "" if found else "not found"
            if found and calm > 10:
                # It is learned when memory is short for the first time, which may be when it diverges, or at the end.
                began, period = (re.search(rf"^ebb: {what} (\d+) operations", log, re.M) for what in ("learning begins after", "a step of"))
                late = percent and int(began[1]) > calm * int(period[1]) if began and period else \
                    self.statistic(stats, "evictions") <= self.statistic(stats, "steps")
                if not (learned or late or "no memory to learn with" in log or (percent and "two steps differ" in log)):
                    missed = "not learned"
                if not (driven or not learned or re.search("no plan (for|fits)|could not be installed|no memory to learn with|a plan is being made", log)):
                    missed = "not driven"
        why = "" if driven or not (found and calm > 10) else next((why for why, sign in UNDRIVEN.items() if re.search(sign, log)))
        self.reached = [kind, found, learned, driven, self.statistic(stats, "fallbacks"), missed, why]

    def judge(self, plain: Outcome, with_ebb: Outcome, budget: int, settings: dict[str, str]) -> str:
        """"passed", "told" (contents were lost, and that was said), or Failure."""
        log, fault = with_ebb.log, settings.get("SOFTGPU_FAULT", "")
        if self.mode == "repeats" and with_ebb.status == 3 and "has other bits" in log and "CUDA_ERROR_LAUNCH_FAILED" in log \
                and settings.get("EBB_RECOMPUTE") != "0":
            return "told"
        if with_ebb.status:
            raise Failure(f"exit code {with_ebb.status}")
        if "please report" in log:  # a broken condition, or a plan of ebb's own that did not pass its check
            raise Failure("ebb asks for a report")
        peak = self.file("peak")
        words = peak.read_text().split() if peak.exists() else []
        if len(words) < 2:
            raise Failure("the device has not told its peak")
        # A device that fails where ebb tries it out is left to the program.
        stands_aside = "leaves device" in log
        if stands_aside and "SOFTGPU_FAULT" not in settings:
            raise Failure("ebb stands aside")
        if int(words[1]) > budget and not stands_aside:
            raise Failure(f"{words[1]} bytes of the device were in use, the budget is {budget}")
        lines, expected = with_ebb.out.splitlines(), plain.out.splitlines()
        if "stopped" in lines:
            # A worker that gave up has said what it knew until then, which must be so.
            if not self.may_stop:
                raise Failure("it gave up")  # its errors are exit codes
            self.stopped += 1
            if set(lines) - {"stopped"} - set(expected):
                raise self.other_contents("other contents before it gave up")
            return "told" if "has other bits" in log else "passed"
        if lines != expected:
            raise self.other_contents("other contents")
        stats = self.file("json").read_text() if self.file("json").exists() else ""
        if self.mode == "repeats":
            self.note_reached(plain, log, stats)
        if not fault or CLEAN_FAULT.fullmatch(fault):
            if not NOTHING_LEFT.search(stats) and not self.keeps_plan(log, stats):
                raise Failure("something is left at the end")
        return "passed"

    def keeps_plan(self, log: str, stats: str) -> bool:
        """A plan that is installed at the end keeps its blocks of host memory. Of repeats the log has every installation."""
        return bool(self.statistic(stats, "steps_driven")) and \
            (log.rfind("leaving the plan") < log.rfind("installing the plan") or not self.statistic(stats, "fallbacks"))

    def other_contents(self, what: str) -> Failure:
        self.differs = True
        return Failure(what)

    # -- which operation was the first --

    def first_difference(self, settings: dict[str, str], arguments: list[str]) -> str:
        """Runs both once more, with hashes of what every operation touches, until a run shows it."""
        traces = [self.file("trace.without"), self.file("trace.with")]
        try:
            self.run("traced.without", {"FUZZ_TRACE": str(traces[0])}, self.arguments)
            for _ in range(TRACE_TRIES):
                self.run("traced", {**settings, "FUZZ_TRACE": str(traces[1]), "EBB_STATS": str(self.file("traced.json")),
                                    "SOFTGPU_PEAK": str(self.file("traced.peak"))}, arguments)
                for worker in range(8):
                    both = [Path(f"{trace}.{worker}") for trace in traces]
                    if not both[0].exists() or not both[1].exists():
                        break
                    for expected, line in zip(*(path.read_text(errors="replace").splitlines() for path in both)):
                        if line != expected:
                            return f"worker {worker}: {expected}: now {line.rsplit(' ', 1)[-1]}" \
                                if line.rsplit(" ", 1)[0] == expected.rsplit(" ", 1)[0] else f"worker {worker}: {expected}: now {line}"
        except Failure as failure:
            return f"with a trace {failure}"
        return self.first_copy(settings, arguments) or f"with a trace contents were equal, {TRACE_TRIES} times"

    def first_copy(self, settings: dict[str, str], arguments: list[str]) -> str:
        """The same by what copies out have brought, which is told without waiting: a trace may hide what it looks for."""
        def copies(name: str, settings: dict[str, str], arguments: list[str]) -> list[str]:
            log = self.run(name, {**settings, "FUZZ_COPIES": "1"}, arguments).log.splitlines()
            return sorted((line for line in log if ": copied out by operation " in line), key=lambda line: line.split(":")[0])

        expected = copies("traced.without", {}, self.arguments)
        for _ in range(TRACE_TRIES):
            now = copies("traced", {**settings, "EBB_STATS": str(self.file("traced.json")), "SOFTGPU_PEAK": str(self.file("traced.peak"))},
                         arguments)
            for line, other in zip(expected, now):
                if line != other:
                    return f"{line}: now {other}"
        return ""

    def once(self, plain: Outcome, sizes: Sizes, time_number: int) -> str:
        budget = self.budget(sizes)
        settings, arguments = self.settings(sizes, budget, time_number), list(self.arguments)
        if self.may_stop:
            arguments.append("--faults")
        if self.mode == "faults":
            settings["SOFTGPU_FAULT"] = self.fault()
        if "failing-install" in self.kind.axes:
            key = tuple(settings.items())  # the same every time, but for the deterministic scheduler's
            if key not in self.failing:
                self.failing[key] = self.failing_call(self.run("scouted", {**settings, "SOFTGPU_TRACE": "-"}, arguments).log)
            rule, installs = self.failing[key]
            self.installations += installs
            settings["SOFTGPU_FAULT"] = f"{settings['SOFTGPU_FAULT']},{rule}" if self.mode == "faults" else rule
        for ending in ("json", "peak"):
            self.file(ending).unlink(missing_ok=True)
        with_ebb = self.run("with", settings, arguments)
        command = self.command
        try:
            return self.judge(plain, with_ebb, budget, settings)
        except Failure as failure:
            if self.differs:
                failure = Failure(f"{failure}\n  first: {self.first_difference(settings, arguments)}")
            self.command = command
            raise failure from None

    def tail(self) -> str:
        log = self.file("with.log") if self.file("with.log").exists() else self.file("without.log")
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join("  " + line for line in lines[-5:])

    def keep(self, time_number: int) -> None:
        """What a failed run has said is not written over by the next."""
        for ending in ("with", "with.log", "json", "peak"):
            if self.file(ending).exists():
                self.file(ending).rename(self.file(f"failed-{time_number + 1}.{ending}"))

    def clean_up(self) -> None:
        for path in self.work.glob(f"{self.seed}.*"):
            path.unlink()


@functools.cache
def locks_of(work: Path) -> int:
    """Stays open: a process that closes any descriptor of a file loses all its locks there."""
    return os.open(work / "lock", os.O_RDWR | os.O_CREAT, 0o666)


@contextlib.contextmanager
def alone(work: Path, seed: int):
    """No other campaign in this folder runs the program meanwhile: its files would have the same names."""
    fcntl.lockf(locks_of(work), fcntl.LOCK_EX, 1, seed)
    try:
        yield
    finally:
        fcntl.lockf(locks_of(work), fcntl.LOCK_UN, 1, seed)


def run_program(build: Build, kind: Kind, seed: int, times: int) -> dict:
    """One line of the journal."""
    work = build.folder / "fuzz" / kind.folder
    work.mkdir(parents=True, exist_ok=True)
    with alone(work, seed):
        return run_alone(Program(build, kind, seed, work), times)


def run_alone(program: Program, times: int) -> dict:
    build, kind, seed = program.build, program.kind, program.seed
    program.clean_up()
    start, failures, told, runs = time.monotonic(), [], 0, 0
    says = f" {kind}" if kind.axes else ""
    try:
        plain, sizes = program.without()
        # Half of them once under the deterministic scheduler (with the axis, all and `times`), and `times` under real threads.
        for time_number in range(-times if "deterministic" in kind.axes else -1 if program.draw("scheduler", 2) else 0, times):
            runs += 1
            try:
                told += program.once(plain, sizes, time_number) == "told"
            except Failure as failure:
                failures.append(str(failure))
                which = f", time {time_number + 1} of {times}" if times > 1 and time_number >= 0 else ""
                print(f"FAILED: seed {seed}{says}: {failure}{which}\n  {program.command}\n{program.tail()}", flush=True)
                program.keep(time_number)
    except Failure as failure:
        failures.append(str(failure))
        print(f"FAILED: seed {seed}{says}: {failure}\n  {program.command}\n{program.tail()}", flush=True)
    if not failures:
        program.clean_up()
    return {"mode": kind.mode, "with": kind.axes, "seed": seed, "runs": runs, "failed": len(failures), "differs": program.differs, "failures": failures, "told": told,
            "stopped": program.stopped, "installations": program.installations, "reached": program.reached, "seconds": round(time.monotonic() - start, 3), "commit": build.commit, "binary": build.binary}


# ---- a campaign ----


def read_journal(build: Build) -> dict[tuple[Kind, int], dict]:
    """Of each program the last line in which it failed, or else the last one; of these binaries at this commit."""
    rows: dict[tuple[Kind, int], dict] = {}
    if build.journal.exists():
        for line in build.journal.read_text().splitlines():
            try:
                row = json.loads(line)
            except ValueError:  # a line that was cut off
                continue
            key = Kind(row["mode"], tuple(row["with"])), row["seed"]
            if row["commit"] == build.commit and row["binary"] == build.binary and (row["failed"] or not rows.get(key, row)["failed"]):
                rows[key] = row
    return rows


def sum_reached(rows: list[dict]) -> dict[str, int]:
    reached = [row["reached"] for row in rows if row["reached"]]
    calm = [r for r in reached if r[0] in ("same", "leaves")]
    left = [r for r in reached if r[0] == "leaves" and r[4] > 0]
    return {"lost_and_told": sum(row["told"] for row in rows), "found": sum(r[1] for r in reached), "learned": sum(r[2] for r in reached),
            "driven": sum(r[3] > 0 for r in reached), "steps_driven": sum(r[3] for r in reached), "calm": len(calm),
            "calm_driven": sum(r[3] > 0 for r in calm), "undriven": dict(collections.Counter(r[6] for r in calm if r[6])),
            "left": len(left), "resumed": sum(r[4] > 1 for r in left),
            "missed": {str(row["seed"]): row["reached"][5] for row in rows if row["reached"] and row["reached"][5]}}


def machine() -> str:
    found = re.search(r"^model name[^:]*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else ""


def read_arguments(words: list[str]) -> argparse.Namespace:
    def seeds(text: str) -> list[int]:
        if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
            raise argparse.ArgumentTypeError("which seeds?")
        ends = [list(map(int, part.split("-"))) for part in text.split(",")]
        return [seed for end in ends for seed in range(end[0], end[-1] + 1)]

    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    modes = parser.add_mutually_exclusive_group(required=True)
    for mode in MODES:
        modes.add_argument(f"--{mode}", type=seeds, metavar="FIRST-LAST[,...]")
    modes.add_argument("--regressions", action="store_true", help="the seeds of regressions.txt")
    parser.add_argument("--with", dest="axes", default="", metavar="LIST", help=", ".join(AXES))
    parser.add_argument("--pairs", action="store_true", help="sets of axes that hold every pair of them twice")
    parser.add_argument("--build", type=Path, default=HERE.parent.parent / "build", metavar="FOLDER")
    parser.add_argument("--result", type=Path, metavar="FILE", help="a line of JSON: what was done on this commit for these seeds")
    parser.add_argument("--times", type=int, metavar="N", help="run every seed so often under real threads (1); "
                        "half of them once more under the deterministic scheduler")
    parser.add_argument("--continue", dest="goes_on", action="store_true",
                        help="pass over seeds that have passed so often with these binaries at this commit")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("FUZZ_JOBS", "2")), metavar="N", help="how many at once (FUZZ_JOBS, 2)")
    arguments = parser.parse_args(words)
    axes = [axis for axis in arguments.axes.split(",") if axis]
    if unknown := [axis for axis in axes if axis not in AXES]:
        parser.error(f"--with {unknown[0]}: it is one of {', '.join(AXES)}")
    if (arguments.pairs or arguments.regressions) and axes or arguments.pairs and arguments.regressions:
        parser.error("one of --pairs, --regressions and --with")
    if arguments.regressions:
        arguments.wanted = {key: arguments.times or runs for key, runs in read_regressions().items()}
        return arguments
    arguments.times = arguments.times or 1
    mode = next(mode for mode in MODES if getattr(arguments, mode))
    if "failing-install" in axes and mode != "repeats":
        parser.error("failing-install: plans are installed with --repeats only")
    sets = [axes]
    if arguments.pairs:
        sets = [[axis for axis in AXES[:7] if axis not in (AXES[i], AXES[(i + 1) % 7], AXES[(i + 3) % 7])] for i in range(7)]
        sets = [[*one, "tables"] if i < 5 else one for i, one in enumerate(sets)]
    kinds = [Kind(mode, tuple(axis for axis in AXES if axis in one and (mode == "repeats" or axis != "failing-install"))) for one in sets]
    arguments.wanted = {(kind, seed): arguments.times for kind in kinds for seed in getattr(arguments, mode)}
    return arguments


def read_regressions() -> dict[tuple[Kind, int], int]:
    """How often each is to be run: three times as often as it took to fail once lets one of twenty pass whose cause is back."""
    wanted = {}
    for line in (HERE / "regressions.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            mode, seed, axes, runs, _ = line.split(" ", 4)
            wanted[Kind(mode, () if axes == "-" else tuple(axes.split(","))), int(seed)] = max(3 * int(runs), LEAST_REGRESSION_RUNS)
    return wanted


def run_all(build: Build, programs: dict[tuple[Kind, int], int], jobs: int) -> None:
    """Into the journal, in the order in which they end. An interrupt ends it when those under way have ended."""
    lock = threading.Lock()
    left = iter(programs)
    with build.journal.open("a") as journal, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        def work() -> None:
            while True:
                with lock:
                    program = next(left, None)
                if program is None:
                    return
                row = run_program(build, *program, programs[program])
                with lock:
                    journal.write(json.dumps(row) + "\n")
                    journal.flush()

        running = [pool.submit(work) for _ in range(jobs)]
        try:
            for future in running:
                future.result()
        except BaseException:
            with lock:
                left = iter(())
            raise


def summarise(kind: Kind, rows: list[dict], build: Build) -> tuple[dict, str, bool]:
    """For the result, for people, and whether too little was reached."""
    figures = {"programs": len(rows), "runs": sum(row["runs"] for row in rows), "failed": sum(row["failed"] > 0 for row in rows),
               "differences": sum(row["differs"] for row in rows)}
    said, few = f"{figures['failed']} failed", False
    if any(row["stopped"] for row in rows):
        figures["stopped"] = sum(row["stopped"] for row in rows)
        said += f", {figures['stopped']} runs gave up"
    if "failing-install" in kind.axes:
        figures["installations"] = sum(row["installations"] for row in rows)
        said += f", {figures['installations']} runs of {figures['runs']} with a call that fails before an installation"
    if kind.mode == "repeats":
        reached = sum_reached(rows)
        said += ("; {lost_and_told} told of lost contents; {found} with a step that was found, {learned} learned, {driven} driven "
                 "({steps_driven} steps; of {calm} with one stream and a calm beginning {calm_driven}; why not: {undriven}); of those, {left} left the plan when "
                 "they diverged, {resumed} came back to it").format(**reached)
        if reached["missed"]:
            said += "; missed: " + ", ".join(f"{seed} {what}" for seed, what in reached["missed"].items())
        # Two steps per program are driven, half of those that could be driven are, half of those that leave their plan come back to it, and
        # of one in fifty at most the step is missed: one of a few operations that are all alike (tracker/tracker.h) is found late.
        usual = [row for row in rows if row["seed"] < FIRST_MEAN_SEED]
        bar = sum_reached(usual)
        few = len(usual) >= 16 and not kind.axes and (
            bar["steps_driven"] < 2 * len(usual) or 2 * bar["calm_driven"] < bar["calm"] or
            2 * bar["resumed"] < bar["left"] or not bar["left"] or 50 * len(bar["missed"]) > max(len(usual), 50))
        figures |= reached
    return figures, said, few


def main(words: list[str]) -> int:
    arguments = read_arguments(words)
    build = find_build(arguments.build.resolve())
    build.journal.parent.mkdir(parents=True, exist_ok=True)
    wanted = arguments.wanted
    done = read_journal(build) if arguments.goes_on else {}
    to_do = {key: times for key, times in wanted.items() if key not in done or done[key]["failed"] or done[key]["runs"] < times}
    start, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run_all(build, to_do, arguments.jobs)
    seconds, now = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime

    journal, failed, all_figures = read_journal(build), False, []
    for kind in dict.fromkeys(kind for kind, _ in wanted):
        seeds = [seed for other, seed in wanted if other == kind]
        figures, said, few = summarise(kind, [journal[kind, seed] for seed in seeds if (kind, seed) in journal], build)
        all_figures.append({"with": ",".join(kind.axes), **figures})
        print(f"{figures['programs']} programs, {kind}, seeds {min(seeds)} to {max(seeds)}: {said}")
        few = bool(figures.get("missed")) if arguments.regressions else few
        if few:
            print("FAILED: " + ("a seed misses what it is to reach" if arguments.regressions else
                                "too few were found, learned or driven, left their plan, or came back to it"))
        failed = failed or few or figures["failed"] > 0
    print(f"{seconds:.0f} s; {max(cpu, 0) * 1000 / max(len(to_do), 1):.0f} ms of CPU per program")
    if arguments.result:
        sums = {key: sum(figures[key] for figures in all_figures) for key in ("programs", "runs", "failed", "differences")}
        result = {"command": "tests/fuzz/run.sh " + " ".join(words), **(sums if len(all_figures) > 1 else all_figures[0]),
                  "settings": {"times": arguments.times, "chunk_bytes": build.chunk, "with": arguments.axes},
                  "seconds": round(sum(journal[key]["seconds"] for key in wanted if key in journal)), "jobs": arguments.jobs,
                  "processors": os.cpu_count(), "machine": machine(), "device": "softgpu",
                  "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(), "commit": build.commit}
        result.pop("with", None)
        if len(all_figures) > 1:
            result["kinds"] = all_figures
        if arguments.pairs:
            result["programs_with_pairs"] = {",".join(pair): sum(figures["programs"] for figures in all_figures
                                                                 if set(pair) <= set(figures["with"].split(",")))
                                             for pair in itertools.combinations(AXES, 2)}
        arguments.result.write_text(json.dumps(result) + "\n")
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
