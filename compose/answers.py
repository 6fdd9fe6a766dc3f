"""Exit 0 when a URL answers successfully: a health check for an image without curl."""

from __future__ import annotations

import sys
from http.client import HTTPException
from urllib.request import urlopen

try:
    with urlopen(sys.argv[1], timeout=5) as answer:  # noqa: S310  # the URL is compose.yaml's own
        print(answer.status)
except (OSError, HTTPException) as error:
    sys.exit(f"{sys.argv[1]}: {error}")
