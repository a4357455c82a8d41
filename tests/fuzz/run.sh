#!/usr/bin/env bash
# run.sh --budgets|--faults|--repeats FIRST-LAST [--build FOLDER] [--result FILE]: random programs, with and without ebb.
#
#   --budgets   each program under libebb with a budget, on a device that has no more memory than that, or far more: the same hashes,
#               and never more of the device in use than the budget
#   --faults    the same with calls of the driver that fail: the same hashes, or the same up to where the program gave up
#               because the error stayed
#   --repeats   programs that repeat a step, with divergences; the same hashes, or the error with which ebb says that contents
#               were lost to a write that it had never seen (a kernel that writes only now and then)
#   --result    one line of JSON: how many programs have passed, command and machine (the long form:
#               run.sh --budgets 1-5000 --result bench/results/fuzz-budgets.json)
#
# Budgets, policy, the device's scheduler and faults follow from the seed. A failure prints the command that repeats it; the seed stays in
# build/fuzz/MODE with what both runs have said. FUZZ_JOBS: how many at once (2).
set -uo pipefail

mode='' seeds='' result='' build=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build
words=''
while (($#)); do
    case $1 in
    --budgets | --faults | --repeats) mode=${1#--} seeds=${2:-} ;;
    --build) build=${2:-} ;;
    --result) result=${2:-} ;;
    *)
        echo "run.sh: $1? See its first lines." >&2
        exit 2
        ;;
    esac
    [[ $1 == --build || $1 == --result ]] || words+=${words:+ }"$1 ${2:-}"
    shift 2 || exit 2
done
commit=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --short HEAD 2>/dev/null)
[[ $seeds =~ ^([0-9]+)(-([0-9]+))?$ ]] || { echo "run.sh: which seeds?" >&2; exit 2; }
first=${BASH_REMATCH[1]} last=${BASH_REMATCH[3]:-${BASH_REMATCH[1]}}

library=$build/lib/libebb.so work=$build/fuzz/$mode
mkdir -p "$work"
export LD_LIBRARY_PATH=$build/softgpu/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} SOFTGPU_POISON=1 SOFTGPU_WORKERS=2

# A number below $2 from seed and name: the same whenever the same is asked.
draw() {
    local sum
    sum=$(printf '%s %s' "$seed" "$1" | cksum)
    echo $((${sum%% *} % $2))
}

# Where it is tight: an operation's own memory, small buffers twice (they are cut from shared chunks), and a few chunks.
choose_budget() {
    local size peak need small chunks least share
    size=$(grep '^size ' "$work/$seed.without") || return 1
    read -r _ peak need small chunks <<<"$size"
    least=$((need + 2 * small + 6 * 2097152))
    if [[ $mode == repeats ]]; then # where a plan has something to do, and some chance
        share=$((2 * small + chunks / 100 * (60 + $(draw share 35))))
    else
        share=$((peak / 100 * (30 + $(draw share 80))))
    fi
    budget=$(((share > least ? share : least) / 2097152 * 2097152))
}

