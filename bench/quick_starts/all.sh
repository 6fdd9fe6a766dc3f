# Follows each quick start and prints the table: python -m bench.quick_starts.servers bash bench/quick_starts/all.sh
#
# The second run counts: the first fills pip's cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export QUICK_START_ROOT="${QUICK_START_ROOT:-$(mktemp -d)}"

echo '| project | steps | lines | packages | MB | servers | seconds | of processor |'
echo '|---|---|---|---|---|---|---|---|'
for name in "${@:-sluicegate django_ox procrastinate django_tasks_db dramatiq dbos}"; do
  for one in $name; do
    bash "$here/$one.sh" > /dev/null
    bash "$here/$one.sh"
  done
done
