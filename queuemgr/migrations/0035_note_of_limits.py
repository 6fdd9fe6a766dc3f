from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0034_provider_left")]

    operations = [
        migrations.AddField(
            "limit",
            "note",
            models.CharField(
                blank=True, default="", db_default="", max_length=200,
                help_text="Why it is what it is, for whoever edits it next, as the contract of May.",
            ),
        ),
    ]
