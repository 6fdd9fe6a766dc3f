"""The whole of a budget may be spent, unless somebody reserved a part of it: until now a tenth was reserved of
every budget. Rows keep what a setting, a flow or a person put there."""

from django.db import migrations, models

FORMER_DEFAULT = 10
FIELD = "reserved_for_high_percent"


def free_reserves_nobody_stated(apps, schema_editor):
    database = schema_editor.connection.alias
    edited = {
        entry.target
        for entry in apps.get_model("queuemgr", "AuditEntry").objects.using(database)
        .filter(action="edit limit").only("target", "after").iterator()
        if FIELD in (entry.after or {})
    }
    limits = apps.get_model("queuemgr", "Limit").objects.using(database)
    unstated = [
        pk
        for pk, name, stated in limits.filter(**{FIELD: FORMER_DEFAULT}).values_list("pk", "name", "from_settings")
        if FIELD not in stated and name not in edited
    ]
    for start in range(0, len(unstated), 500):
        limits.filter(pk__in=unstated[start : start + 500]).update(**{FIELD: 0})


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0012_bulk_action_user")]

    operations = [
        migrations.SeparateDatabaseAndState(  # the default is Django's: SQLite would rebuild the table for it
            state_operations=[
                migrations.AlterField(
                    "limit",
                    FIELD,
                    models.PositiveSmallIntegerField(
                        default=0,
                        help_text="Last percent of the day's budget that only high-priority work may spend "
                        "(none of a budget below 100).",
                    ),
                )
            ]
        ),
        migrations.RunPython(free_reserves_nobody_stated, migrations.RunPython.noop),
    ]
