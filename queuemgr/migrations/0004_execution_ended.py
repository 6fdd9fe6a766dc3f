from django.db import migrations, models

from queuemgr.base.online_ddl import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ("queuemgr", "0003_worker_processes"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("batch__isnull", True), ("finished_at__isnull", False)),
                fields=["state", "finished_at"],
                name="execution_ended",
            ),
        ),
    ]
