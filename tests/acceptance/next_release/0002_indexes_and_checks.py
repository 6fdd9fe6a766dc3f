from django.db import migrations, models
from django.db.models import Q

from queuemgr.base.online_ddl import AddConstraintNotValid, AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("queuemgr", "0001_first_release")]
    operations = [
        AddIndexConcurrently("execution", models.Index("wait_reason", name="execution_by_reason")),
        AddIndexConcurrently("execution", models.Index("created_at", name="execution_by_creation")),
        AddConstraintNotValid(
            "execution", models.CheckConstraint(condition=~Q(key=""), name="execution_has_a_key")
        ),
        AddConstraintNotValid(
            "execution",
            models.UniqueConstraint(fields=["key"], condition=Q(flow="none"), name="one_of_a_key"),
        ),
    ]
