

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pipeline', '0002_costs'),
    ]

    operations = [
        migrations.AddField(
            model_name='document',
            name='abstract',
            field=models.TextField(blank=True, db_default='', default='', help_text='As printed, or as a service has it.'),
        ),
        migrations.AddField(
            model_name='document',
            name='keywords',
            field=models.JSONField(blank=True, default=list, help_text='As printed.', null=True),
        ),
        migrations.AddField(
            model_name='document',
            name='metadata',
            field=models.JSONField(blank=True, default=list, help_text='Every value that a source states, with its confidence.', null=True),
        ),
        migrations.AddField(
            model_name='document',
            name='venue',
            field=models.CharField(blank=True, db_default='', default='', help_text='Journal or conference.', max_length=300),
        ),
    ]
