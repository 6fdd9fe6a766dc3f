from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0015_statements")]

    operations = [
        migrations.AddField(
            "execution",
            "unknown_since",
            models.DateTimeField(
                null=True, blank=True, help_text="Since when workers it was offered to do not know its step."
            ),
        ),
    ]
