from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0009_periodic_job_running_since")]

    operations = [
        migrations.AddField(
            "bulkaction",
            "previewed_by",
            models.CharField(
                max_length=150, blank=True, default="", db_default="",
                help_text="Who asked for it; `actor` is who started it.",
            ),
        ),
        migrations.AddField(
            "bulkaction",
            "token_id",
            models.PositiveBigIntegerField(
                null=True, blank=True, help_text="The API token it was started with; empty: with none."
            ),
        ),
    ]
