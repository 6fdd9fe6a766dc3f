"""What the clock of a rolling allowance must know to give back no more than has not been refilled."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("queuemgr", "0029_attempt_uses")]

    operations = [
        migrations.AddField(
            "allowanceclock",
            "bookings",
            models.BigIntegerField(db_default=0, default=0, help_text="The number of the latest booking."),
        ),
        migrations.AddField(
            "allowanceclock",
            "dips",
            models.TextField(db_default="[]", default="[]", help_text="The lowest since each; see bucket_clock.py."),
        ),
        migrations.AddField(
            "allowancesettlement",
            "at",
            models.FloatField(db_default=0, default=0, help_text="When the lease ended."),
        ),
        migrations.AddField(
            "allowancesettlement",
            "number",
            models.BigIntegerField(db_default=0, default=0, help_text="The number of its booking."),
        ),
    ]
