"""Every table, and the triggers that keep the audit log append-only.

SQLite drops triggers with the table when a later migration rebuilds it: whoever alters `AuditEntry`
runs `make_audit_log_immutable` again at the end.
"""

import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.core.management import CommandError
from django.db import migrations, models


APPEND_ONLY = "the audit log is append-only"

POSTGRESQL = (
    f"""
    CREATE FUNCTION queuemgr_change_stays() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '{APPEND_ONLY}' USING ERRCODE = 'restrict_violation'; END $$
    """,
    """
    CREATE TRIGGER queuemgr_change_stays BEFORE UPDATE OR DELETE ON queuemgr_change
    FOR EACH ROW EXECUTE FUNCTION queuemgr_change_stays()
    """,
    """
    CREATE TRIGGER queuemgr_changes_stay BEFORE TRUNCATE ON queuemgr_change
    FOR EACH STATEMENT EXECUTE FUNCTION queuemgr_change_stays()
    """,
)
NO_POSTGRESQL = (
    "DROP TRIGGER IF EXISTS queuemgr_changes_stay ON queuemgr_change",
    "DROP TRIGGER IF EXISTS queuemgr_change_stays ON queuemgr_change",
    "DROP FUNCTION IF EXISTS queuemgr_change_stays()",
)
SQLITE = tuple(
    f"""
    CREATE TRIGGER queuemgr_change_no_{event.lower()} BEFORE {event} ON queuemgr_change
    BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END
    """
    for event in ("UPDATE", "DELETE")
)
NO_SQLITE = tuple(
    f"DROP TRIGGER IF EXISTS queuemgr_change_no_{event}" for event in ("update", "delete")
)


def refuse_an_earlier_database(apps, schema_editor):
    """Nothing before this release is upgraded: its tables would be met half-way with an obscure error."""
    if "queuemgr_execution" in schema_editor.connection.introspection.table_names():
        raise CommandError(
            "this database was made before the first release and cannot be upgraded: delete it (without "
            "DATABASE_URL it is sluice.sqlite3 in SLUICE_DATA_DIR) or name a new one in DATABASE_URL"
        )


def make_audit_log_immutable(apps, schema_editor):
    _run(schema_editor, {"postgresql": POSTGRESQL, "sqlite": SQLITE})


def make_audit_log_mutable(apps, schema_editor):
    _run(schema_editor, {"postgresql": NO_POSTGRESQL, "sqlite": NO_SQLITE})


