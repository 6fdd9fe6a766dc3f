from django.db import migrations, models

from queuemgr.base.online_ddl import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # the index is built concurrently

    dependencies = [("queuemgr", "0024_canvas_calls")]

    operations = [
        migrations.CreateModel(
            name="FlowRetention",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("flow", models.CharField(max_length=200, unique=True)),
                (
                    "keep_failed_days",
                    models.FloatField(help_text="Days that failed executions are kept; 0: for ever."),
                ),
            ],
            options={"ordering": ("flow",)},
        ),
        migrations.AddConstraint(
            "flowretention",
            models.CheckConstraint(
                condition=models.Q(keep_failed_days__gte=0, keep_failed_days__lte=36_600),
                name="flow_retention_days_in_range",
            ),
        ),
        AddIndexConcurrently(
            "execution",
            models.Index(
                fields=["flow", "finished_at"],
                condition=models.Q(state="failed", batch__isnull=True),
                name="execution_failed_of_flow",
            ),
        ),
    ]
