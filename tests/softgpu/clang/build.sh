#!/usr/bin/env bash
# build.sh <softgpu-clang++> <folder with sources> <folder>: programs built as people build theirs, with softgpu-clang++ where nvcc stands: by make
# (objects, then a link), and by CMake's CUDA language. Each runs, and checks what it computes. 77: there is no Clang that can do it.
set -euo pipefail

compiler=$1 sources=$2 folder=$3
if ! why=$("$compiler" --version 2>&1); then
    printf '%s\n' "$why"
    exit 77
fi
rm -rf "$folder"
mkdir -p "$folder"
cat >"$folder/Makefile" <<END
NVCC = nvcc
NVCCFLAGS = -O2 -std=c++17 -I$sources -gencode arch=compute_80,code=sm_80 -gencode=arch=compute_80,code=compute_80 -rdc=false -lineinfo -w -mllvm -inline-threshold=300
header: header.o
	\$(NVCC) -o \$@ \$^
header.o: $sources/header.cu
	\$(NVCC) \$(NVCCFLAGS) -c -o \$@ \$<
END
make -C "$folder" NVCC="$compiler"
"$folder/header"
cat >"$folder/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(programs LANGUAGES CUDA)
add_executable(templates $sources/templates.cu)
set_target_properties(templates PROPERTIES CUDA_STANDARD 17)
END
cmake -S "$folder" -B "$folder/build" -DCMAKE_CUDA_COMPILER="$compiler" -DCMAKE_CUDA_ARCHITECTURES=80 -DCMAKE_BUILD_TYPE=Release >"$folder/log" 2>&1 &&
    cmake --build "$folder/build" >>"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
"$folder/build/templates"
