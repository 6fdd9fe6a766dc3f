from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0025_flow_retention")]

    operations = [
        migrations.RemoveIndex("canvascall", "canvas_call_untold"),
        migrations.RemoveIndex("canvascall", "canvas_call_told"),
        migrations.RenameField("canvascall", "told_at", "notified_at"),
        migrations.AlterField(
            "canvascall",
            "claimed_until",
            models.DateTimeField(
                null=True, blank=True, help_text="A process notifies Celery until then.",
            ),
        ),
        migrations.AddIndex(
            "canvascall",
            models.Index(fields=["id"], condition=models.Q(notified_at=None), name="canvas_call_pending"),
        ),
        migrations.AddIndex(
            "canvascall",
            models.Index(
                fields=["notified_at"], condition=~models.Q(notified_at=None), name="canvas_call_notified",
            ),
        ),
    ]
