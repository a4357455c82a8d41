#!/usr/bin/env bash
# compare_saved.sh [--python FILE]: what a layer saves for its backward pass, in ebb-train and in eager PyTorch.
#
# The model of compare_pytorch.sh (6 layers, width 256, 8 heads, context 256, batch 8), in fp32 and BF16, without and with
# dropout. ebb-train's numbers are those of --dry-run, by name; PyTorch's are counted by pytorch_saved.py. Bytes for each token and channel of
# a layer; and bytes for each token at the peak of a step, all that does not grow with the batch left out. Prints tables.
#
#   --python FILE    a Python with PyTorch (default: /usr/bin/python3)
#
# BUILD_FOLDER names the build folder.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_FOLDER:-$root/build}
python=/usr/bin/python3
[[ ${1:-} != --python ]] || python=${2:?--python needs a value}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# dry_run <dtype> <dropout> <save> <batch>
dry_run() {
    LD_LIBRARY_PATH=$build/softgpu/lib "$build/bin/ebb-train" --dry-run --data "$root/softgpu/README.md" --layers 6 --width 256 --heads 8 \
        --context 256 --batch "$4" --dtype "$1" --dropout "$2" --save "$3" --log "$folder/$1-$2-$3-$4" >/dev/null
}

for dtype in fp32 bf16; do
    for dropout in 0 0.1; do
        for save in full lean; do
            dry_run $dtype $dropout $save 8
            dry_run $dtype $dropout $save 16
        done
        "$python" "$root/bench/pytorch_saved.py" --layers 6 --heads 8 --batch 8 --dtype $dtype --dropout $dropout >"$folder/$dtype-$dropout-torch"
    done
done

FOLDER=$folder "$python" - <<'PY'
import json, os

folder = os.environ["FOLDER"]


def dry(*name):
    lines = [json.loads(line) for line in open(f"{folder}/{'-'.join(name)}")]
    return next(r for r in lines if "saved_by_layer" in r)


each = 8 * 256 * 256
print("| saved by a layer, bytes a token and channel | ebb-train | --save lean | PyTorch | ebb-train's peak, bytes a token | --save lean | PyTorch's |")
print("| --- | --- | --- | --- | --- | --- | --- |")
for dtype in "fp32", "bf16":
    for dropout in "0", "0.1":
        cells = [f"{sum(dry(dtype, dropout, save, '8')['saved_by_layer'].values()) / each:.1f}" for save in ("full", "lean")]
        torch = json.load(open(f"{folder}/{dtype}-{dropout}-torch"))
        cells.append(f"{torch['bytes']:.1f}")
        for save in "full", "lean":
            grown = dry(dtype, dropout, save, "16")["peak_bytes"] - dry(dtype, dropout, save, "8")["peak_bytes"]
            cells.append(f"{grown / (8 * 256):.0f}")
        cells.append(str(torch["peak_bytes_a_token"]))
        print(f"| {dtype}, dropout {dropout} | " + " | ".join(cells) + " |")
print("\nPyTorch", torch["torch"])
for dtype, dropout in ("bf16", "0.1"),:
    for save in "full", "lean":
        names = dry(dtype, dropout, save, "8")["saved_by_layer"]
        print(f"ebb-train {dtype}, dropout {dropout}, {save}:", ", ".join(f"{k} {v / each:.2f}" for k, v in names.items()))
    theirs = json.load(open(f"{folder}/{dtype}-{dropout}-torch"))["tensors"]
    print(f"PyTorch {dtype}, dropout {dropout}:", ", ".join(f"{t['tensor']} {t['bytes']:.2f}" for t in theirs))
PY
