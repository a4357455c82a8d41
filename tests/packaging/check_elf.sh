#!/usr/bin/env bash
# check_elf.sh <libebb.so>: what the preloaded library asks of a system: glibc 2.34 at most, no library but glibc's (CUDA's above
# all: the driver is the one that the program itself loads), and exports of nothing but the hooks.
set -euo pipefail

library=$1
failed=0

complain() {
    echo "$library $*"
    failed=1
}

newest=$(objdump -T "$library" | grep -oE 'GLIBC_[0-9]+(\.[0-9]+)+' | sort -uV | tail -n 1)
[[ -n $newest ]] || complain 'has no versioned symbols: is it stripped of its symbol table?'
[[ $(printf '%s\n' "$newest" GLIBC_2.34 | sort -V | tail -n 1) == GLIBC_2.34 ]] ||
    complain "needs $newest: $(objdump -T "$library" | awk -v v="($newest)" '$0 ~ /UND/ && index($0, v) { printf "%s ", $NF }')"

while read -r needed; do
    case $needed in
    libc.so.6 | ld-linux-x86-64.so.2 | libpthread.so.0 | libdl.so.2) ;;
    *) complain "needs $needed" ;;
    esac
done < <(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[[ $(readelf -d "$library") != *RPATH* && $(readelf -d "$library") != *RUNPATH* ]] || complain 'has a path for libraries'

while read -r name; do
    case $name in
    cu[A-Z]* | dlsym | dlvsym | InitializeInjectionNvtx2) ;;
    *) complain "exports $name" ;;
    esac
done < <(nm -D --defined-only "$library" | awk '{ sub(/@.*/, "", $3); print $3 }')
echo "$library: $newest, $(nm -D --defined-only "$library" | wc -l) exports"
exit $failed
