from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('queuemgr', '0042_attempt_log'),
    ]

    operations = [
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('list', models.CharField(help_text='The model whose list it is, as app.model.', max_length=100)),
                ('name', models.CharField(max_length=80)),
                ('owner_key', models.CharField(max_length=255)),
                ('owner', models.CharField(help_text='The name of the owner when it was saved.', max_length=255)),
                ('query', models.CharField(blank=True, max_length=2000)),
                ('shared', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'ordering': ('name', 'id'),
                'permissions': (('share_savedview', 'Can share views of lists'),),
                'constraints': [models.UniqueConstraint(fields=('list', 'owner_key', 'name'), name='one_view_of_each_name'), models.UniqueConstraint(condition=models.Q(('shared', True)), fields=('list', 'name'), name='one_shared_view_of_each_name')],
            },
        ),
    ]
