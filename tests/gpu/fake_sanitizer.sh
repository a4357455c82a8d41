#!/usr/bin/env bash
# fake_sanitizer.sh --tool TOOL --target-processes all --error-exitcode N PROGRAM...: not compute-sanitizer. It runs the program and
# prints what compute-sanitizer prints of one in which it finds nothing: for the test of sanitizer.py, and for nothing else.
set -uo pipefail
[[ $1 == --tool && $3 == --target-processes && $5 == --error-exitcode ]] || exit 2
tool=$2
shift 6
echo '========= COMPUTE-SANITIZER'
"$@"
rc=$?
((rc == 0)) || echo '========= Target application returned an error'
if [[ $tool == racecheck ]]; then
    echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)'
else
    echo '========= ERROR SUMMARY: 0 errors'
fi
exit $rc
