from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0006_worker_drains")]

    operations = [
        migrations.AddField(
            "limit",
            "pause_only",
            models.BooleanField(
                default=False,
                db_default=False,
                editable=False,
                help_text="Whether it only holds a pause, and its values are those of its pattern.",
            ),
        ),
    ]
