from django.db import migrations, models

from queuemgr.base.online_ddl import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # the indexes are built concurrently

    dependencies = [("queuemgr", "0021_one_holder_per_unique_key")]

    operations = [
        migrations.AddField(
            "scheduledrun",
            "times",
            models.PositiveIntegerField(
                null=True, default=1, db_default=1,
                help_text="How many due times it stands for; empty: so many that nobody counted.",
            ),
        ),
        migrations.AlterField(
            "scheduledrun",
            "until",
            models.DateTimeField(
                null=True,
                help_text="Of due times left out together: the last of them; `due_at` is the first.",
            ),
        ),
        AddIndexConcurrently(
            "scheduledrun",
            models.Index(
                fields=["schedule", "until"],
                condition=models.Q(outcome="skipped", until__isnull=False),
                name="scheduled_runs_together",
            ),
        ),
        AddIndexConcurrently(
            "scheduledrun",
            models.Index(
                fields=["execution"],
                condition=models.Q(ended_as__in=("failed", "cancelled", "skipped")),
                name="scheduled_run_retriable",
            ),
        ),
    ]
