"""Every lease has its route, now that those held before have got theirs."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("queuemgr", "0003_carry_over"),)

    operations = (
        migrations.AlterField(
            model_name="lease",
            name="route",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="queuemgr.route"
            ),
        ),
    )
