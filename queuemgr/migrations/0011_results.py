from django.db import migrations, models

from queuemgr.base.online_ddl import WidenText


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0010_bulk_action_starter")]

    operations = [
        WidenText("execution", "flow", models.CharField(max_length=200)),
        WidenText("batch", "flow", models.CharField(max_length=200)),
        WidenText("callbackfailure", "flow", models.CharField(max_length=200)),
        WidenText("auditentry", "target", models.CharField(max_length=500)),
        migrations.AddField(
            "execution",
            "result",
            models.JSONField(null=True, blank=True, help_text="What its last step returned."),
        ),
        migrations.AddField(
            "attempt",
            "traceback",
            models.TextField(
                null=True, blank=True, help_text="Where an unexpected error was raised, with secrets masked."
            ),
        ),
    ]
