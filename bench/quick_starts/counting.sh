# Counts a quick start while it is followed; sourced by the script of each project.
#
# The rules are in docs/quick_starts.md. A script calls, in this order: `fresh_project`, `clock`, then a
# `…_step` for each step its README asks for, and `report`.
set -euo pipefail

ROOT="${QUICK_START_ROOT:-$(mktemp -d)}"
STEPS=0
SHELL_LINES=0
WORKERS=()

CPU_FILE=$(mktemp)

# Where the task says that it ran.
export DONE_FILE

# fresh_project PYTHON [DJANGO]: what every developer has before the first step; nothing of it is counted.
fresh_project() {
  local place="$ROOT/$NAME"
  rm -rf "$place" && mkdir -p "$place"
  "$1" -m venv "$place/venv"
  export PATH="$place/venv/bin:$PATH"
  pip install --quiet "${2:-Django}"
  cd "$place"
  DONE_FILE="$place/done"
  django-admin startproject shop
  cd shop
  python manage.py startapp letters
  sed -i 's/^INSTALLED_APPS = \[/&\n    "letters",/' shop/settings.py
  cat > letters/tasks.py <<'PYTHON'
import os
from pathlib import Path


def send(to):
    Path(os.environ["DONE_FILE"]).write_text(to)
PYTHON
  git init --quiet
  printf '*.sqlite*\n__pycache__/\n*.log\n.sluicegate/\n' > .gitignore
  git add . && git -c user.name=x -c user.email=x@example.org commit --quiet --message fresh
  PACKAGES_BEFORE=$(packages)
  BYTES_BEFORE=$(bytes)
}

packages() { pip list --format=freeze | wc -l; }

bytes() { du --summarize --bytes "$ROOT/$NAME/venv" | cut -f1; }

clock() {
  times > "$CPU_FILE"
  CPU_BEFORE=$(cpu)
  BEGAN=$(date +%s.%N)
}

# Seconds of processor that the children of this shell have used, as far as they were waited for.
cpu() {
  awk 'END { for (i = 1; i <= 2; i++) { split($i, t, "m"); sum += t[1] * 60 + t[2] } print sum }' "$CPU_FILE"
}

# A command the reader types, and waits for.
command_step() { STEPS=$((STEPS + 1)); "$@" >> command.log 2>&1 || stop "$*" command.log; }

# A page the reader opens, and opens again until its server is up.
page_step() {
  STEPS=$((STEPS + 1))
  for _ in $(seq 600); do
    if curl --fail --silent "$1" >> command.log 2>&1; then return; fi
    sleep 0.05
  done
  stop "$1" worker.log
}

# A command the reader leaves running in a terminal of its own.
background_step() {
  STEPS=$((STEPS + 1))
  "$@" > worker.log 2>&1 &
  WORKERS+=("$!")
}

# What the reader waits for before the next step.
wait_until_it_says() {
  local deadline=$((SECONDS + 60))
  until grep --quiet "$1" worker.log; do
    if [ $SECONDS -gt $deadline ]; then stop "it does not say $1" worker.log; fi
    sleep 0.02
  done
}

# A file the reader edits, once, however many places of it change. What follows may `append`, `prepend`, `replace`.
file_step() { STEPS=$((STEPS + 1)); EDITED=$1; }

append() { cat >> "$EDITED"; }

prepend() { printf '%s\n' "$(cat)" "$(cat "$EDITED")" > "$EDITED.new" && mv "$EDITED.new" "$EDITED"; }

# replace PATTERN TEXT: the first line that matches becomes TEXT.
replace() {
  python - "$EDITED" "$1" "$2" <<'PYTHON'
import re, sys
path, pattern, text = sys.argv[1:]
before = open(path).read()
after, count = re.subn(pattern, lambda _: text, before, count=1, flags=re.M)
assert count, f"{path} has no {pattern}"
open(path, "w").write(after)
PYTHON
}

install_app() { replace '^INSTALLED_APPS = \[' "INSTALLED_APPS = [
    \"$1\","; }

# Python the reader types into `manage.py shell`: one step, and its lines count like lines of a file.
shell_step() {
  local typed
  typed=$(cat)
  STEPS=$((STEPS + 1))
  SHELL_LINES=$((SHELL_LINES + $(grep --count . <<< "$typed")))
  python manage.py shell >> shell.log 2>&1 <<< "$typed" || stop "manage.py shell" shell.log
}

stop() { echo "$NAME: failed: $1" >&2; tail -20 "$2" >&2; end_workers; exit 1; }

wait_until_done() {
  local deadline=$((SECONDS + 60))
  until [ -s "$DONE_FILE" ]; do
    if [ $SECONDS -gt $deadline ]; then stop "the task did not run within 60 s" worker.log; fi
    sleep 0.02
  done
}

end_workers() {
  for worker in "${WORKERS[@]}"; do
    kill "$worker" 2>/dev/null || true
    wait "$worker" 2>/dev/null || true
  done
}

lines() {
  git add --intent-to-add .
  echo $((SHELL_LINES + $(git diff --unified=0 | grep --count '^+[^+]*[^+[:space:]]')))
}

# A task that ran beside tracebacks is not a quick start that worked.
stop_at_tracebacks() {
  local log
  for log in *.log; do
    if grep --quiet Traceback "$log"; then stop "a traceback in $log" "$log"; fi
  done
}

# One row of the table: steps, lines, packages and MB that were added, servers, seconds, and seconds of
# processor.
report() {
  wait_until_done
  local seconds
  seconds=$(python -c "import time; print(f'{time.time() - $BEGAN:.1f}')")
  end_workers
  times > "$CPU_FILE"
  stop_at_tracebacks
  local megabytes=$((($(bytes) - BYTES_BEFORE + 500000) / 1000000))
  echo "| $NAME | $STEPS | $(lines) | $(($(packages) - PACKAGES_BEFORE)) | $megabytes | $1 | $seconds | $(awk "BEGIN { printf \"%.1f\", $(cpu) - $CPU_BEFORE }") |"
}
