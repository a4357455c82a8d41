#!/usr/bin/env bash
# man_page.sh EBB_TRAIN PAGE: the manual page has every flag of each command's --help, once, and no other; and groff has nothing
# against it.
set -euo pipefail
trainer=$1 page=$2

# compare SECTION LEAST [COMMAND]: its flags, at least so many bytes of them.
compare() {
    local flags listed
    flags=$("$trainer" ${3:+"$3"} --help | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p' | sort)
    listed=$(sed -n "/^\.SH $1\$/,/^\.SH/s/^\.B \\\\-\\\\-\([a-z0-9\\\\-]*\).*/--\1/p" "$page" | tr -d '\\' | sort)
    ((${#flags} > $2)) || { echo "FAILED: ${3:-} --help lists hardly any flags: $flags" && exit 1; }
    diff <(echo "$flags") <(echo "$listed") || { echo "FAILED: flags of ${3:-} --help (<) and of the page (>)" && exit 1; }
}

compare OPTIONS 500
compare 'OPTIONS OF GENERATE' 50 generate
for section in NAME SYNOPSIS DESCRIPTION SIGNALS 'EXIT STATUS' EXAMPLES; do
    grep -qx ".SH $section" "$page" || { echo "FAILED: no section $section" && exit 1; }
done
if command -v groff >/dev/null && said=$(groff -man -Tutf8 -ww -z "$page" 2>&1) && [[ -n $said ]]; then
    printf 'FAILED: groff says\n%s\n' "$said"
    exit 1
fi
echo ok
