#!/usr/bin/env bash
# install.sh <build folder>: installs into a folder of its own, and makes and unpacks the Debian package; from both, the command,
# the trainer on the software device, and the trainer under ebb run, with nothing of the build folder in reach. Where there is a Clang for it,
# so does what compiles sources: softgpu-clang++, and NVRTC, for which the build's own test stands (nvrtc), linked with the libraries installed.
set -euo pipefail

build=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
nvcc=$(sed -n 's/^CUDAToolkit_NVCC_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
export CUDA_HOME=${nvcc%/bin/nvcc}
unset LD_LIBRARY_PATH LD_PRELOAD SOFTGPU_KERNEL_PATH ${!EBB_@}
export XDG_CACHE_HOME=$folder/cache SOFTGPU_MEMORY=256M

fail() {
    printf 'install.sh: %s\n' "$@" >&2
    exit 1
}

# A trainer so small that its time is the loader's.
train() {
    "$@" --data "$here/install.sh" --layers 2 --width 32 --heads 2 --context 32 --batch 2 --steps 3 --sample 0
}

# losses <log>: what must not differ
losses() {
    grep -oE '"(loss_hex|state_hash)": "[^"]*"' "$1"
}

# within <versions> <most> <file>: the newest version that the file asks for is no newer.
within() {
    local newest
    newest=$(objdump -T "$3" 2>/dev/null | grep -oE "\<$1_[0-9]+(\.[0-9]+)+" | sort -uV | tail -n 1 || true)
    [[ -z $newest || $(printf '%s\n' "$newest" "$1_$2" | sort -V | tail -n 1) == "$1_$2" ]] || fail "$3 needs $newest"
}

# check_needs <prefix>: what programs and libraries ask of a system is in the package's Depends, or is CUDA's; glibc and libstdc++ as
# old as the oldest distributions with glibc 2.34 have them.
check_needs() {
    local file needed count=0
    while read -r file; do
        readelf -h "$file" >/dev/null 2>&1 || continue
        count=$((count + 1))
        within GLIBC 2.34 "$file"
        within GLIBCXX 3.4.29 "$file"
        [[ $(readelf -d "$file") != *R*PATH*"$build"* ]] || fail "$file looks for libraries in the build folder"
        while read -r needed; do
            case $needed in
            libc.so.6 | libm.so.6 | ld-linux-x86-64.so.2 | libpthread.so.0 | libdl.so.2 | libmvec.so.1) ;; # libc6
            libgcc_s.so.1 | libstdc++.so.6 | libcjson.so.1) ;;
            libcudart.so.13 | libcublas.so.13 | libcublasLt.so.13 | libcuda.so.1) ;;
            libopenblas.so.0) [[ $file == */softgpu/* ]] || fail "$file needs $needed" ;;
            *) fail "$file needs $needed" ;;
            esac
        done < <(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    done < <(find "$1" -type f)
    ((count >= 8)) || fail "$1 has $count programs and libraries only"
}

# try <prefix>
try() {
    local prefix=$1 name library softgpu plain under
    "$prefix/bin/ebb" --version | grep -qE '^ebb [0-9]+\.' || fail "$prefix/bin/ebb --version: no version"
    for name in man/man1/ebb.1 man/man3/ebb.3 man/man1/ebb-train.1 doc/ebb/README.md doc/ebb/LICENSE doc/ebb/CHANGELOG.md doc/ebb/docs/using.md; do
        [[ -s $prefix/share/$name ]] || fail "$prefix: share/$name is missing"
    done
    [[ -s $prefix/share/bash-completion/completions/ebb && -s $prefix/share/zsh/site-functions/_ebb &&
        -s $prefix/share/fish/vendor_completions.d/ebb.fish ]] || fail "$prefix: completions are missing"
    library=$(PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name ebb.pc)") pkg-config --variable=library ebb)
    softgpu=$(PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name ebb.pc)") pkg-config --variable=softgpu ebb)
    bash "$here/check_elf.sh" "$library"
    try_header "$prefix"
    check_needs "$prefix"
    plain=$folder/plain.jsonl under=$folder/under.jsonl
    rm -f "$plain" "$under" "$folder/stats"
    LD_LIBRARY_PATH=$softgpu train "$prefix/bin/ebb-train" --log "$plain" >"$folder/out" 2>&1 || fail "ebb-train:" "$(cat "$folder/out")"
    LD_LIBRARY_PATH=$softgpu train "$prefix/bin/ebb" run --budget 64MiB --stats "$folder/stats" -- \
        "$prefix/bin/ebb-train" --log "$under" >"$folder/out" 2>&1 || fail "ebb run:" "$(cat "$folder/out")"
    grep -q budget_bytes "$folder/stats" || fail 'ebb run: the library was not there' "$(cat "$folder/out")"
    [[ -n $(losses "$plain") && $(losses "$plain") == "$(losses "$under")" ]] || fail 'the losses differ'
    try_compilers "$softgpu"
}

# try_header <prefix>: compiled as C and as C++ with what pkg-config says, it finds the library where there is one, and nothing where there is none.
try_header() {
    local cflags compiler
    cflags=$(PKG_CONFIG_PATH=$(dirname "$(find "$1" -name ebb.pc)") pkg-config --cflags ebb)
    printf '%s\n' '#include <ebb.h>' '#include <stdio.h>' 'int main(void)' '{' '    puts(ebb_version ? ebb_version() : "none");' '}' >"$folder/ask.c"
    for compiler in 'cc -x c' 'c++ -x c++'; do
        # shellcheck disable=SC2086
        $compiler -Wall -Wextra -Werror $cflags -o "$folder/ask" "$folder/ask.c" || fail "ebb.h is not taken by $compiler"
        [[ $("$folder/ask") == none && $(LD_PRELOAD=$library "$folder/ask") == [0-9]*.* ]] || fail "$compiler: a program does not find the library"
    done
}

# try_compilers <folder with the software device>
try_compilers() {
    [[ -x $1/softgpu-clang++ && -x $1/ptxas ]] || fail "$1: a compiler is missing"
    "$1/softgpu-clang++" --version >"$folder/out" 2>&1 || { cat "$folder/out"; return; }
    LD_LIBRARY_PATH=$1 bash "$here/../softgpu/clang/run.sh" "$1/softgpu-clang++" "$here/../softgpu/clang/templates.cu" "$folder/clang" \
        >"$folder/out" 2>&1 || fail "$1/softgpu-clang++:" "$(cat "$folder/out")"
    [[ -x $build/bin/nvrtc ]] || return 0 # a toolkit without NVRTC
    [[ $(LD_LIBRARY_PATH=$1 ldd "$build/bin/nvrtc") == *"$1/libnvrtc.so.13"* ]] || fail "$1: libnvrtc.so.13 is missing"
    LD_LIBRARY_PATH=$1 "$build/bin/nvrtc" >"$folder/out" 2>&1 || fail "$1/libnvrtc.so.13:" "$(cat "$folder/out")"
}

cmake --install "$build" --prefix "$folder/prefix" --strip >"$folder/out" || fail "$(cat "$folder/out")"
try "$folder/prefix"

(cd "$folder" && cpack --config "$build/CPackConfig.cmake" -G DEB -B "$folder/deb") >"$folder/out" 2>&1 || fail "$(cat "$folder/out")"
package=$(echo "$folder"/deb/ebb_*.deb)
[[ $(dpkg-deb -f "$package" Depends) == *'libc6 (>= 2.34)'* ]] || fail "$(dpkg-deb -f "$package")"
dpkg-deb -x "$package" "$folder/system"
try "$folder/system/usr"
echo "$(basename "$package"): $(($(stat -c %s "$package") / 1024)) KiB"
