import django.db.models.deletion
from django.db import migrations, models


def statements():
    return models.TextField(
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="Digests of the values stated so far, the newest last.",
    )


def stated_at():
    return models.DateTimeField(
        null=True, editable=False, help_text="Since when the stated values in force are."
    )


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0014_worker_broker")]

    operations = [
        *(
            migrations.AddField(model, name, field())
            for model in ("limit", "queue", "retrypolicy")
            for name, field in (("statements", statements), ("stated_at", stated_at))
        ),
        migrations.CreateModel(
            "WorkerStatement",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=16)),
                ("values", models.JSONField(default=dict)),
                (
                    "worker",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="statement",
                        to="queuemgr.worker",
                    ),
                ),
            ],
        ),
    ]
