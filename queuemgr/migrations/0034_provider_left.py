"""What providers say is left of a meter under a limit, and which leases have been answered."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("queuemgr", "0033_checked_numbers_of_limits")]

    operations = [
        migrations.AddField(
            "limitstate",
            "provider_left",
            models.TextField(
                db_default="", default="", help_text="What its provider says is left; see provider_left.py."
            ),
        ),
        migrations.AddField(
            "lease",
            "answered",
            models.BooleanField(
                db_default=False, default=False, help_text="Whether it said what its provider has left."
            ),
        ),
    ]
