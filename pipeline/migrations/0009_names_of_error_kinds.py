"""Names the error kinds of models' answers as the field does, in what is stored."""

from django.db import migrations

from queuemgr.extend.migrations import RenameErrorKinds


class Migration(migrations.Migration):
    dependencies = [("pipeline", "0008_references_read_by"), ("queuemgr", "0001_first_release")]

    operations = [RenameErrorKinds({"withheld": "content_filtered", "cut_off": "truncated"})]
