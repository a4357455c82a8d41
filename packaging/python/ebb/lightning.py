"""For Lightning: `Trainer(..., callbacks=[EbbCallback()])` logs ebb's figures beside the loss. Under no ebb it logs nothing."""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch.callbacks import Callback  # type: ignore[import-not-found]
except ImportError:
    from pytorch_lightning.callbacks import Callback  # type: ignore[import-not-found]

import ebb


class EbbCallback(Callback):
    """Logs ebb.figures() every `every` batches, as the module logs its own. mark_steps: as ebb.transformers.EbbCallback has it."""

    def __init__(self, every: int = 50, mark_steps: bool = False) -> None:
        self._every = every
        self._mark_steps = mark_steps
        self._before: dict[str, Any] = {}

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._before = ebb.stats()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self._mark_steps and batch_idx % trainer.accumulate_grad_batches == 0:
            ebb.step()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if (batch_idx + 1) % self._every:
            return
        more = ebb.figures(self._before)
        self._before = ebb.stats()
        if more:
            pl_module.log_dict(more)
