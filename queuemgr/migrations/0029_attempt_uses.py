from django.db import migrations, models

from queuemgr.base.online_ddl import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # the index is built concurrently

    dependencies = [("queuemgr", "0028_allowances")]

    operations = [
        AddIndexConcurrently(
            "attempt", models.Index(fields=["id"], condition=models.Q(uses__gt=""), name="attempt_uses")
        ),
    ]
