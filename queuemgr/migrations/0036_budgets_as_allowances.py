"""A daily budget is an allowance of requests a day: what was spent of budgets moves to the usage of allowances,
and whoever may see daily usage may see that."""

from datetime import UTC, datetime, time

from django.conf import settings
from django.db import connections, migrations, router

from queuemgr.base.budget_day import zone
from queuemgr.base.config import queue_settings

REQUESTS_A_DAY = "requests/day"
ROWS = 500


def zone_of(limit, zones, default):
    """Where its days were: as its own row says, else that of the longest pattern."""
    patterns = [name for name in zones if name.endswith("*") and limit.startswith(name[:-1])]
    row = limit if limit in zones else max(patterns, key=len, default="")
    return zone(zones.get(row) or default)


def move_usage(apps, schema_editor):
    """Where the allowances of a limit stated requests a day, too, both counted the same: the larger counts."""
    database = schema_editor.connection.alias
    usage = apps.get_model("queuemgr", "AllowanceUsage").objects.using(database)
    zones = dict(apps.get_model("queuemgr", "Limit").objects.using(database).values_list("name", "budget_zone"))
    default = queue_settings().budget_zone
    known = {
        (row.limit, row.starts_at): row for row in usage.filter(allowance=REQUESTS_A_DAY).iterator()
    }
    made = []
    for old in apps.get_model("queuemgr", "DailyUsage").objects.using(database).iterator():
        starts_at = datetime.combine(old.day, time(), zone_of(old.limit, zones, default)).astimezone(UTC)
        if row := known.get((old.limit, starts_at)):
            usage.filter(pk=row.pk).update(spent=max(row.spent, old.spent))
        else:
            made.append(usage.model(limit=old.limit, allowance=REQUESTS_A_DAY, starts_at=starts_at, spent=old.spent))
        if len(made) >= ROWS:
            usage.bulk_create(made)
            made = []
    usage.bulk_create(made)


def move_permissions(apps, schema_editor):
    """In the database of the project's accounts, which may not have been migrated yet."""
    permission = apps.get_model("auth", "Permission")
    database = router.db_for_write(permission)
    if permission._meta.db_table not in connections[database].introspection.table_names():
        return
    kinds = apps.get_model("contenttypes", "ContentType").objects.using(database)
    permissions = permission.objects.using(database)
    kind, _ = kinds.get_or_create(app_label="queuemgr", model="allowanceusage")
    for old in permissions.filter(content_type__app_label="queuemgr", content_type__model="dailyusage"):
        verb = old.codename.partition("_")[0]
        new, _ = permissions.get_or_create(
            content_type=kind,
            codename=f"{verb}_allowanceusage",
            defaults={"name": f"Can {verb} allowance usage"},
        )
        for holders in ("group_set", "user_set"):  # a user model of the project may have no permissions
            if hasattr(old, holders):
                getattr(new, holders).add(*getattr(old, holders).using(database).all())
        old.delete()


class Migration(migrations.Migration):
    dependencies = [
        ("queuemgr", "0035_note_of_limits"),
        ("auth", "__first__"),
        ("contenttypes", "__latest__"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunPython(move_usage, migrations.RunPython.noop),
        migrations.RunPython(move_permissions, migrations.RunPython.noop),
        migrations.DeleteModel("DailyUsage"),
    ]
