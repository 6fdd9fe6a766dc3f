from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0013_whole_budgets")]

    operations = [
        migrations.AddField(
            "worker",
            "broker",
            models.CharField(
                max_length=200, blank=True, default="", db_default="",
                help_text="Where it takes messages from, without the password.",
            ),
        )
    ]
