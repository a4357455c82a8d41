#!/usr/bin/env bash
# whole.sh BUILD RESULT: the whole campaign on one commit, in rounds that can be run on different days and machines. Twenty rounds, each of 1,000 programs
# of each kind, and 125 seeds with each set of axes (run.sh --pairs); three runs of each, half of them once more under a drawn order; the last five
# rounds are mean programs. RESULT is a JSON list of what run.sh tells of each part: a part that it has is passed over. All are to be of one commit: that
# of the tree of which BUILD is made, with chunks of 64 KiB (campaign.py). FUZZ_JOBS: programs at once (2).
set -euo pipefail

(($# == 2)) || {
    sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "$0"
    exit 2
}
build=$(cd "$1" && pwd) result=$2 part=$(mktemp)
source=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt")
commit=$(git -C "$source" rev-parse HEAD)
trap 'rm -f "$part"' EXIT

# has ARGUMENT...: whether the result has the part with these, once what is in $part has been added to it.
has() {
    python3 - "$result" "$part" "$commit" "$*" <<'PYTHON'
import json, os, sys

result, part, commit, arguments = sys.argv[1:]
rows = json.load(open(result)) if os.path.exists(result) else []
if other := {row["commit"] for row in rows if not commit.startswith(row["commit"])}:
    print(f"whole.sh: {result} is of {', '.join(other)}, and this is {commit}", file=sys.stderr)
    sys.exit(2)
if os.path.getsize(part):
    row = json.load(open(part))
    row["command"] = f"tests/fuzz/run.sh --build build-64 --times 3 --{arguments}"  # without folders of this machine
    rows.append(row)
    with open(result, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
sys.exit(0 if any(row["command"].endswith(f"--times 3 --{arguments}") for row in rows) else 77)
PYTHON
}

failed=0
for round in {0..19}; do
    mean=$((round < 15 ? 0 : round - 14))
    first=$((mean ? 99001 + 1000 * mean : 1 + 1000 * round))
    pairs=$((mean ? 99876 + 125 * mean : 40001 + 125 * round))
    for arguments in "budgets $first-$((first + 999))" "faults $first-$((first + 999))" "repeats $first-$((first + 999))" \
        "repeats $pairs-$((pairs + 124)) --pairs"; do
        : >"$part"
        has "$arguments" && continue || (($? == 77)) || exit 2
        read -r -a words <<<"$arguments"
        bash "$source/tests/fuzz/run.sh" --build "$build" --jobs "${FUZZ_JOBS:-2}" --continue --times 3 "--${words[0]}" "${words[@]:1}" --result "$part" || failed=1
        has "$arguments"
    done
done
exit $failed
