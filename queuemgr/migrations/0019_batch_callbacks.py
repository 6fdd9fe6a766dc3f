import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('queuemgr', '0018_schedules'),
    ]

    operations = [
        migrations.CreateModel(
            name='BatchCallback',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('event', models.CharField(choices=[('on_complete', 'Complete'), ('on_success', 'Success'), ('on_failure', 'Failure')], max_length=16)),
                ('flow', models.CharField(max_length=200)),
                ('key', models.CharField(max_length=255)),
                ('phase', models.CharField(max_length=32)),
                ('step', models.CharField(max_length=32)),
                ('priority', models.SmallIntegerField(choices=[(0, 'high'), (1, 'normal'), (2, 'low')], default=1)),
                ('payload', models.JSONField(default=dict)),
                ('fired_at', models.DateTimeField(blank=True, help_text='When its execution was inserted.', null=True)),
            ],
        ),
        migrations.AddField(
            model_name='batch',
            name='completed_at',
            field=models.DateTimeField(blank=True, help_text='Empty again while a member that was retried has not ended.', null=True),
        ),
        migrations.AddField(
            model_name='batch',
            name='parent',
            field=models.ForeignKey(blank=True, db_index=False, help_text='The batch that completes after this one.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='children', to='queuemgr.batch'),
        ),
        migrations.AddField(
            model_name='batch',
            name='succeeded',
            field=models.BooleanField(blank=True, help_text='Whether all of it was done or skipped when it completed.', null=True),
        ),
        migrations.AddIndex(
            model_name='batch',
            index=models.Index(condition=models.Q(('parent__isnull', False)), fields=['parent', 'completed_at'], name='batch_children'),
        ),
        migrations.AddIndex(
            model_name='batch',
            index=models.Index(condition=models.Q(('closed_at__isnull', False), ('completed_at__isnull', True)), fields=['id'], name='batch_not_completed'),
        ),
        migrations.AddField(
            model_name='batchcallback',
            name='batch',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='callbacks', to='queuemgr.batch'),
        ),
        migrations.AddField(
            model_name='batchcallback',
            name='route',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='queuemgr.route'),
        ),
        migrations.AddConstraint(
            model_name='batchcallback',
            constraint=models.UniqueConstraint(fields=('batch', 'event'), name='one_callback_per_batch_event'),
        ),
        migrations.AddConstraint(
            model_name='batchcallback',
            constraint=models.UniqueConstraint(fields=('flow', 'key'), name='one_batch_per_callback'),
        ),
    ]
