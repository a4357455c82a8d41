"""report.py OUT/BUDGET WHAT: what ebb has made of a run within a budget, by its statistics and its log (run.sh); 1 if that is less than
WHAT (found, learned, driven), or the budget was exceeded."""

import collections
import json
import pathlib
import re
import sys

MIB = 1 << 20


def main():
    path, expected = sys.argv[1:]
    stats = json.loads(pathlib.Path(path + ".stats").read_text())
    log = [line for line in pathlib.Path(path + ".log").read_text(errors="replace").splitlines() if line.startswith("ebb: ")]
    reached = {"found": stats["step_operations"] > 0, "learned": any(re.search(r"\blearned in \d+ steps", line) for line in log),
               "driven": stats["steps_driven"] > 0}
    within = stats["peak_bytes"] <= stats["budget_bytes"]
    said = [name if yes else "not " + name for name, yes in reached.items()]
    if reached["found"]:
        said[0] += f" ({stats['step_operations']} operations, after {stats['step_found_after']})"
    said[2] += f" ({stats['steps_driven']} of {stats['steps']} steps)"
    print(f"{pathlib.Path(path).name}: step {', '.join(said)}; peak {stats['peak_bytes'] / MIB:.1f} of {stats['budget_bytes'] / MIB:.1f} MiB"
          f"{'' if within else ', too much'}; {stats['evictions']} buffers copied out, {stats['fetches']} back")
    for line, count in collections.Counter(log).items():
        print(f"    {line[5:]}{f' ({count} times)' if count > 1 else ''}")
    sys.exit(not (reached[expected] and within))


if __name__ == "__main__":
    main()
