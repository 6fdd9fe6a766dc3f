from django.db import migrations, models

from queuemgr.base.online_ddl import AddConstraintNotValid


class Migration(migrations.Migration):
    atomic = False  # the index is built concurrently

    dependencies = [("queuemgr", "0020_unique_keys")]

    operations = [
        AddConstraintNotValid(
            "execution",
            models.UniqueConstraint(
                fields=("flow", "unique_key"),
                condition=models.Q(unique_key__isnull=False),
                name="one_holder_per_unique_key",
            ),
        ),
    ]
