"""Indexes that the search for titles and DOIs reads in place of the table."""

from django.db import migrations, models

from queuemgr.extend.migrations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('pipeline', '0006_held_with_options'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='document',
            index=models.Index(fields=['title', 'id'], name='document_title'),
        ),
        AddIndexConcurrently(
            model_name='document',
            index=models.Index(fields=['doi', 'id'], name='document_doi'),
        ),
    ]
