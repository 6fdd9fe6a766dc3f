from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0007_limit_pause_only")]

    operations = [
        migrations.AddField(
            "callbackfailure",
            "hung_at",
            models.DateTimeField(null=True, help_text="When it last did not end, and its process did."),
        ),
    ]
