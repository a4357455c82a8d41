"""What stock.py and patterns.py tell of a run, as tests/gpu/pytorch_models.py does (compute/report.py reads it)."""

import ctypes
import hashlib
import json

import torch


def state_of(*optimizers):
    """Tensors that optimizers keep."""
    return [t for optimizer in optimizers for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t)]


def tell(model, losses, tensors, o, **more):
    """One JSON object on stdout: the losses, a hash of all bits of these and of the tensors, the options' seed and precision, PyTorch's peak."""
    sums = hashlib.sha256(json.dumps([losses, more]).encode())
    for tensor in tensors:
        bits = tensor.detach().cpu().contiguous()
        sums.update(ctypes.string_at(bits.data_ptr(), bits.nbytes))
    result = {"model": model, "ranks": 1, "hash": sums.hexdigest()[:16], "seed": o.seed, "precision": o.precision, "losses": losses, "skipped": []} | more
    if o.device == "cuda":
        result["torch_peak_bytes"] = torch.cuda.max_memory_allocated()
    print(json.dumps(result))
