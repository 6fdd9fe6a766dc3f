from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0031_resources")]

    operations = [
        migrations.AddField("minutestats", "used", models.JSONField(null=True)),
    ]
