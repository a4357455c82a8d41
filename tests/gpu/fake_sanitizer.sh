#!/usr/bin/env bash
# fake_sanitizer.sh OPTIONS PROGRAM...: not compute-sanitizer. It runs the program and prints what compute-sanitizer prints of one in
# which it finds nothing; options that compute-sanitizer 2025.3 does not have it refuses as that does. For the test of sanitizer.py, and
# for nothing else.
set -uo pipefail
tool=''
while [[ $1 == --* ]]; do
    case $1 in
    --tool)
        [[ $2 =~ ^(memcheck|racecheck|initcheck|synccheck)$ ]] || exit 2
        tool=$2
        ;;
    --target-processes) [[ $2 =~ ^(all|application-only)$ ]] || exit 2 ;;
    --report-api-errors) [[ $2 =~ ^(all|explicit|no)$ ]] || exit 2 ;;
    --check-api-memory-access) [[ $2 =~ ^(yes|no)$ ]] || exit 2 ;;
    --kernel-name-exclude) [[ $2 =~ ^(kne|kns|regex|kernel_name|kernel_substring)= ]] || exit 2 ;;
    --error-exitcode) [[ $2 =~ ^[0-9]+$ ]] || exit 2 ;;
    *)
        echo "========= Error: unrecognised option '$1'"
        exit 1
        ;;
    esac
    shift 2
done
[[ -n $tool ]] || exit 2
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
