"""The flow of attempts that used meters, so that what a step used lately is found however rare it is."""

from django.db import migrations, models

from queuemgr.base.online_ddl import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # the index is built concurrently

    dependencies = [("queuemgr", "0036_budgets_as_allowances")]

    operations = [
        migrations.AddField(
            "attempt",
            "flow",
            models.CharField(help_text="Its flow, where it used other meters.", max_length=200, null=True),
        ),
        AddIndexConcurrently(
            "attempt",
            models.Index(
                fields=["flow", "phase", "step", "id"],
                condition=models.Q(uses__gt=""),
                name="attempt_uses_of_step",
            ),
        ),
        migrations.RemoveIndex("attempt", "attempt_uses"),
    ]
