#!/usr/bin/env bash
# run.sh --budgets|--faults|--repeats FIRST-LAST [options]: random programs, with and without ebb. --help; campaign.py.
exec python3 "$(dirname "${BASH_SOURCE[0]}")/campaign.py" "$@"
