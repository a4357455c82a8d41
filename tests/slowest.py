"""slowest.py: what ctest prints, with the ten tests that took longest in front of its summary."""

import re
import sys

times = []
for line in sys.stdin:
    test = re.match(r" *\d+/\d+ Test +#\d+: (\S+) .* ([0-9.]+) sec", line)
    if test:
        times.append((float(test[2]), test[1]))
    if re.match(r"\d+% tests passed, ", line):
        print("The ten that took longest:")
        for seconds, name in sorted(times, reverse=True)[:10]:
            print(f"{seconds:8.2f} sec  {name}")
        print()
    print(line, end="", flush=True)
