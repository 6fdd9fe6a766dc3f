"""What was kept by phase and by one key, carried over to what is kept by limit."""

from django.db import migrations


def carry_over(apps, schema_editor):
    """Usage was kept by phase and is kept by limit; leases and routes learn what they now say."""
    usage, lease, route, limit = (
        apps.get_model("queuemgr", name) for name in ("DailyUsage", "Lease", "Route", "RouteLimit")
    )
    totals = {}
    for row in usage.objects.all():
        totals[row.day] = totals.get(row.day, 0) + row.spent
        usage.objects.filter(pk=row.pk).update(limit=f"phase:{row.limit}")
    usage.objects.bulk_create(usage(day=day, limit="fleet", spent=spent) for day, spent in totals.items())
    for row in route.objects.exclude(limit_keys=""):
        limit.objects.create(route=row, name=row.limit_keys)
    for row in lease.objects.all():
        known = {name: getattr(row, name) for name in ("phase", "priority", "limit_keys", "cost", "weight")}
        found, made = route.objects.get_or_create(resumed=True, **known)
        if made and row.limit_keys:
            limit.objects.create(route=found, name=row.limit_keys)
        lease.objects.filter(pk=row.pk).update(route=found, due_at=row.leased_at)



class Migration(migrations.Migration):
    dependencies = (("queuemgr", "0002_every_kind_of_limit"),)

    operations = (migrations.RunPython(carry_over, migrations.RunPython.noop),)
