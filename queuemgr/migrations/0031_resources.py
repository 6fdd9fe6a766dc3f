"""Tokens of steps are called resources. The database renames the column in the unique constraint of routes, too,
and rebuilds nothing."""

from django.db import migrations, models

HOLDERS = ("route", "lease", "attempt")
ROUTE = ["phase", "priority", "resumed", "retrying", "limit_keys"]


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0030_settled_clocks")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RenameField(name, "tokens", "resources") for name in HOLDERS],
            state_operations=[
                migrations.RemoveConstraint("route", "route_is_unique"),
                *(migrations.RenameField(name, "tokens", "resources") for name in HOLDERS),
                migrations.AddConstraint(
                    "route",
                    models.UniqueConstraint(
                        fields=[*ROUTE, "resources", "cost", "uses", "weight"], name="route_is_unique"
                    ),
                ),
            ],
        ),
    ]
