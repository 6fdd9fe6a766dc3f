from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('queuemgr', '0022_runs_left_out_together'),
    ]

    operations = [
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('paused_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('paused_by', models.CharField(blank=True, editable=False, max_length=255)),
                ('pause_reason', models.CharField(blank=True, max_length=200)),
                ('paused_until', models.DateTimeField(blank=True, null=True)),
                ('name', models.CharField(max_length=64, unique=True)),
                ('url', models.CharField(max_length=1000)),
                ('flows', models.CharField(default='*', help_text='Names of flows, or patterns such as “shop.*”; blanks between.', max_length=500)),
                ('events', models.CharField(default='failed', help_text='With blanks between.', max_length=200)),
                ('secret_name', models.CharField(blank=True, help_text="In SLUICE_WEBHOOK_SECRETS; empty: the webhook's name.", max_length=64)),
                ('allow_private', models.BooleanField(default=False, help_text='Private and local addresses, and http, are allowed.')),
                ('include_result', models.BooleanField(default=False, help_text='Send also what the work returned, if that is not large.')),
                ('description', models.CharField(blank=True, max_length=300)),
                ('created_at', models.DateTimeField(editable=False)),
                ('failed_in_row', models.PositiveIntegerField(default=0, editable=False, help_text='Deliveries that failed for good since one was accepted.')),
            ],
            options={
                'ordering': ('name',),
                'permissions': (('pause_webhook', 'Can pause and resume webhooks'), ('test_webhook', 'Can send a test to webhooks')),
                'constraints': [models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='webhook_has_a_name')],
            },
        ),
    ]
