#!/bin/sh
# Install what a lock names into an environment, and nothing else: install.sh TOOLS LOCK [ENVIRONMENT]
#
# TOOLS is an environment with pip; what installs is put there. Each file must have a hash that the lock names,
# those that build an sdist too. The index is the one that pip is configured for. Where uv is not to be had or
# does not reach that index, pip installs the same in three times as long.
set -eu
here=$(dirname "$0")
tools=$1/bin lock=$here/$2.txt environment=${3:-$1}
pip="$tools/python -m pip --disable-pip-version-check"
flags="--quiet --no-deps --require-hashes"

with_uv() {
  $pip install $flags --no-compile --requirement "$here/uv.txt" || return
  index=${PIP_INDEX_URL:-$($pip config get global.index-url 2> /dev/null || true)}
  [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
  "$tools/uv" pip install $flags --python "$environment/bin/python" \
    --build-constraints "$here/build.txt" --require-build-hashes --requirement "$lock"
}

with_pip() {
  $pip --python "$environment/bin/python" install $flags --no-compile --no-build-isolation --requirement "$lock"
}

$pip install $flags --no-compile --requirement "$here/build.txt"
with_uv || with_pip
