"""Indexes and constraints of executions and changes, added beside the work that goes on."""

from django.db import migrations, models

from queuemgr.base.online_ddl import AddConstraintBeside, AddIndexBeside


class Migration(migrations.Migration):
    atomic = False

    dependencies = (("queuemgr", "0005_cockpit"),)

    operations = (
        AddIndexBeside(
            model_name='execution',
            index=models.Index(condition=models.Q(('state', 'failed')), fields=['error_kind', 'error_fingerprint', 'id'], name='execution_failures'),
        ),
        AddIndexBeside(
            model_name='execution',
            index=models.Index(condition=models.Q(('batch__isnull', False)), fields=['batch', 'state', 'batch_seq'], name='execution_batches'),
        ),
        AddConstraintBeside(
            model_name='execution',
            constraint=models.UniqueConstraint(condition=models.Q(('batch__isnull', False)), fields=('batch', 'batch_seq'), name='one_execution_per_batch_seq'),
        ),
        AddConstraintBeside(
            model_name='execution',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('batch__isnull', True), ('batch_seq__isnull', True)), models.Q(('batch__isnull', False), ('batch_seq__isnull', False)), _connector='OR'), name='batch_has_a_seq'),
        ),
        AddConstraintBeside(
            model_name='execution',
            constraint=models.CheckConstraint(condition=models.Q(('priority__range', (0, 2))), name='priority_has_a_name'),
        ),
        AddIndexBeside(
            model_name='change',
            index=models.Index(fields=['target'], name='change_targets', opclasses=('varchar_pattern_ops',)),
        ),
        AddIndexBeside(
            model_name='change',
            index=models.Index(fields=['actor', 'id'], name='change_actors'),
        ),
        AddIndexBeside(
            model_name='attempt',
            index=models.Index(condition=models.Q(('error_kind', ''), _negated=True), fields=['error_kind', 'ended_at'], name='attempt_errors'),
        ),
        AddIndexBeside(
            model_name='change',
            index=models.Index(fields=['action_id'], name='change_actions'),
        ),
    )
