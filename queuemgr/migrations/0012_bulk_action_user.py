from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0011_results")]

    operations = [
        migrations.AddField(
            "bulkaction",
            "user_id",
            models.PositiveBigIntegerField(
                null=True, blank=True, help_text="The account that started it; empty: a command."
            ),
        ),
    ]
