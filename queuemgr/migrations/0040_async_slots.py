"""Async slots of workers, and the steps that are for them."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('queuemgr', '0039_rates_as_clocks'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='route',
            name='route_is_unique',
        ),
        migrations.AddField(
            model_name='lease',
            name='is_async',
            field=models.BooleanField(db_default=False, default=False, help_text='Whether it takes an async slot.'),
        ),
        migrations.AddField(
            model_name='route',
            name='is_async',
            field=models.BooleanField(db_default=False, default=False, help_text='Whether its step is for async slots.'),
        ),
        migrations.AddField(
            model_name='worker',
            name='async_slots',
            field=models.PositiveIntegerField(db_default=0, default=0, help_text='Coroutines it runs at once, beside its slots.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.UniqueConstraint(fields=('phase', 'priority', 'resumed', 'retrying', 'limit_keys', 'resources', 'cost', 'uses', 'weight', 'is_async'), name='route_is_unique'),
        ),
    ]
