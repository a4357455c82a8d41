#!/usr/bin/env bash
# run.sh [--sanitize LIST | --threads | --small-chunks | --full] [ctest options...]: sets up as the quickstart does, builds, and runs every test.
#
#   bash tests/run.sh                                 every test in its short form, but those with the label `long`
#   bash tests/run.sh -L unit                         tests with one label (unit, conformance, integration, differential, gpu)
#   bash tests/run.sh -R driver                       tests whose name matches
#   bash tests/run.sh --sanitize address,undefined    tests of the library (alloc, offload, ckpt), in a build of their own with these sanitizers
#   bash tests/run.sh --sanitize thread               the same with ThreadSanitizer and most of the other tests: what has no second thread is left out
#   bash tests/run.sh --threads                       of that, what calls ebb and the software device from several threads at once
#   bash tests/run.sh --small-chunks                  with chunks of 64 KiB: random programs that have failed (tests/fuzz/regressions.txt), and
#                                                     each call that fails once (test_transaction.c)
#   bash tests/run.sh --full                          what is too long for every change, some hours: the four parts below, which can be run one by one
#
#   TEST_LONG=1 bash tests/run.sh                     every test with more cases, seeds, budgets and means; those with the label `long`, too
#   TEST_LONG=1 bash tests/run.sh --sanitize address,undefined    with these sanitizers not the library alone
#   bash tests/run.sh --threads
#   bash tests/run.sh --small-chunks
#
# The tests run on the software device, also where there is a GPU.
set -euo pipefail

# All forms, also when one of them fails.
full() {
    local self=${BASH_SOURCE[0]} failed=0
    TEST_LONG=1 bash "$self" "$@" || failed=1
    TEST_LONG=1 bash "$self" --sanitize address,undefined || failed=1
    bash "$self" --threads || failed=1
    bash "$self" --small-chunks || failed=1
    return $failed
}

if [[ ${1:-} == --full ]]; then
    shift
    full "$@"
    exit
fi

sanitize='' threads='' small=''
if [[ ${1:-} == --small-chunks ]]; then
    shift
    small=yes
    BUILD_FOLDER=${BUILD_FOLDER:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build-small}
fi
if [[ ${1:-} == --threads ]]; then
    shift
    threads=yes
    set -- --sanitize thread "$@"
fi
if [[ ${1:-} == --sanitize ]]; then
    sanitize=${2:-}
    shift 2 || shift
    case $sanitize in
    *thread*) folder='build-tsan' ;;
    *address*) folder='build-asan' ;;
    *undefined*) folder='build-ubsan' ;;
    *)
        echo "ebb: --sanitize '$sanitize': give a list of address, undefined and thread, such as address,undefined" >&2
        exit 2
        ;;
    esac
    BUILD_FOLDER=${BUILD_FOLDER:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/$folder}
fi
# shellcheck source=model/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../model/setup.sh"

# bring_up_to_date <build folder>: builds in another folder than $build.
bring_up_to_date() {
    local build=$1 logs=$1/logs
    mkdir -p "$logs"
    setup_build
}

# Of random programs those with several threads, by their seeds; the one that repeats drives plans.
threaded_fuzz() {
    local seed failed=0
    for seed in 6 13 19 23; do
        bash "$root/tests/fuzz/run.sh" --build "$build" --budgets "$seed" || failed=1
    done
    bash "$root/tests/fuzz/run.sh" --build "$build" --faults 19 || failed=1
    bash "$root/tests/fuzz/run.sh" --build "$build" --repeats 3 --with threads || failed=1
    return $failed
}

