"""Batches, bulk actions, minutes, API tokens; nothing that reads a large table is done here."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('queuemgr', '0004_lease_has_a_route'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='BulkAction',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('verb', models.CharField(max_length=32)),
                ('arguments', models.JSONField(default=dict)),
                ('filters', models.JSONField(default=dict)),
                ('state', models.CharField(choices=[('previewed', 'Previewed'), ('running', 'Running'), ('stopped', 'Stopped'), ('done', 'Done'), ('failed', 'Failed')], db_index=True, default='previewed', max_length=12)),
                ('actor', models.CharField(max_length=150)),
                ('source', models.CharField(max_length=32)),
                ('reason', models.CharField(blank=True, max_length=200)),
                ('per_minute', models.PositiveIntegerField(default=0, help_text='Rows it may change a minute; 0: as fast as it goes.')),
                ('matched', models.PositiveIntegerField(help_text='Rows its filter met at the preview.')),
                ('up_to', models.PositiveBigIntegerField(help_text='The last id it will look at.')),
                ('cursor', models.PositiveBigIntegerField(default=0)),
                ('changed', models.PositiveIntegerField(default=0)),
                ('skipped', models.PositiveIntegerField(default=0, help_text='Rows that had changed since, and were left alone.')),
                ('failed', models.PositiveIntegerField(default=0)),
                ('problem', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('due_at', models.DateTimeField(blank=True, help_text='When its rate lets it change the next row.', null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('stopped_by', models.CharField(blank=True, max_length=150)),
            ],
            options={
                'ordering': ('-id',),
                'permissions': (('stop_bulkaction', 'Can stop bulk actions'),),
            },
        ),
        migrations.CreateModel(
            name='GivenAnswer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('request_digest', models.CharField(max_length=64)),
                ('status', models.PositiveSmallIntegerField()),
                ('body', models.JSONField()),
                ('at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name='Minute',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('minute', models.DateTimeField()),
                ('phase', models.CharField(max_length=32)),
                ('priority', models.SmallIntegerField(choices=[(0, 'high'), (1, 'normal'), (2, 'low')])),
                ('outcome', models.CharField(choices=[('done', 'Done'), ('skipped', 'Skipped'), ('failed', 'Failed'), ('retried', 'failed, tried again'), ('snoozed', 'asked to wait'), ('interrupted', 'stopped by a shutdown'), ('cancelled', 'Cancelled'), ('lost', 'worker lost'), ('mishap', 'mishap')], max_length=12)),
                ('error_kind', models.CharField(blank=True, max_length=32)),
                ('attempts', models.PositiveBigIntegerField()),
                ('cost', models.PositiveBigIntegerField(default=0)),
                ('waited', models.JSONField(default=list)),
                ('ran', models.JSONField(default=list)),
            ],
        ),
        migrations.AlterModelOptions(
            name='change',
            options={'ordering': ('-id',), 'permissions': (('undo_change', 'Can undo changes'),)},
        ),
        migrations.AlterModelOptions(
            name='execution',
            options={'permissions': (('view_payload', 'Can read payloads and contexts'), ('edit_payload', 'Can retry with an edited payload'), ('retry_execution', 'Can retry executions'), ('cancel_execution', 'Can cancel executions'), ('skip_execution', 'Can skip executions'), ('prioritise_execution', 'Can change priorities and times'))},
        ),
        migrations.AlterModelOptions(
            name='limit',
            options={'ordering': ('name',), 'permissions': (('pause_limit', 'Can pause, resume and open limits'),)},
        ),
        migrations.AlterModelOptions(
            name='queue',
            options={'ordering': ('phase', 'priority'), 'permissions': (('pause_queue', 'Can pause and resume queues'),)},
        ),
        migrations.AddField(
            model_name='change',
            name='action_id',
            field=models.PositiveBigIntegerField(blank=True, help_text='The bulk action it was part of.', null=True),
        ),
        migrations.AddField(
            model_name='change',
            name='affected',
            field=models.PositiveIntegerField(db_default=1, default=1, help_text='Rows this change met.'),
        ),
        migrations.AddField(
            model_name='change',
            name='undoes',
            field=models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='undone_by', to='queuemgr.change'),
        ),
        migrations.AddField(
            model_name='execution',
            name='batch_seq',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='execution',
            name='error_fingerprint',
            field=models.CharField(blank=True, db_default='', default='', help_text='The same for failures whose message differs in detail.', max_length=16),
        ),
        migrations.AddField(
            model_name='execution',
            name='traceparent',
            field=models.CharField(blank=True, db_default='', default='', help_text='The trace it was enqueued in (W3C Trace Context).', max_length=55),
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('scopes', models.JSONField(default=list)),
                ('rate', models.CharField(default='600/minute', max_length=32)),
                ('counted_until', models.FloatField(default=0.0, help_text="The rate's clock: seconds since 1970, moved on by each request.")),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('used_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'API token',
                'ordering': ('name',),
            },
        ),
        migrations.CreateModel(
            name='Batch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=150, unique=True)),
                ('flow', models.CharField(max_length=32)),
                ('fail_fast', models.BooleanField(default=False, help_text='The first failure cancels what has not ended.')),
                ('window', models.PositiveIntegerField(default=0, help_text='How far work may start beyond the first not yet ended; 0: any.')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('created_by', models.CharField(blank=True, max_length=150)),
                ('closed_at', models.DateTimeField(blank=True, help_text='Since when nothing may be added.', null=True)),
                ('cancelled_at', models.DateTimeField(blank=True, null=True)),
                ('cancelled_because', models.CharField(blank=True, max_length=200)),
            ],
            options={
                'verbose_name_plural': 'batches',
                'ordering': ('-id',),
                'constraints': [models.CheckConstraint(condition=models.Q(('cancelled_at__isnull', True), ('closed_at__isnull', False), _connector='OR'), name='cancelled_batch_is_closed')],
            },
        ),
        migrations.AddField(
            model_name='execution',
            name='batch',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='executions', to='queuemgr.batch'),
        ),
        migrations.AddConstraint(
            model_name='bulkaction',
            constraint=models.CheckConstraint(condition=models.Q(('cursor__lte', models.F('up_to'))), name='bulk_cursor_within_its_end'),
        ),
        migrations.AddField(
            model_name='givenanswer',
            name='token',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='queuemgr.apitoken'),
        ),
        migrations.AddConstraint(
            model_name='minute',
            constraint=models.UniqueConstraint(fields=('minute', 'phase', 'priority', 'outcome', 'error_kind'), name='one_row_per_minute_and_kind'),
        ),
        migrations.AddConstraint(
            model_name='givenanswer',
            constraint=models.UniqueConstraint(fields=('token', 'key'), name='one_answer_per_key'),
        ),
    ]
