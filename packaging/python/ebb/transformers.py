"""For Hugging Face's Trainer: `Trainer(..., callbacks=[EbbCallback()])` shows ebb's figures beside the loss. Under no ebb it adds nothing."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback  # type: ignore[import-not-found]

import ebb


class EbbCallback(TrainerCallback):
    """Adds ebb.figures() to what the Trainer logs and keeps in `state.log_history`. A callback that reports elsewhere and comes before it in the Trainer's list
    does not see them. mark_steps: also says where each optimizer step begins (ebb.step): for a model whose layers are taken for steps."""

    def __init__(self, mark_steps: bool = False) -> None:
        self._mark_steps = mark_steps
        self._before: dict[str, Any] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._before = ebb.stats()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._mark_steps:
            ebb.step()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        more = ebb.figures(self._before)
        self._before = ebb.stats()
        if logs is not None:
            logs.update(more)
        if state.log_history:
            state.log_history[-1].update(more)
