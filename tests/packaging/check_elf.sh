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

# Hooks have the base version (1, no node), which answers references that carry any other; ebb's own symbols have a node of their own.
while read -r name version; do
    case $name in
    cu[A-Z]* | nccl[A-Z]* | dlsym | dlvsym | InitializeInjectionNvtx2)
        [[ -z $version ]] || complain "gives the hook $name the version $version: references with another would pass it by"
        ;;
    ebb_*) [[ $version == EBB_1 ]] || complain "exports $name with the version '$version', not EBB_1" ;;
    EBB_1) ;; # the node itself
    *) complain "exports $name" ;;
    esac
done < <(readelf --dyn-syms -W "$library" | awk '$7 ~ /^[0-9A]/ && $5 != "LOCAL" { n = split($8, part, "@"); print part[1], part[(n > 1) ? n : 2] }')
[[ $(readelf --dyn-syms -W "$library") == *' ebb_version@@EBB_1'* ]] || complain 'does not export ebb_version'
# What programs call by name is in the header and in its man page, and the other way round.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
exported=$(nm -D --defined-only "$library" | sed -n 's/.* \(ebb_[a-z_]*\)@@EBB_1$/\1/p' | sort)
declared=$(sed -n 's/^EBB_FUNCTION .*\<\(ebb_[a-z_]*\)(.*/\1/p' "$root/ckpt/run/ebb.h" | sort)
[[ $exported == "$declared" ]] || complain "exports other functions than ebb.h declares: $(comm -3 <(echo "$exported") <(echo "$declared") | xargs)"
while read -r name; do
    grep -q "\"[a-z_ *]*$name(" "$root/packaging/ebb.3" || complain "exports $name, of which ebb.3 says nothing"
done <<<"$exported"
# And so it is bound: the shell's reference to dlsym has glibc's version.
shell=$(command -v bash)
if [[ $(nm -D --with-symbol-versions "$shell") == *' U dlsym@'* ]]; then
    bound=$(LD_DEBUG=bindings LD_BIND_NOW=1 LD_PRELOAD=$library "$shell" -c : 2>&1 | grep -c "bash .* to $library .*\`dlsym' \[GLIBC_" || true)
    ((bound > 0)) || complain "does not get the shell's dlsym"
fi
echo "$library: $newest, $(nm -D --defined-only "$library" | wc -l) exports"
exit $failed