main() {
    local -a options=() selection=()
    local plain=$root/build
    if [[ -n $sanitize ]]; then
        # Kernel libraries stay as they are: the sanitizers make of each kernel's unrolled loops a compilation without end.
        # If the plain build is there (.ci/run), it has them.
        [[ -x $plain/bin/ebb-train ]] || plain=''
        options+=(-DEBB_SANITIZE="${sanitize//,/;}" -DSOFTGPU_KERNEL_OPTIONS=-fno-sanitize=all -DEBB_DEVICE_CODE_FROM="$plain")
        # Programs with a dlsym of their own cannot start: the sanitizer's runtime calls it before anything is set up;
        # test_alloc_hook looks at who answers look-ups, and here that is the sanitizer.
        # Nor what shows nothing here that others do not: kernels have no sanitizers (modes), and the plain run has all seeds.
        local left_out='test_runtime_lookup|test_cublas_handle|test_cublaslt_algorithm|test_alloc_hook|model_reference'
        left_out+='|kernels_.*_modes|ebb_predicted_time|bench_planner|test_.*_seed_[23]|test_driver_vmm_seed_1'
        # Races need threads: not the planner and its checker, nor the kernels, which have no sanitizers. (The threads of a block, in simt
        # modes, are one of the system's.) And programs of Clang's, which has a ThreadSanitizer of its own, cannot load a driver with GCC's.
        [[ $sanitize != *thread* ]] || left_out+='|ckpt_.*|kernels_.*|simt_.*|fast_math|conformance_table|bench_.*|gpu_.*|clang_.*'
        if (($# == 0)) && [[ $sanitize == *thread* || -n ${TEST_LONG:-} ]]; then
            selection=(-L 'unit|differential' -LE '^long$' -E "^($left_out)$")
            unset TEST_LONG # the long forms would take days
        elif (($# == 0)); then
            # The library, by its unit tests, and under programs of each kind: the trainer, a loop, two threads, random contents, one that
            # is short of memory. Not what goes on with more of the same, nor what judges how good plans are.
            left_out+='|ebb_(nasty|nasty_order|nasty_reach|streams|broken|kinds|learn|drive|ranks|sizes|budget|plan_thread)'
            left_out+='|ckpt_(monotone|overlay|boundary|exact|exchange|host_budget|mutations)'
            export TEST_CASES=${TEST_CASES:-12} TEST_NASTY_ONLY=${TEST_NASTY_ONLY:-routed}
            selection=(-L '^(alloc|offload|ckpt)$' -LE '^long$' -E "^($left_out)$")
            targets=(layer_tests)
        fi
        if [[ -n $threads ]]; then
            local several='conformance\.(stream|context|event)\..*|test_driver_(stream|order|handles)|test_alloc_ahead|ebb_duo|ebb_nasty_order'
            several+='|test_runtime_(errors|stream|per_thread|stream_per_thread)|model_data|model_shards'
            several+='|conformance_ebb|ebb_residence|ebb_residence_in_pieces|test_pinned|ebb_ranks'
            selection=(-R "^($several)$")
            export TEST_NASTY_ONLY=threads TEST_ONLY="ranks_that_are_threads*"
        fi
        export SEEDS=${SEEDS:-1}
        # Libraries that are never unloaded, and memory of the device, are no leaks of the tests; those that can tell look for
        # them all the same (EBB_LEAK_CHECKED in tests/CMakeLists.txt).
        export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0:verify_asan_link_order=0} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
        # A program with a race ends with exit code 66.
        export TSAN_OPTIONS=${TSAN_OPTIONS:-second_deadlock_stack=1}
    fi
    # The last one unpacks modules (test_alloc_image).
    setup_packages 'command bible|bible-kjv' 'library libzstd.so.1|libzstd1'
    # Kernels that are not for fast mode; who else starts several ranks.
    offer_packages 'clang|clang-19' 'command mpirun.openmpi|openmpi-bin' 'command mpiexec.mpich|mpich'
    # Not on a machine of a cluster, which has its own.
    command -v srun >/dev/null || offer_packages 'command srun|slurm-client' 'command slurmctld|slurmctld' 'command slurmd|slurmd'
    setup_toolkit
    [[ -z $sanitize || -z $plain ]] || bring_up_to_date "$plain"
    [[ -z $small ]] || { options+=(-DEBB_CHUNK_KIB=64) && targets=(fuzz ebb ebb_transaction); }
    setup_build "${options[@]}"
    if [[ -n $small ]]; then
        local failed=0
        bash "$root/tests/fuzz/run.sh" --build "$build" --regressions &
        TEST_EVERY_CALL=800 ctest --test-dir "$build" --parallel "$(nproc)" --output-on-failure --no-tests=error -R '^ebb_transaction_' || failed=1
        wait $! || failed=1
        return $failed
    fi
    (($# > 0 || ${#selection[@]} > 0)) || [[ -n ${TEST_LONG:-} ]] || { selection=(-LE '^long$') && export SEEDS=${SEEDS:-1}; }
    # One more than there are cores: most tests wait now and then. Those that measure time run alone (RUN_SERIAL).
    ctest --test-dir "$build" --parallel $(($(nproc) + 1)) --output-on-failure --no-tests=error "${selection[@]}" "$@" |
        python3 -B "$root/tests/slowest.py"
    [[ -z $threads ]] || threaded_fuzz
}

main "$@"
