import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Document',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=255, unique=True)),
                ('kind', models.CharField(max_length=8)),
                ('source', models.TextField(help_text='As it was given.')),
                ('enqueued', models.BooleanField(default=False, help_text='It has an execution.')),
                ('added_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('title', models.CharField(blank=True, max_length=500)),
                ('authors', models.JSONField(blank=True, default=list)),
                ('year', models.PositiveSmallIntegerField(blank=True, null=True)),
                ('licence', models.CharField(blank=True, max_length=200)),
                ('open_access', models.CharField(blank=True, help_text='As its source calls it.', max_length=20)),
                ('doi', models.CharField(blank=True, max_length=255)),
                ('arxiv_id', models.CharField(blank=True, max_length=40)),
                ('lookups', models.JSONField(blank=True, default=list, help_text='The sources asked and their results, and the downloads tried.')),
                ('pdf_url', models.TextField(blank=True)),
                ('other_urls', models.JSONField(blank=True, default=list, help_text='Tried in this order if the first URL fails.')),
                ('local_path', models.TextField(blank=True)),
                ('pdf', models.FileField(blank=True, max_length=300, upload_to='')),
                ('sha256', models.CharField(blank=True, max_length=64)),
                ('size', models.PositiveBigIntegerField(blank=True, null=True)),
                ('fetched_from', models.TextField(blank=True, help_text='The URL after all redirects.')),
                ('etag', models.CharField(blank=True, max_length=255)),
                ('last_modified', models.CharField(blank=True, max_length=64)),
                ('pages_file', models.FileField(blank=True, max_length=300, upload_to='')),
                ('text', models.FileField(blank=True, max_length=300, upload_to='')),
                ('pages', models.PositiveIntegerField(blank=True, null=True)),
                ('pages_by', models.JSONField(blank=True, default=dict)),
                ('characters', models.PositiveIntegerField(blank=True, null=True)),
                ('references_file', models.FileField(blank=True, max_length=300, upload_to='')),
                ('references', models.PositiveIntegerField(blank=True, null=True)),
                ('references_style', models.CharField(blank=True, max_length=40)),
                ('problem', models.TextField(blank=True, help_text='What could not be read, and why.')),
                ('analysis', models.JSONField(blank=True, default=dict)),
                ('method', models.CharField(blank=True, max_length=120)),
                ('prompt_version', models.CharField(blank=True, max_length=40)),
                ('requests', models.PositiveIntegerField(default=0)),
                ('prompt_tokens', models.PositiveBigIntegerField(default=0)),
                ('completion_tokens', models.PositiveBigIntegerField(default=0)),
                ('report_markdown', models.FileField(blank=True, max_length=300, upload_to='')),
                ('report_json', models.FileField(blank=True, max_length=300, upload_to='')),
                ('report_html', models.FileField(blank=True, max_length=300, upload_to='')),
            ],
            options={
                'ordering': ('-id',),
                'indexes': [models.Index(condition=models.Q(('enqueued', False)), fields=['id'], name='document_not_enqueued')],
            },
        ),
        migrations.CreateModel(
            name='Lookup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.CharField(max_length=32)),
                ('name', models.CharField(max_length=255)),
                ('answer', models.JSONField(default=dict)),
                ('asked_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('source', 'name'), name='one_lookup_per_source_and_name')],
            },
        ),
    ]
