#!/usr/bin/env bash
# man_page.sh EBB PAGE: the manual page has every command, and every flag but those of the variables, and no other.
set -euo pipefail
ebb=$1 page=$2
commands=$("$ebb" help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p')
((${#commands} > 50)) || { echo "FAILED: 'ebb help' lists hardly any commands: $commands" && exit 1; }
diff <(sort <<<"$commands") <(sed -n 's/^\.SS ebb //p' "$page" | sort) || { echo 'FAILED: commands (<) and sections of the page (>)' && exit 1; }
flags() {
    local command
    for command in $commands; do
        if [[ $command == run ]]; then
            "$ebb" run --help | sed -n '/^The run:/,$p'
        else
            "$ebb" "$command" --help | sed -n '/^Usage/,$p'
        fi
    done | sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p'
}
page_flags() { # up to the examples
    sed '/^\.SH EXAMPLES/,$d; s/\\-/-/g' "$page" | grep -o -e '--[a-z][a-z-]*'
}
diff <(flags | sort -u) <(page_flags | sort -u) || { echo 'FAILED: flags of --help (<) and of the page (>)' && exit 1; }
echo ok
