"""The record of changes is only ever added to, and the database sees to it.

SQLite drops triggers with the table when a later migration rebuilds it: whoever alters `Change` calls
`refuse` again at the end.
"""

from django.db import migrations

WHY = "the record of changes is only ever added to"

POSTGRESQL = (
    f"""
    CREATE FUNCTION queuemgr_change_stays() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '{WHY}' USING ERRCODE = 'restrict_violation'; END $$
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
    BEGIN SELECT RAISE(ABORT, '{WHY}'); END
    """
    for event in ("UPDATE", "DELETE")
)
NO_SQLITE = tuple(
    f"DROP TRIGGER IF EXISTS queuemgr_change_no_{event}" for event in ("update", "delete")
)


def refuse(apps, schema_editor):
    _run(schema_editor, {"postgresql": POSTGRESQL, "sqlite": SQLITE})


def allow(apps, schema_editor):
    _run(schema_editor, {"postgresql": NO_POSTGRESQL, "sqlite": NO_SQLITE})


def _run(schema_editor, statements):
    for statement in statements[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = (("queuemgr", "0006_cockpit_beside"),)

    operations = (migrations.RunPython(refuse, allow),)
