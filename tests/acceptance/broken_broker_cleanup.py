"""A `celery …` command whose kombu, once a file named by `BREAK_NOW` appears, meets what celery/kombu#582
describes: channels that have lost their connection, whose unacknowledged messages it restores."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from celery.__main__ import main
from kombu.transport.redis import MultiChannelPoller

SIGN = Path(os.environ["BREAK_NOW"])
maintain = MultiChannelPoller.on_poll_start


def break_once(poller: Any) -> Any:
    if SIGN.exists():
        SIGN.unlink()
        for channel in list(poller._channels):
            channel._disconnect_pools()
            channel.connection = None
            if os.environ["BREAK_BY"] == "restoring messages":
                channel.qos.restore_unacked()
        raise ConnectionError("the broker is gone")
    return maintain(poller)


if __name__ == "__main__":
    MultiChannelPoller.on_poll_start = break_once
    sys.argv[0] = "celery"
    main()
