#!/usr/bin/env bash
# run.sh [--sanitize LIST] [ctest options...]: sets up as the quickstart does, builds, and runs every test.
#
#   bash tests/run.sh                                 everything
#   bash tests/run.sh -L unit                         tests with one label (unit, conformance, integration, differential, gpu)
#   bash tests/run.sh -R driver                       tests whose name matches
#   bash tests/run.sh --sanitize address,undefined    most of them, in a build of their own with these sanitizers
#
# TEST_SWEEP=full: every budget with every means, half an hour more; policies: every mode under every policy, longer
# (tests/ckpt/test_budget.c). TEST_DIVERGE=full, TEST_KINDS=full: minutes more (test_diverge.c, test_kinds.c).
# EBB_TEST_LONG=1: the default run to its end, BF16 beside fp32 for 300 steps, every element of the largest tensors (tests/model).
#
# The tests run on the software device, also where there is a GPU.
set -euo pipefail

sanitize=''
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
        (($# > 0)) || selection=(-L 'unit|differential' -E "^($left_out)$")
        # In their short forms: tests/ckpt/test_budget.c, test_nasty.c, tests/conformance/run.sh.
        export TEST_SWEEP=${TEST_SWEEP:-one} TEST_NASTY=${TEST_NASTY:-one} SEEDS=${SEEDS:-1}
        # Libraries that are never unloaded, and memory of the device, are no leaks of the tests; those that can tell look for
        # them all the same (EBB_LEAK_CHECKED in tests/CMakeLists.txt).
        export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0:verify_asan_link_order=0} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
    fi
    # The last one unpacks modules (test_alloc_image).
    setup_packages 'command bible|bible-kjv' 'library libzstd.so.1|libzstd1'
    setup_toolkit
    [[ -z $sanitize || -z $plain ]] || bring_up_to_date "$plain"
    setup_build "${options[@]}"
    # One more than there are cores: most tests wait now and then. Those that measure time run alone (RUN_SERIAL).
    ctest --test-dir "$build" --parallel $(($(nproc) + 1)) --output-on-failure --no-tests=error "${selection[@]}" "$@"
}

main "$@"
