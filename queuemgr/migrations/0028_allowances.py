"""Allowances of limits in any meter, what leases and attempts use of them, and clocks of rolling ones."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('queuemgr', '0027_labels_of_schedules'),
    ]

    operations = [
        migrations.CreateModel(
            name='AllowanceClock',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=320, unique=True)),
                ('clock', models.FloatField(default=0, help_text='Unix seconds; see allowance.py.')),
            ],
        ),
        migrations.CreateModel(
            name='AllowanceSettlement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(db_index=True, max_length=320)),
                ('seconds', models.FloatField()),
            ],
        ),
        migrations.CreateModel(
            name='AllowanceUsage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('limit', models.CharField(db_column='limit_name', max_length=255)),
                ('allowance', models.CharField(max_length=64)),
                ('starts_at', models.DateTimeField()),
                ('spent', models.BigIntegerField(default=0, help_text='In the smallest part of the meter.')),
            ],
            options={
                'verbose_name_plural': 'usage of allowances',
                'ordering': ('-starts_at', 'limit', 'allowance'),
            },
        ),
        migrations.RemoveConstraint(
            model_name='route',
            name='route_is_unique',
        ),
        migrations.AddField(
            model_name='attempt',
            name='uses',
            field=models.CharField(blank=True, help_text='What it used of other meters.', max_length=200, null=True),
        ),
        migrations.AddField(
            model_name='lease',
            name='spent_uses',
            field=models.CharField(blank=True, db_default='', default='', help_text='What is reported as used so far of other meters.', max_length=200),
        ),
        migrations.AddField(
            model_name='lease',
            name='uses',
            field=models.CharField(blank=True, db_default='', default='', help_text='What is reserved of meters.', max_length=200),
        ),
        migrations.AddField(
            model_name='limit',
            name='allowances',
            field=models.TextField(blank=True, db_default='', default='', help_text='How much of each meter may be used in a period, as 30,000 tokens/minute; 20 usd/day in Europe/Berlin.'),
        ),
        migrations.AddField(
            model_name='route',
            name='uses',
            field=models.CharField(blank=True, db_default='', default='', max_length=200),
        ),
        migrations.AlterField(
            model_name='lease',
            name='rate_debits',
            field=models.TextField(blank=True, db_column='rated', help_text='Clocks of rates and rolling allowances that it advances when it begins, by name.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.UniqueConstraint(fields=('phase', 'priority', 'resumed', 'retrying', 'limit_keys', 'tokens', 'cost', 'uses', 'weight'), name='route_is_unique'),
        ),
        migrations.AddConstraint(
            model_name='allowanceusage',
            constraint=models.UniqueConstraint(fields=('limit', 'allowance', 'starts_at'), name='one_usage_per_limit_and_period'),
        ),
    ]
