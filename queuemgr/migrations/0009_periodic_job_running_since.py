from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0008_callback_hung_at")]

    operations = [
        migrations.AddField(
            "periodicjob",
            "running_since",
            models.DateTimeField(null=True, help_text="Since when it runs; empty: it does not."),
        ),
    ]
