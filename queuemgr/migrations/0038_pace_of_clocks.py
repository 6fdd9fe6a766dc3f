"""What the seconds of clocks are of, so that an edit of an allowance keeps the amounts that are used."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("queuemgr", "0037_attempt_flow")]

    operations = [
        migrations.AddField(
            name,
            "pace",
            models.FloatField(
                db_default=0, default=0, help_text="Seconds of the smallest part of its meter; 0: unknown."
            ),
        )
        for name in ("allowanceclock", "allowancesettlement")
    ]
