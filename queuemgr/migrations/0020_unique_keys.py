from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0019_batch_callbacks")]

    operations = [
        migrations.AddField(
            "execution",
            "unique_key",
            models.CharField(
                max_length=255, null=True, blank=True,
                help_text="While it is set, no other of its flow has it.",
            ),
        ),
        migrations.AddField(
            "execution",
            "unique_states",
            models.SmallIntegerField(
                null=True, blank=True,
                choices=[(1, "while it waits to begin"), (2, "until it ends"), (3, "after it ended, too")],
                help_text="In which states it keeps its unique key.",
            ),
        ),
        migrations.AddField(
            "execution",
            "unique_until",
            models.DateTimeField(
                null=True, blank=True,
                help_text="When another may take its unique key; empty: as its states say.",
            ),
        ),
    ]