choose_fault() {
    local kinds=(alloc free host map unmap copy set launch event stream sync any
        cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuMemHostRegister cuMemcpyDtoHAsync cuMemcpyHtoDAsync
        cuEventRecord cuEventQuery cuStreamWaitEvent cuEventSynchronize) kind
    local -i count=1
    fault=''
    [[ $(draw several 3) != 0 ]] || count=3
    for ((i = 0; i < count; i++)); do
        kind=${kinds[$(draw "kind $i" ${#kinds[@]})]}
        fault+=${fault:+,}$kind@$(($(draw "nth $i" 300) + 1))
        [[ $(draw "stays $i" 5) != 0 ]] || fault+=+
        [[ $(draw "lost $i" 20) != 0 ]] || fault+='!'
    done
}

statistic() {
    grep -o "\"$1\": [0-9]*" "$work/$seed.json" | head -n 1 | grep -o '[0-9]*$'
}

# What ebb has made of a program that repeats itself: a line of its kind (several: streams or threads; differs: its steps do
# almost from the start; same; leaves: like the same, then they differ), whether its step was found and learned, steps
# driven, times it left a plan. On one stream the step must be found, and learned if it stays the same for long enough;
# what is learned is driven, or there is a reason.
note_reached() {
    local calm percent streams kind=several found learned driven
    read -r calm percent streams < <(sed -n 's/^repeats .* times, \(.*\) of them undisturbed, then \(.*\) percent of places diverge; streams: /\1 \2 /p' "$work/$seed.without")
    found=$(($(statistic step_operations) > 0)) driven=$(statistic steps_driven)
    learned=$(grep -q 'ebb: learned in' "$work/$seed.log" && echo 1 || echo 0)
    if (($(grep -c '^repeats ' "$work/$seed.without") == 1 && streams == 1)); then
        kind=differs
        ((found)) || fails 'its step was not found'
        if ((calm > 10)); then
            kind=$( ((percent)) && echo leaves || echo same)
            # It is learned when memory is short for the first time, which may be when it diverges.
            ((learned)) || grep -q 'no memory to learn with' "$work/$seed.log" || { ((percent)) && grep -q 'two steps differ' "$work/$seed.log"; } ||
                fails 'its step was not learned'
            ((driven || !learned)) || grep -Eq 'there is no plan|could not be installed|no memory to learn with' "$work/$seed.log" || fails 'no step was driven'
        fi
    fi
    echo "$kind $found $learned $driven $(statistic fallbacks)" >>"$work/reached"
}

fails() {
    echo "FAILED: seed $seed: $1"
    echo "  $command"
    tail -n 5 "$work/$seed.log" | sed 's/^/  /'
    exit 1
}

one() {
    seed=$1
    local policy arguments=("$seed") hosts=(4GiB 4GiB 16MiB 1MiB) means=('' '' EBB_OFFLOAD=0 EBB_RECOMPUTE=0) status
    policy=$([[ $(draw policy 3) == 0 ]] && echo reactive || echo auto)
    if [[ $mode == repeats ]]; then # plans, where they are possible
        arguments+=(--repeat) hosts=(4GiB 4GiB 4GiB 16MiB) policy=auto
    fi
    command="LD_LIBRARY_PATH=$build/softgpu/lib SOFTGPU_POISON=1 $build/bin/fuzz ${arguments[*]}"
    timeout 120 "$build/bin/fuzz" "${arguments[@]}" >"$work/$seed.without" 2>"$work/$seed.log" || fails "without ebb"
    choose_budget || fails 'no size was told'
    # The device has no more than the budget, or far more: then it tells whether that was asked for.
    local size=$(($(draw device 2) ? budget : 4 * budget))
    local -a settings=(LD_PRELOAD="$library" SOFTGPU_MEMORY="$size" SOFTGPU_PEAK="$work/$seed.peak" EBB_BUDGET="$budget"
        EBB_POLICY="$policy" EBB_STATS="$work/$seed.json"
        EBB_LOG="$([[ $mode == repeats ]] && echo info || echo warn)" EBB_HOST_BUDGET="${hosts[$(draw host ${#hosts[@]})]}" EBB_LINK=10G)
    # Half of them under the scheduler that puts off work, or does it at once, as its seed says.
    [[ $(draw scheduler 2) == 0 ]] || settings+=(SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED="$(draw order 1000000)")
    # Where steps repeat, plans with one of their means only.
    [[ $mode != repeats ]] || settings+=("EBB_VERIFY=1" ${means[$(draw means ${#means[@]})]})
    if [[ $mode == faults ]]; then
        choose_fault
        arguments+=(--faults)
        settings+=(SOFTGPU_FAULT="$fault")
    fi
    command="LD_LIBRARY_PATH=$build/softgpu/lib SOFTGPU_POISON=1 ${settings[*]} $build/bin/fuzz ${arguments[*]}"
    rm -f "$work/$seed.json"
    env "${settings[@]}" timeout 120 "$build/bin/fuzz" "${arguments[@]}" >"$work/$seed.with" 2>"$work/$seed.log"
    status=$?
    ((status != 124)) || fails 'it hangs'
    if [[ $mode == repeats && $status == 3 ]] && grep -q 'has other bits' "$work/$seed.log" &&
        grep -q CUDA_ERROR_LAUNCH_FAILED "$work/$seed.log" && [[ ${settings[*]} != *EBB_RECOMPUTE=0* ]]; then
        echo "told $seed" >>"$work/told"
        rm -f "$work/$seed".*
        return
    fi
    ((status == 0)) || fails "exit code $status"
    grep -q 'condition of ebb' "$work/$seed.log" && fails 'a broken condition'
    local most
    read -r _ most <"$work/$seed.peak" || fails 'the device has not told its peak'
    ((most <= budget)) || fails "$most bytes of the device were in use, the budget is $budget"
    if grep -q '^stopped$' "$work/$seed.with"; then
        # A worker that gave up has said what it knew until then, which must be so; its last line may be cut off.
        [[ $mode == faults ]] || fails 'it gave up'
        grep -v '^stopped$' "$work/$seed.with" | grep -vxFf "$work/$seed.without" >"$work/$seed.diff" &&
            fails 'other contents before it gave up'
    else
        diff "$work/$seed.without" "$work/$seed.with" >"$work/$seed.diff" || fails 'other contents'
        [[ $mode != repeats ]] || note_reached
        # A failed unmapping or free is not made again and leaves something behind; one of these may not.
        if [[ $mode != faults || $fault =~ ^(alloc|event|stream|sync|launch|copy|set|cuEvent|cuStream|cuMemcpy|cuMemCreate)[A-Za-z]*@[0-9]+$ ]]; then
            grep -Eq '"live_bytes": 0, .*"host_bytes": 0, .*"pageable_bytes": 0, ' "$work/$seed.json" || fails 'something is left at the end'
        fi
    fi
    rm -f "$work/$seed".*
}

declare -i failed=0
export -f one draw statistic note_reached fails choose_budget choose_fault
export mode work build library
start=$SECONDS
: >"$work/told"
: >"$work/reached"
seq "$first" "$last" | xargs -P "${FUZZ_JOBS:-2}" -I{} bash -c 'one {}' >"$work/failures" || failed=1
cat "$work/failures"
count=$((last - first + 1)) bad=$(grep -c '^FAILED' "$work/failures") told=$(grep -c '^told' "$work/told")
said="$count programs, $mode, seeds $first to $last: $bad failed" keys=''
if [[ $mode == repeats ]]; then
    # Two steps per program are driven, half of those that could be driven are, and half of those that leave their plan come
    # back to it.
    declare -i found learned driven steps calm calm_driven left resumed
    read -r found learned driven steps calm calm_driven left resumed < <(awk '
        { found += $2; learned += $3; driven += $4 > 0; steps += $4 }
        $1 == "same" || $1 == "leaves" { calm++; calm_driven += $4 > 0 }
        $1 == "leaves" && $5 > 0 { left++; resumed += $5 > 1 }
        END { print found + 0, learned + 0, driven + 0, steps + 0, calm + 0, calm_driven + 0, left + 0, resumed + 0 }' "$work/reached")
    said+=", $told told of lost contents; $found with a step that was found, $learned learned, $driven driven ($steps steps; of $calm with one stream and"
    said+=" a calm beginning $calm_driven); of those, $left left the plan when they diverged, $resumed came back to it"
    keys=$(printf '"lost_and_told": %d, "found": %d, "learned": %d, "driven": %d, "steps_driven": %d, "calm": %d, "calm_driven": %d, "left": %d, "resumed": %d, ' \
        "$told" "$found" "$learned" "$driven" "$steps" "$calm" "$calm_driven" "$left" "$resumed")
    if ((count >= 16 && (steps < 2 * count || 2 * calm_driven < calm || 2 * resumed < left || left == 0))); then
        echo 'FAILED: too few were driven, left their plan, or came back to it'
        failed=1
    fi
fi
echo "$said, $((SECONDS - start)) s"
if [[ -n $result ]]; then
    printf '{"command": "tests/fuzz/run.sh %s", "programs": %d, "failed": %d, %s"seconds": %d, "jobs": %d, "processors": %d, "machine": "%s", "device": "softgpu", "date": "%s", "commit": "%s"}\n' \
        "$words" "$count" "$bad" "$keys" "$((SECONDS - start))" "${FUZZ_JOBS:-2}" "$(nproc)" \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(date -u +%F)" "$commit" >"$result"
fi
((failed == 0))
