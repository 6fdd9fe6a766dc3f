"""What a parser may read beside its document: Python, the libraries, fonts, and a few facts of the system."""

from __future__ import annotations

import os
import site
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))

OURS = ("pipeline", "queuemgr")
"""Packages beside each other in `ROOT`, never all of it: a data directory may be there."""

SYSTEM = (
    "/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib",
    "/usr/local/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/ld-musl-x86_64.path",
    "/etc/ld-musl-aarch64.path", "/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf",
    "/usr/share/fonts", "/usr/share/X11/fonts", "/usr/local/share/fonts",
    "/usr/share/zoneinfo", "/usr/share/locale", "/etc/localtime",
    "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu",
    "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom",
)  # fmt: skip


def readable() -> list[str]:
    """The paths, of which some may not exist."""
    return [
        *SYSTEM,
        os.path.dirname(os.__file__),
        *site.getsitepackages(),
        *(os.path.join(sys.base_prefix, name) for name in ("lib", "lib64")),
        *(os.path.join(ROOT, name) for name in OURS),
        *filter(os.path.isabs, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)),
    ]
