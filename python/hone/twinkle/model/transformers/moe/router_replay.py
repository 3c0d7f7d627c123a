"""Router replay: a pass takes the experts that an earlier one, or the sampler, chose for each token."""
from __future__ import annotations

from enum import Enum
from typing import Any

from .....errors import UsageError
from ....utils import not_supported


class RouterReplayAction(Enum):
    """What a pass does about its routers."""

    RECORD = "record"  # forward_only() returns `routed_experts`
    REPLAY_FORWARD = "replay_forward"  # those of the rows are taken, in the backward pass and where it computes again, too
    REPLAY_BACKWARD = "replay_backward"  # Twinkle's own, between the two


def take_action(settings: dict[str, Any], enabled: bool, may_record: bool = False) -> RouterReplayAction | None:
    """Takes `router_replay_action` out of a call's settings. As in Twinkle it has no effect on a model without enable_router_replay."""
    settings.pop("router_replay_manual_cleanup", None)
    action: RouterReplayAction | None = settings.pop("router_replay_action", None)
    if action is None or not enabled:
        return None
    if action not in (RouterReplayAction.RECORD, RouterReplayAction.REPLAY_FORWARD):
        raise UsageError(f"router_replay_action is {action!r}", "expected RouterReplayAction.RECORD or RouterReplayAction.REPLAY_FORWARD")
    if action is RouterReplayAction.RECORD and not may_record:
        raise not_supported("RouterReplayAction.RECORD in a pass with gradients", "record in forward_only()")
    return action
