#!/usr/bin/env bash
# try_pytorch.sh OUTDIR: the step of PyTorch on the CPU, one model, all of PyTorch's ways but torch.compile (minutes); then its table
# and picture are looked at. PYTHON is a Python with PyTorch (python3); without one: 77.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"${PYTHON:-python3}" -c 'import torch' 2>/dev/null || { echo "skipped: no PyTorch in ${PYTHON:-python3}"; exit 77; }
rm -rf "$1"
bash "$here/run.sh" "$1" --cpu --quick --models gpt2
for way in eager checkpoint save_on_cpu 'selective checkpoint'; do
    grep -qE "^\| $way \| (equal|other bits) \| [0-9.]+ \|" "$1/summary.md" || { echo "no row of $way"; exit 1; }
    grep -qF ">$way" "$1/pytorch-gpt2.svg" || { echo "no point of $way"; exit 1; }
done
grep -q 'checkpoint | equal' "$1/summary.md" || { echo 'checkpointing changes bits'; exit 1; }
grep -q 'a trial on the CPU' "$1/pytorch-gpt2.svg" || { echo 'the picture does not say what it is'; exit 1; }
