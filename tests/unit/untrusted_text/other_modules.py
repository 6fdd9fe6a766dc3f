"""Modules that read no text from outside, by what they take instead. Every other module's functions are
tested with hostile texts: a new module must be callable with one, or be named here."""

from __future__ import annotations

from collections.abc import Mapping

OTHER_MODULES: Mapping[str, str] = {
    "names of phases, steps, limits, queues and workers, as the application and the tables have them": """
        queuemgr/base/budget_day queuemgr/base/database_problems queuemgr/base/db_connection
        queuemgr/base/online_ddl queuemgr/base/overdue_calls queuemgr/base/scheduler_lock
        queuemgr/base/sql queuemgr/base/sql_lists queuemgr/lifecycle/anomalies queuemgr/lifecycle/attempts
        queuemgr/lifecycle/lock_holds
        queuemgr/lifecycle/batch_completion queuemgr/lifecycle/batch_window
        queuemgr/lifecycle/callback_failures queuemgr/lifecycle/canvas_calls
        queuemgr/lifecycle/continuation queuemgr/lifecycle/enqueue
        queuemgr/lifecycle/execution_signals queuemgr/lifecycle/finish
        queuemgr/lifecycle/inserted_rows
        queuemgr/lifecycle/leases queuemgr/lifecycle/log_context queuemgr/lifecycle/outcome_rules
        queuemgr/lifecycle/periodic_jobs queuemgr/lifecycle/publish queuemgr/lifecycle/scheduler
        queuemgr/lifecycle/states queuemgr/lifecycle/task_events queuemgr/lifecycle/uniqueness
        queuemgr/lifecycle/usage
        queuemgr/models/limits queuemgr/models/settable queuemgr/models/work
        queuemgr/reporting/allowances queuemgr/reporting/allowance_forecast queuemgr/reporting/remaining_work
        queuemgr/reporting/later_steps queuemgr/reporting/burn_down
        queuemgr/reporting/batch_progress queuemgr/reporting/dashboard/budget_burndown
        queuemgr/reporting/dashboard/limit_bars queuemgr/reporting/dashboard/phase_table
        queuemgr/reporting/dashboard/reconciliation queuemgr/reporting/dashboard/trend_cache
        queuemgr/reporting/dashboard/trends queuemgr/reporting/explain queuemgr/reporting/forecast
        queuemgr/reporting/estimate_ranges queuemgr/web/admin/burn_down_chart
        queuemgr/reporting/periodic_jobs queuemgr/reporting/queue_position
        queuemgr/reporting/replay/ahead queuemgr/reporting/replay/limits queuemgr/reporting/replay/routes
        queuemgr/reporting/replay/simulation queuemgr/reporting/replay/summary
        queuemgr/reporting/stall_check queuemgr/reporting/stats queuemgr/reporting/stuck
        queuemgr/reporting/throughput queuemgr/reporting/unserved_queues queuemgr/scheduling/admission
        queuemgr/scheduling/breakers queuemgr/scheduling/candidates queuemgr/scheduling/capacity
        queuemgr/scheduling/allowance_clocks
        queuemgr/scheduling/decision_input queuemgr/scheduling/estimates
        queuemgr/scheduling/limit_checks queuemgr/scheduling/rate_clocks
        queuemgr/scheduling/limit_rows queuemgr/scheduling/limit_rules queuemgr/scheduling/limit_usage
        queuemgr/scheduling/parking queuemgr/scheduling/phase_settings queuemgr/scheduling/provider_limits
        queuemgr/base/provider_left queuemgr/lifecycle/provider_answers queuemgr/worker/observed_limits
        queuemgr/scheduling/retry_policies queuemgr/scheduling/route_heads queuemgr/scheduling/routes
        queuemgr/scheduling/settings_sync queuemgr/scheduling/snapshot queuemgr/scheduling/step_rules
        queuemgr/scheduling/tenants queuemgr/scheduling/wakeups queuemgr/steptools/lanes
        queuemgr/steptools/map_runner queuemgr/steptools/process_lanes
        queuemgr/steptools/subprocess_group queuemgr/web/health queuemgr/web/outside_links
        queuemgr/reporting/step_times
        queuemgr/web/links
        queuemgr/web/metrics/counters queuemgr/web/metrics/definitions queuemgr/web/metrics/limits
        queuemgr/web/shared_check queuemgr/worker/background_thread queuemgr/worker/beat
        queuemgr/worker/broker_sender queuemgr/worker/celery_wiring queuemgr/worker/file_transport
        queuemgr/worker/async_slots queuemgr/worker/event_loop queuemgr/worker/group_commit
        queuemgr/worker/work
        queuemgr/worker/housekeeping queuemgr/worker/leased_task queuemgr/worker/namesakes
        queuemgr/worker/periodic_task queuemgr/worker/probe_flow queuemgr/worker/queue_consumption
        queuemgr/worker/registration queuemgr/worker/remote_control queuemgr/worker/retention
        queuemgr/worker/running_steps queuemgr/worker/time_limits queuemgr/worker/worker_row
    """,
    "words that a form, a schema or a column bounds, for a look-up or a row": """
        queuemgr/reporting/search/__init__ queuemgr/reporting/search/executions
        queuemgr/reporting/search/found queuemgr/reporting/search/named_things
        queuemgr/web/admin/search pipeline/queue_search
        queuemgr/operations/batch_allowances
        queuemgr/operations/batches queuemgr/operations/batch_callbacks queuemgr/operations/bulk/__init__
        queuemgr/operations/bulk/actions
        queuemgr/operations/bulk/audit queuemgr/operations/controls queuemgr/operations/enqueueing
        queuemgr/operations/dry_run queuemgr/operations/dry_run_forecast
        queuemgr/operations/executions queuemgr/operations/logins queuemgr/operations/named_rows
        queuemgr/operations/placing
        queuemgr/operations/rights queuemgr/operations/roles queuemgr/operations/undo
        queuemgr/operations/user_model queuemgr/operations/users queuemgr/operations/workers
        queuemgr/reporting/costs queuemgr/web/admin/alerts queuemgr/web/admin/attempts
        queuemgr/web/admin/audit_log queuemgr/web/admin/batches queuemgr/web/admin/bulk
        queuemgr/web/admin/dashboard queuemgr/web/admin/execution_actions
        queuemgr/web/admin/execution_filters queuemgr/web/admin/execution_page
        queuemgr/reporting/remedies queuemgr/reporting/worker_history queuemgr/web/act_links
        queuemgr/web/admin/limit_actions
        queuemgr/web/admin/named_actions queuemgr/web/admin/pausing queuemgr/web/admin/queues
        queuemgr/web/admin/policies queuemgr/web/admin/row_actions queuemgr/web/admin/theme
        queuemgr/web/admin/tokens
        queuemgr/web/admin/workers queuemgr/web/api/batches queuemgr/web/api/bulk
        queuemgr/web/api/execution_actions queuemgr/web/api/limits queuemgr/web/api/queues
        queuemgr/web/api/schemas queuemgr/web/api/settable queuemgr/web/api/workers
    """,
    "words of the operator's own command line, settings and programs": """
        queuemgr/cli/dry_run
        queuemgr/base/queue_database queuemgr/base/sqlite_options queuemgr/base/transaction
        queuemgr/system_checks/database_settings queuemgr/system_checks/live
        queuemgr/system_checks/project queuemgr/system_checks/tasks
        queuemgr/worker/celery_app queuemgr/worker/useless_processes
        pipeline/config pipeline/local_storage pipeline/management/commands/ocr
        pipeline/management/commands/papers pipeline/management/commands/up pipeline/model_prices
        project/admin/audited_users
        project/celery_settings
        project/database project/program_secrets project/settings queuemgr/web/__init__ queuemgr/web/menu
        queuemgr/web/own_site queuemgr/web/own_templates queuemgr/web/templatetags/admin_pages project/storage
        queuemgr/base/config queuemgr/base/private_files queuemgr/base/program_secrets
        queuemgr/base/settings_group
        queuemgr/base/secret_environment queuemgr/cli/accounts queuemgr/cli/audit queuemgr/cli/batch
        queuemgr/cli/change_executions queuemgr/cli/completion queuemgr/cli/config_options
        queuemgr/cli/controls
        queuemgr/cli/drain queuemgr/cli/exit_codes queuemgr/cli/output queuemgr/cli/progress_bar
        queuemgr/cli/item_options queuemgr/cli/list_executions
        queuemgr/cli/prune queuemgr/cli/show queuemgr/cli/subcommands queuemgr/cli/watch
        queuemgr/cli/fleet_tables queuemgr/cli/plain_text queuemgr/cli/stats queuemgr/cli/terminal
        queuemgr/cli/watch_screen
        queuemgr/local/broker_problems queuemgr/local/local_fleet queuemgr/local/private_servers
        queuemgr/local/supervisor
        queuemgr/management/commands/queue queuemgr/management/commands/worker
    """,
    "names of files and rows of our own; what is in them the steps read": """
        pipeline/bibliography pipeline/export pipeline/files pipeline/lookup_cache pipeline/paper_metadata
        pipeline/execution_keys pipeline/printed_lookup pipeline/rereading pipeline/retention
        pipeline/storage
        pipeline/tasks/analyse pipeline/tasks/checkpoint pipeline/tasks/documents pipeline/tasks/ocr
        pipeline/tasks/grobid pipeline/tasks/metadata pipeline/tasks/pages pipeline/tasks/references
        pipeline/tasks/report pipeline/tasks/resolve
    """,
    "names and arguments that the application's own code gives": """
        queuemgr/__init__ queuemgr/celery queuemgr/flows/abort_signal queuemgr/flows/callbacks
        queuemgr/flows/flow queuemgr/flows/retry_policy queuemgr/tasks/batch_calls
        queuemgr/tasks/batch_handle queuemgr/tasks/called_work queuemgr/tasks/celery_results
        queuemgr/tasks/eager_batch
        queuemgr/tasks/declared_function
        queuemgr/tasks/definition queuemgr/tasks/django_backend queuemgr/tasks/django_framework
        queuemgr/tasks/django_result queuemgr/tasks/eager queuemgr/tasks/enqueue_call
        queuemgr/tasks/handle queuemgr/tasks/queued queuemgr/tasks/queued_task
        queuemgr/schedules/decide queuemgr/schedules/declaration queuemgr/schedules/declared_rows
        queuemgr/schedules/due_times queuemgr/schedules/jitter
        queuemgr/schedules/misfires queuemgr/schedules/new_runs queuemgr/schedules/overlap
        queuemgr/schedules/plan
        queuemgr/testing/assertions queuemgr/lifecycle/unknown_steps
        queuemgr/scheduling/statement_order queuemgr/scheduling/worker_statements queuemgr/base/migrating
    """,
}