def _run(schema_editor, statements):
    for statement in statements[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunPython(refuse_an_earlier_database, migrations.RunPython.noop),
        migrations.CreateModel(
            name='LimitState',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=255, unique=True)),
                ('rate_clock', models.FloatField(default=0, help_text="The rate's clock (Unix seconds; see rate.py).")),
                ('open_until', models.DateTimeField(null=True)),
                ('open_reason', models.CharField(blank=True, max_length=200)),
                ('half_open_starts', models.PositiveIntegerField(default=0, help_text='How many may run at once while half-open; 0: not half-open.')),
                ('failures', models.PositiveIntegerField(default=0, help_text='Consecutive failures to reach the service.')),
                ('virtual_time', models.FloatField(default=0, help_text='Virtual time of a tenant (start-time fair queueing).')),
            ],
            options={
                'db_table': 'queuemgr_gate',
            },
        ),
        migrations.CreateModel(
            name='PeriodicJob',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=32, unique=True)),
                ('ran_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'queuemgr_chore',
            },
        ),
        migrations.CreateModel(
            name='Queue',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('paused_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('paused_by', models.CharField(blank=True, editable=False, max_length=150)),
                ('pause_reason', models.CharField(blank=True, max_length=200)),
                ('paused_until', models.DateTimeField(blank=True, null=True)),
                ('name', models.CharField(max_length=64, unique=True)),
                ('phase', models.CharField(max_length=32)),
                ('priority', models.SmallIntegerField(choices=[(0, 'high'), (1, 'normal'), (2, 'low')])),
                ('max_pending', models.PositiveIntegerField(default=0, help_text='Most executions that may wait here; more are refused. 0: no cap.')),
                ('max_pending_from_settings', models.PositiveIntegerField(default=0, editable=False)),
            ],
            options={
                'ordering': ('phase', 'priority'),
                'permissions': (('pause_queue', 'Can pause and resume queues'),),
            },
        ),
        migrations.CreateModel(
            name='Wakeup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('route_id', models.BigIntegerField(null=True)),
                ('limit', models.CharField(blank=True, db_column='limit_name', max_length=300)),
            ],
        ),
        migrations.CreateModel(
            name='Worker',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=150)),
                ('host', models.CharField(max_length=150)),
                ('pid', models.PositiveIntegerField()),
                ('queues', models.JSONField(default=list)),
                ('slots', models.PositiveIntegerField()),
                ('started_at', models.DateTimeField()),
                ('seen_at', models.DateTimeField(db_index=True)),
                ('draining_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ('-seen_at',),
            },
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('scopes', models.JSONField(default=list)),
                ('rate', models.CharField(default='600/minute', max_length=32)),
                ('counted_until', models.FloatField(default=0.0, help_text="The rate's clock (Unix seconds): advanced by each request.")),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('used_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL)),
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
                ('fail_fast', models.BooleanField(default=False, help_text='The first failure cancels every execution that has not ended.')),
                ('window', models.PositiveIntegerField(default=0, help_text='How far after the first unfinished execution others may start; 0: any.')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('created_by', models.CharField(blank=True, max_length=150)),
                ('closed_at', models.DateTimeField(blank=True, help_text='Since when no execution may be added.', null=True)),
                ('cancelled_at', models.DateTimeField(blank=True, null=True)),
                ('cancelled_because', models.CharField(blank=True, max_length=200)),
            ],
            options={
                'verbose_name_plural': 'batches',
                'ordering': ('-id',),
                'constraints': [models.CheckConstraint(condition=models.Q(('cancelled_at__isnull', True), ('closed_at__isnull', False), _connector='OR'), name='cancelled_batch_is_closed')],
            },
        ),
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
                ('per_minute', models.PositiveIntegerField(default=0, help_text='Most rows changed per minute; 0: no limit.')),
                ('matched', models.PositiveIntegerField(help_text='Rows that matched the filter at the preview.')),
                ('up_to', models.PositiveBigIntegerField(help_text='The last id it will process.')),
                ('cursor', models.PositiveBigIntegerField(default=0)),
                ('changed', models.PositiveIntegerField(default=0)),
                ('skipped', models.PositiveIntegerField(default=0, help_text='Rows that had changed since the preview, and were left as they are.')),
                ('failed', models.PositiveIntegerField(default=0)),
                ('problem', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('due_at', models.DateTimeField(blank=True, help_text='When its rate allows the next row.', null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('stopped_by', models.CharField(blank=True, max_length=150)),
            ],
            options={
                'ordering': ('-id',),
                'permissions': (('stop_bulkaction', 'Can stop bulk actions'),),
                'constraints': [models.CheckConstraint(condition=models.Q(('cursor__lte', models.F('up_to'))), name='bulk_cursor_within_its_end')],
            },
        ),
        migrations.CreateModel(
            name='DailyUsage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('limit', models.CharField(db_column='limit_name', max_length=255)),
                ('spent', models.PositiveBigIntegerField(default=0)),
            ],
            options={
                'verbose_name_plural': 'daily usage',
                'ordering': ('-day', 'limit'),
                'constraints': [models.UniqueConstraint(fields=('day', 'limit'), name='one_usage_per_day_and_limit')],
            },
        ),
        migrations.CreateModel(
            name='Limit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('paused_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('paused_by', models.CharField(blank=True, editable=False, max_length=150)),
                ('pause_reason', models.CharField(blank=True, max_length=200)),
                ('paused_until', models.DateTimeField(blank=True, null=True)),
                ('name', models.CharField(max_length=255, unique=True)),
                ('max_running', models.PositiveIntegerField(default=0, help_text='Total weight that may run at once under this limit; 0: no cap.')),
                ('reserved_high', models.PositiveIntegerField(default=0, help_text='Part of max_running that only high-priority work may use.')),
                ('rate', models.CharField(blank=True, help_text='Rate of starts, as 1/3s, 50/s burst 100 or 10000/h; empty: none.', max_length=64)),
                ('daily_budget', models.PositiveIntegerField(blank=True, help_text='Most requests per day; empty: no budget.', null=True)),
                ('budget_zone', models.CharField(blank=True, help_text="IANA time zone of the budget's day; empty: the SLUICE_BUDGET_ZONE setting.", max_length=64)),
                ('reserved_for_high_percent', models.PositiveSmallIntegerField(default=10, help_text="Last percent of the day's budget that only high-priority work may spend (none of a budget below 100).")),
                ('blocked_for_low_percent', models.PositiveSmallIntegerField(default=0, help_text="Last percent of the day's budget that low-priority work may not spend.")),
                ('share', models.PositiveIntegerField(default=1, help_text='Starts a tenant gets for each start of a tenant whose share is 1.')),
                ('breaker_after', models.PositiveIntegerField(default=10, help_text='Consecutive failures to reach the service that open the breaker; 0: never.')),
                ('from_settings', models.JSONField(default=dict, editable=False)),
            ],
            options={
                'ordering': ('name',),
                'permissions': (('pause_limit', 'Can pause and resume limits and reset their breakers'),),
                'constraints': [models.CheckConstraint(condition=models.Q(('max_running', 0), ('reserved_high__lt', models.F('max_running')), ('max_running', 1), _connector='OR'), name='limit_reserve_leaves_room', violation_error_message='reserved_high must be smaller than max_running.'), models.CheckConstraint(condition=models.Q(('blocked_for_low_percent__lte', 100), ('reserved_for_high_percent__lte', 100), ('share__gte', 1)), name='limit_percents_and_share', violation_error_message='Percents must be 0 to 100, and the share at least 1.')],
            },
        ),
        migrations.CreateModel(
            name='MinuteStats',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('minute', models.DateTimeField()),
                ('phase', models.CharField(max_length=32)),
                ('priority', models.SmallIntegerField(choices=[(0, 'high'), (1, 'normal'), (2, 'low')])),
                ('outcome', models.CharField(choices=[('done', 'Done'), ('skipped', 'Skipped'), ('failed', 'Failed'), ('retried', 'failed, will be retried'), ('snoozed', 'snoozed by the step'), ('interrupted', 'interrupted by a shutdown'), ('cancelled', 'Cancelled'), ('lost', 'lost with its worker'), ('anomaly', 'anomaly')], max_length=12)),
                ('error_kind', models.CharField(blank=True, max_length=32)),
                ('attempts', models.PositiveBigIntegerField()),
                ('cost', models.PositiveBigIntegerField(default=0)),
                ('waited', models.JSONField(default=list)),
                ('ran', models.JSONField(default=list)),
            ],
            options={
                'verbose_name_plural': 'minute stats',
                'db_table': 'queuemgr_minute',
                'constraints': [models.UniqueConstraint(fields=('minute', 'phase', 'priority', 'outcome', 'error_kind'), name='one_row_per_minute_and_kind')],
            },
        ),
        migrations.CreateModel(
            name='RetryPolicy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=32)),
                ('phase', models.CharField(blank=True, help_text='Empty: every phase.', max_length=32)),
                ('max_attempts', models.PositiveIntegerField(help_text='Most attempts, including the first.')),
                ('base', models.FloatField(default=0, help_text='Seconds before the second attempt; doubles for each one after.')),
                ('ceiling', models.FloatField(default=0, help_text='Longest delay in seconds.')),
                ('jitter', models.FloatField(default=0, help_text='Most seconds added at random.')),
                ('meaning', models.CharField(blank=True, max_length=200)),
                ('from_settings', models.JSONField(default=dict, editable=False)),
            ],
            options={
                'verbose_name_plural': 'retry policies',
                'ordering': ('kind', 'phase'),
                'constraints': [models.UniqueConstraint(fields=('kind', 'phase'), name='one_policy_per_kind_and_phase'), models.CheckConstraint(condition=models.Q(('base__gte', 0), ('ceiling__gte', models.F('base')), ('jitter__gte', 0), ('max_attempts__gte', 1)), name='policy_waits_make_sense', violation_error_message='max_attempts is at least 1, delays at least 0, the ceiling at least base.')],
            },
        ),
        migrations.CreateModel(
            name='Route',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('phase', models.CharField(max_length=32)),
                ('priority', models.SmallIntegerField(choices=[(0, 'high'), (1, 'normal'), (2, 'low')])),
                ('resumed', models.BooleanField()),
                ('retrying', models.BooleanField(default=False)),
                ('limit_keys', models.CharField(blank=True, max_length=600)),
                ('tokens', models.CharField(blank=True, max_length=100)),
                ('cost', models.PositiveIntegerField()),
                ('weight', models.PositiveIntegerField()),
                ('tenant', models.CharField(blank=True, max_length=255)),
                ('served_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('head_at', models.DateTimeField(help_text='Lower bound of the due time of the oldest waiting execution.', null=True)),
                ('parked_on', models.CharField(blank=True, max_length=300)),
                ('parked_until', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('parked_on', '')), fields=['phase', 'priority', 'resumed', 'served_at'], name='route_turns'), models.Index(condition=models.Q(('parked_on', '')), fields=['head_at'], name='route_ages'), models.Index(condition=models.Q(('parked_on', ''), _negated=True), fields=['parked_on'], name='route_parked_on'), models.Index(condition=models.Q(('parked_until__isnull', False)), fields=['parked_until'], name='route_parked_until')],
                'constraints': [models.UniqueConstraint(fields=('phase', 'priority', 'resumed', 'retrying', 'limit_keys', 'tokens', 'cost', 'weight'), name='route_is_unique')],
            },
        ),
        migrations.CreateModel(
            name='Execution',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('flow', models.CharField(max_length=32)),
                ('key', models.CharField(max_length=255)),
                ('phase', models.CharField(max_length=32)),
                ('step', models.CharField(max_length=32)),
                ('priority', models.SmallIntegerField(choices=[(0, 'high'), (1, 'normal'), (2, 'low')], default=1)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('leased', 'Leased'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('skipped', 'Skipped'), ('cancelled', 'Cancelled')], default='waiting', max_length=12)),
                ('resumed', models.BooleanField(default=False, help_text='Whether it has entered its phase before.')),
                ('run_after', models.DateTimeField(blank=True, default=django.utils.timezone.now, help_text='It starts no earlier; empty: beyond the window of its batch.', null=True)),
                ('wait_reason', models.CharField(blank=True, max_length=200)),
                ('payload', models.JSONField(default=dict)),
                ('context', models.JSONField(default=dict)),
                ('error_kind', models.CharField(blank=True, max_length=32)),
                ('error_message', models.TextField(blank=True)),
                ('error_fingerprint', models.CharField(blank=True, db_default='', default='', help_text='Equal for failures whose messages differ only in details.', max_length=16)),
                ('batch_seq', models.PositiveIntegerField(blank=True, null=True)),
                ('traceparent', models.CharField(blank=True, db_default='', default='', help_text='The trace in which it was enqueued (W3C Trace Context).', max_length=55)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('attempts_counted_since', models.DateTimeField(default=django.utils.timezone.now)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('batch', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='executions', to='queuemgr.batch')),
                ('route', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='queuemgr.route')),
            ],
            options={
                'permissions': (('view_payload', 'Can read payloads and contexts'), ('edit_payload', 'Can retry with an edited payload'), ('retry_execution', 'Can retry executions'), ('cancel_execution', 'Can cancel executions'), ('skip_execution', 'Can skip executions'), ('prioritise_execution', 'Can change priorities and times')),
            },
        ),
        migrations.CreateModel(
            name='RouteLimit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(db_index=True, max_length=255)),
                ('route', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='limits', to='queuemgr.route')),
            ],
        ),
        migrations.CreateModel(
            name='Lease',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('phase', models.CharField(max_length=32)),
                ('step', models.CharField(max_length=32)),
                ('priority', models.SmallIntegerField(choices=[(0, 'high'), (1, 'normal'), (2, 'low')])),
                ('limit_keys', models.CharField(blank=True, max_length=600)),
                ('tokens', models.CharField(blank=True, max_length=100)),
                ('cost', models.PositiveIntegerField()),
                ('weight', models.PositiveIntegerField()),
                ('retrying', models.BooleanField(default=False)),
                ('rate_debits', models.CharField(blank=True, db_column='rated', help_text='Rate clocks it advances when it begins, by limit.', max_length=600)),
                ('spent', models.PositiveIntegerField(default=0, help_text='Requests reported as sent so far.')),
                ('due_at', models.DateTimeField()),
                ('leased_at', models.DateTimeField()),
                ('started_at', models.DateTimeField(null=True)),
                ('expires_at', models.DateTimeField(db_index=True)),
                ('cancel_requested_by', models.CharField(blank=True, max_length=150)),
                ('execution', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, to='queuemgr.execution')),
                ('route', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='queuemgr.route')),
                ('worker', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to='queuemgr.worker')),
            ],
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('actor', models.CharField(max_length=150)),
                ('source', models.CharField(max_length=32)),
                ('action', models.CharField(max_length=32)),
                ('target', models.CharField(max_length=300)),
                ('before', models.JSONField(default=dict)),
                ('after', models.JSONField(default=dict)),
                ('reason', models.CharField(blank=True, max_length=200)),
                ('affected', models.PositiveIntegerField(db_default=1, default=1, help_text='Rows this change affected.')),
                ('action_id', models.PositiveBigIntegerField(blank=True, help_text='The bulk action this change was part of.', null=True)),
                ('undoes', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='undone_by', to='queuemgr.auditentry')),
            ],
            options={
                'verbose_name_plural': 'audit log',
                'db_table': 'queuemgr_change',
                'ordering': ('-id',),
                'permissions': (('undo_auditentry', 'Can undo changes'),),
                'indexes': [models.Index(fields=['target'], name='change_targets', opclasses=('varchar_pattern_ops',)), models.Index(fields=['actor', 'id'], name='change_actors'), models.Index(fields=['action_id'], name='change_actions')],
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('lease_id', models.UUIDField(unique=True)),
                ('phase', models.CharField(max_length=32)),
                ('step', models.CharField(max_length=32)),
                ('priority', models.SmallIntegerField(choices=[(0, 'high'), (1, 'normal'), (2, 'low')])),
                ('limit_keys', models.CharField(blank=True, max_length=600)),
                ('tokens', models.CharField(blank=True, max_length=100)),
                ('weight', models.PositiveIntegerField(default=1)),
                ('cost', models.PositiveIntegerField()),
                ('retrying', models.BooleanField(default=False, help_text='Whether it is a retry after a failure.')),
                ('worker', models.CharField(blank=True, max_length=150)),
                ('due_at', models.DateTimeField(help_text='When it became due.', null=True)),
                ('leased_at', models.DateTimeField()),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(db_index=True)),
                ('outcome', models.CharField(choices=[('done', 'Done'), ('skipped', 'Skipped'), ('failed', 'Failed'), ('retried', 'failed, will be retried'), ('snoozed', 'snoozed by the step'), ('interrupted', 'interrupted by a shutdown'), ('cancelled', 'Cancelled'), ('lost', 'lost with its worker')], max_length=12)),
                ('error_kind', models.CharField(blank=True, max_length=32)),
                ('error_message', models.TextField(blank=True)),
                ('execution', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='queuemgr.execution')),
            ],
            options={
                'ordering': ('id',),
                'indexes': [models.Index(condition=models.Q(('retrying', True)), fields=['id'], name='attempt_retries'), models.Index(condition=models.Q(('error_kind', ''), _negated=True), fields=['error_kind', 'ended_at'], name='attempt_errors')],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('request_digest', models.CharField(max_length=64)),
                ('status', models.PositiveSmallIntegerField()),
                ('body', models.JSONField()),
                ('at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('token', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='queuemgr.apitoken')),
            ],
            options={
                'db_table': 'queuemgr_givenanswer',
                'constraints': [models.UniqueConstraint(fields=('token', 'key'), name='one_answer_per_key')],
            },
        ),
        migrations.AddIndex(
            model_name='execution',
            index=models.Index(condition=models.Q(('state', 'waiting')), fields=['route', 'run_after', 'id'], name='execution_heads'),
        ),
        migrations.AddIndex(
            model_name='execution',
            index=models.Index(fields=['state', 'phase', 'flow'], name='execution_counts'),
        ),
        migrations.AddIndex(
            model_name='execution',
            index=models.Index(condition=models.Q(('error_kind', ''), _negated=True), fields=['error_kind', 'id'], name='execution_errors'),
        ),
        migrations.AddIndex(
            model_name='execution',
            index=models.Index(condition=models.Q(('state', 'failed')), fields=['error_kind', 'error_fingerprint', 'id'], name='execution_failures'),
        ),
        migrations.AddIndex(
            model_name='execution',
            index=models.Index(condition=models.Q(('batch__isnull', False)), fields=['batch', 'state', 'batch_seq'], name='execution_batches'),
        ),
        migrations.AddConstraint(
            model_name='execution',
            constraint=models.UniqueConstraint(fields=('flow', 'key'), name='one_execution_per_key'),
        ),
        migrations.AddConstraint(
            model_name='execution',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('finished_at__isnull', False), ('state__in', ('done', 'failed', 'skipped', 'cancelled'))), models.Q(('finished_at__isnull', True), models.Q(('state__in', ('done', 'failed', 'skipped', 'cancelled')), _negated=True)), _connector='OR'), name='finished_at_says_final'),
        ),
        migrations.AddConstraint(
            model_name='execution',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('state', 'waiting'), _negated=True), ('route__isnull', False), _connector='OR'), name='waiting_has_a_route'),
        ),
        migrations.AddConstraint(
            model_name='execution',
            constraint=models.CheckConstraint(condition=models.Q(('run_after__isnull', False), ('batch__isnull', False), _connector='OR'), name='only_batch_members_wait_for_a_window'),
        ),
        migrations.AddConstraint(
            model_name='execution',
            constraint=models.CheckConstraint(condition=models.Q(('priority__range', (0, 2))), name='priority_has_a_name'),
        ),
        migrations.AddConstraint(
            model_name='execution',
            constraint=models.UniqueConstraint(condition=models.Q(('batch__isnull', False)), fields=('batch', 'batch_seq'), name='one_execution_per_batch_seq'),
        ),
        migrations.AddConstraint(
            model_name='execution',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('batch__isnull', True), ('batch_seq__isnull', True)), models.Q(('batch__isnull', False), ('batch_seq__isnull', False)), _connector='OR'), name='batch_has_a_seq'),
        ),
        migrations.AddConstraint(
            model_name='routelimit',
            constraint=models.UniqueConstraint(fields=('route', 'name'), name='one_row_per_route_and_limit'),
        ),
        migrations.AddConstraint(
            model_name='lease',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('started_at__isnull', True), ('worker__isnull', True)), models.Q(('started_at__isnull', False), ('worker__isnull', False)), _connector='OR'), name='started_on_a_worker'),
        ),
        migrations.RunPython(make_audit_log_immutable, make_audit_log_mutable),
    ]
