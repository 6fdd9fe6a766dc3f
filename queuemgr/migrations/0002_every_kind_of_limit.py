"""Limits of every kind on one row; routes that can be parked; retry policies as rows."""

import datetime
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('queuemgr', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Gate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=255, unique=True)),
                ('clock', models.FloatField(default=0, help_text="The rate's clock, Unix seconds (see rate.py).")),
                ('closed_until', models.DateTimeField(null=True)),
                ('because', models.CharField(blank=True, max_length=200)),
                ('opening', models.PositiveIntegerField(default=0, help_text='How many may run while it reopens; 0: fully open.')),
                ('failures', models.PositiveIntegerField(default=0, help_text='Failures to reach the service since one succeeded.')),
                ('turn', models.FloatField(default=0, help_text='How far a tenant has come in taking turns.')),
            ],
        ),
        migrations.CreateModel(
            name='RetryPolicy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=32)),
                ('phase', models.CharField(blank=True, help_text='Empty: every phase.', max_length=32)),
                ('max_attempts', models.PositiveIntegerField(help_text='Tries in all, the first included.')),
                ('base', models.FloatField(default=0, help_text='Seconds before the second try; doubles.')),
                ('ceiling', models.FloatField(default=0, help_text='Longest wait, seconds.')),
                ('jitter', models.FloatField(default=0, help_text='Seconds added at random, at most.')),
                ('meaning', models.CharField(blank=True, max_length=200)),
                ('from_settings', models.JSONField(default=dict, editable=False)),
            ],
            options={
                'verbose_name_plural': 'retry policies',
                'ordering': ('kind', 'phase'),
            },
        ),
        migrations.CreateModel(
            name='RouteLimit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(db_index=True, max_length=255)),
            ],
        ),
        migrations.CreateModel(
            name='Wakeup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('route_id', models.BigIntegerField(null=True)),
                ('limit', models.CharField(blank=True, db_column='limit_name', max_length=300)),
            ],
        ),
        migrations.AlterModelOptions(
            name='dailyusage',
            options={'ordering': ('-day', 'limit'), 'verbose_name_plural': 'daily usage'},
        ),
        migrations.RemoveConstraint(
            model_name='dailyusage',
            name='one_usage_per_day_and_phase',
        ),
        migrations.RemoveConstraint(
            model_name='route',
            name='route_is_unique',
        ),
        migrations.RemoveField(
            model_name='lease',
            name='budget_day',
        ),
        migrations.AddField(
            model_name='attempt',
            name='due_at',
            field=models.DateTimeField(help_text='Since when it waited.', null=True),
        ),
        migrations.RenameField(
            model_name='attempt',
            old_name='limit_key',
            new_name='limit_keys',
        ),
        migrations.AlterField(
            model_name='attempt',
            name='limit_keys',
            field=models.CharField(blank=True, max_length=600),
        ),
        migrations.AddField(
            model_name='attempt',
            name='retrying',
            field=models.BooleanField(default=False, help_text='A try after a failure.'),
        ),
        migrations.AddField(
            model_name='attempt',
            name='tokens',
            field=models.CharField(blank=True, max_length=100),
        ),
        migrations.AddField(
            model_name='attempt',
            name='weight',
            field=models.PositiveIntegerField(default=1),
        ),
        migrations.RenameField(
            model_name='dailyusage',
            old_name='phase',
            new_name='limit',
        ),
        migrations.AlterField(
            model_name='dailyusage',
            name='limit',
            field=models.CharField(db_column='limit_name', max_length=255),
        ),
        migrations.AddField(
            model_name='lease',
            name='due_at',
            field=models.DateTimeField(default=datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)),
            preserve_default=False,
        ),
        migrations.RenameField(
            model_name='lease',
            old_name='limit_key',
            new_name='limit_keys',
        ),
        migrations.AlterField(
            model_name='lease',
            name='limit_keys',
            field=models.CharField(blank=True, max_length=600),
        ),
        migrations.AddField(
            model_name='lease',
            name='rated',
            field=models.CharField(blank=True, help_text='Rates whose clocks it moves on when it begins.', max_length=600),
        ),
        migrations.AddField(
            model_name='lease',
            name='retrying',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='lease',
            name='route',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='queuemgr.route'),
        ),
        migrations.AddField(
            model_name='lease',
            name='spent',
            field=models.PositiveIntegerField(default=0, help_text='Requests it said it sent so far.'),
        ),
        migrations.AddField(
            model_name='lease',
            name='tokens',
            field=models.CharField(blank=True, max_length=100),
        ),
        migrations.AddField(
            model_name='limit',
            name='breaker_after',
            field=models.PositiveIntegerField(default=10, help_text='Failures to reach the service, one after another, that close the limit; 0: never.'),
        ),
        migrations.AddField(
            model_name='limit',
            name='budget_zone',
            field=models.CharField(blank=True, help_text="IANA time zone the budget's day is kept in; empty: the SLUICE_BUDGET_ZONE knob.", max_length=64),
        ),
        migrations.AddField(
            model_name='limit',
            name='kept_for_high',
            field=models.PositiveSmallIntegerField(default=10, help_text="Percent of the day's budget, its last, that only high-priority work may spend (nothing of a budget below 100)."),
        ),
        migrations.AddField(
            model_name='limit',
            name='kept_from_low',
            field=models.PositiveSmallIntegerField(default=0, help_text="Percent of the day's budget, its last, that low work may not spend."),
        ),
        migrations.AddField(
            model_name='limit',
            name='rate',
            field=models.CharField(blank=True, help_text='Starts over time: 1/3s, 50/s burst 100, 10000/h; empty: no limit.', max_length=64),
        ),
        migrations.AddField(
            model_name='limit',
            name='share',
            field=models.PositiveIntegerField(default=1, help_text="Turns a tenant gets against another's one."),
        ),
        migrations.AddField(
            model_name='queue',
            name='max_pending',
            field=models.PositiveIntegerField(default=0, help_text='Executions that may wait here; new ones are refused. 0: no cap.'),
        ),
        migrations.AddField(
            model_name='queue',
            name='stated_max_pending',
            field=models.PositiveIntegerField(default=0, editable=False),
        ),
        migrations.AddField(
            model_name='route',
            name='head_at',
            field=models.DateTimeField(help_text='Its head fell due no earlier than this, when last looked at.', null=True),
        ),
        migrations.RenameField(
            model_name='route',
            old_name='limit_key',
            new_name='limit_keys',
        ),
        migrations.AlterField(
            model_name='route',
            name='limit_keys',
            field=models.CharField(blank=True, max_length=600),
        ),
        migrations.AddField(
            model_name='route',
            name='parked_on',
            field=models.CharField(blank=True, max_length=300),
        ),
        migrations.AddField(
            model_name='route',
            name='parked_until',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='route',
            name='retrying',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='route',
            name='tenant',
            field=models.CharField(blank=True, max_length=255),
        ),
        migrations.AddField(
            model_name='route',
            name='tokens',
            field=models.CharField(blank=True, max_length=100),
        ),
        migrations.AlterField(
            model_name='limit',
            name='daily_budget',
            field=models.PositiveIntegerField(blank=True, help_text='Requests a day may cost; empty: none.', null=True),
        ),
        migrations.AlterField(
            model_name='limit',
            name='max_running',
            field=models.PositiveIntegerField(default=0, help_text='Weight that may run at once under this limit; 0: no cap.'),
        ),
        migrations.AlterField(
            model_name='limit',
            name='reserved_high',
            field=models.PositiveIntegerField(default=0, help_text='How much of it only high-priority work may take.'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(condition=models.Q(('retrying', True)), fields=['id'], name='attempt_retries'),
        ),
        migrations.AddIndex(
            model_name='route',
            index=models.Index(condition=models.Q(('parked_on', '')), fields=['phase', 'priority', 'resumed', 'served_at'], name='route_turns'),
        ),
        migrations.AddIndex(
            model_name='route',
            index=models.Index(condition=models.Q(('parked_on', '')), fields=['head_at'], name='route_ages'),
        ),
        migrations.AddIndex(
            model_name='route',
            index=models.Index(condition=models.Q(('parked_on', ''), _negated=True), fields=['parked_on'], name='route_parked_on'),
        ),
        migrations.AddIndex(
            model_name='route',
            index=models.Index(condition=models.Q(('parked_until__isnull', False)), fields=['parked_until'], name='route_parked_until'),
        ),
        migrations.AddConstraint(
            model_name='dailyusage',
            constraint=models.UniqueConstraint(fields=('day', 'limit'), name='one_usage_per_day_and_limit'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=models.Q(('kept_for_high__lte', 100), ('kept_from_low__lte', 100), ('share__gte', 1)), name='limit_percents_and_share', violation_error_message='Percents are 0 to 100, and a share is at least 1.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.UniqueConstraint(fields=('phase', 'priority', 'resumed', 'retrying', 'limit_keys', 'tokens', 'cost', 'weight'), name='route_is_unique'),
        ),
        migrations.AddConstraint(
            model_name='retrypolicy',
            constraint=models.UniqueConstraint(fields=('kind', 'phase'), name='one_policy_per_kind_and_phase'),
        ),
        migrations.AddConstraint(
            model_name='retrypolicy',
            constraint=models.CheckConstraint(condition=models.Q(('base__gte', 0), ('ceiling__gte', models.F('base')), ('jitter__gte', 0), ('max_attempts__gte', 1)), name='policy_waits_make_sense', violation_error_message='At least one try, waits of 0 or more, a ceiling not below the base.'),
        ),
        migrations.AddField(
            model_name='routelimit',
            name='route',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='limits', to='queuemgr.route'),
        ),
        migrations.AddConstraint(
            model_name='routelimit',
            constraint=models.UniqueConstraint(fields=('route', 'name'), name='one_row_per_route_and_limit'),
        ),
    ]
