from django.db import migrations, models


class Widen(migrations.AlterField):
    """A longer text: a change of PostgreSQL's catalogue alone. SQLite bounds no text, and would copy the
    table and lose the triggers of the audit log."""

    def __init__(self, model_name, name, **options):
        super().__init__(model_name, name, models.CharField(max_length=255, **options))

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor != "sqlite":
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        """Nothing: what is stored may be longer by now, and earlier releases read it."""


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0016_execution_unknown_since")]

    operations = [
        Widen("auditentry", "actor"),
        Widen("bulkaction", "actor"),
        Widen("bulkaction", "previewed_by", blank=True, default="", db_default="",
              help_text="Who asked for it; `actor` is who started it."),
        Widen("bulkaction", "stopped_by", blank=True),
        Widen("batch", "created_by", blank=True),
        Widen("lease", "cancel_requested_by", blank=True),
        Widen("limit", "paused_by", blank=True, editable=False),
        Widen("queue", "paused_by", blank=True, editable=False),
        Widen("workerdrain", "drained_by"),
        migrations.AlterField(
            "bulkaction",
            "user_id",
            models.PositiveBigIntegerField(
                null=True, blank=True, help_text="As `account`, where that is a number: for earlier releases."
            ),
        ),
        migrations.AddField(
            "bulkaction",
            "account",
            models.CharField(
                max_length=255, blank=True, default="", db_default="",
                help_text="The primary key of the account that started it; empty: a command.",
            ),
        ),
    ]
