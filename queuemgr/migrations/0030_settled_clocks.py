"""What the clock of a rolling allowance must know to give back no more than has not been refilled."""

from django.db import migrations, models


def _seconds(help_text: str) -> models.FloatField:
    return models.FloatField(db_default=0, default=0, help_text=help_text)


class Migration(migrations.Migration):

    dependencies = [("queuemgr", "0029_attempt_uses")]

    operations = [
        migrations.AddField("allowanceclock", "booked_at", _seconds("The start booked last.")),
        migrations.AddField("allowanceclock", "given_back", _seconds("Seconds given back in all.")),
        migrations.AddField("allowancesettlement", "at", _seconds("When the lease ended.")),
        migrations.AddField("allowancesettlement", "until", _seconds("Up to where it was booked.")),
        migrations.AddField(
            "allowancesettlement", "given_back", _seconds("What had been given back when it was booked.")
        ),
    ]
