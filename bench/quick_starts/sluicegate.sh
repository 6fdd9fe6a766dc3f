# Sluicegate: the quick start of README.md, with the wheel of this checkout in place of the name.
NAME=sluicegate
source "$(dirname "$0")/counting.sh"
checkout=$(cd "$(dirname "$0")/../.." && pwd)
wheel=$(cd "$checkout" && .venv/bin/python -c "
from pathlib import Path
from tests.installed_wheel import built_wheel
print(built_wheel(Path('$ROOT/wheel')))")
fresh_project python3.11
clock

command_step pip install "$wheel"

file_step shop/settings.py
install_app queuemgr

file_step letters/tasks.py
prepend <<'PYTHON'
from queuemgr import queued
PYTHON
replace '^def send' '@queued(limits={"mail": 2})
def send'

background_step python manage.py worker --migrate
wait_until_it_says 'ready\.'

shell_step <<'PYTHON'
from letters.tasks import send
send.enqueue(to="ann@example.org")
PYTHON

report none
