"""Every setting of the queue: its name, unit, default and range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from queuemgr.base import alert_destinations, webhook_signature
from queuemgr.base.budget_day import zone
from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import register_secret
from queuemgr.base.settings_group import DJANGO_SETTINGS, SettingsGroup, json_stated, read_once


class QueueSettings(SettingsGroup):
    """The settings of the queue itself."""

    default_flow: str = Field("", description="flow of work that names none; empty: the only one registered")
    database: str = Field(
        "default", min_length=1, description="alias in DATABASES of the database that holds the queue"
    )
    max_workers: int = Field(200, ge=1, le=100_000, description="steps that may run at once in the fleet")
    high_priority_reserved: int = Field(1, ge=0, description="slots of the fleet reserved for high priority")
    daily_budget: int = Field(10_000, ge=0, description="requests the fleet may send a day; 0: no budget")
    budget_zone: str = Field("UTC", description="IANA time zone in which a budget's day begins")
    budget_reserved_for_high_percent: int = Field(
        10, ge=0, le=100, description="percent of the day's budget reserved for high priority, at its end"
    )
    allowance_alarm_percent: int = Field(
        90, ge=1, le=100, description="percent of a calendar allowance whose use or reservation is an alarm"
    )
    model_limits: str = Field(
        "openai,anthropic,gemini,mistral,llm,model",
        description="kinds of limits that name a model in reports of costs, as openai of openai:gpt",
    )
    limits: dict[str, Any] = Field(
        {},
        description='limits by name, over those that code states, as JSON: {"host:*": 2, "openai": "50/m"}',
    )
    scheduler: bool = Field(
        True, description="off: caps, rates and budgets only; no resources, aging or fair shares of tenants"
    )
    starvation_seconds: float = Field(
        3600, ge=0, description="seconds of waiting that age work by one priority level; 0: never"
    )
    heavy_wait_seconds: float = Field(
        60, ge=0, description="seconds until capacity is reserved for heavy work; 0: never"
    )
    cpu_resources: int = Field(0, ge=0, description="resource cpu: how much of it the fleet has; 0: no cap")
    io_resources: int = Field(0, ge=0, description="resource io: how much of it the fleet has; 0: no cap")
    memory_resources: int = Field(
        0, ge=0, description="resource memory: how much of it the fleet has; 0: no cap"
    )
    low_resource: bool = Field(False, description="small machine: 1 cpu, 2 io and 2 memory unless set")
    retry_percent: int = Field(
        50, ge=0, le=100, description="percent of starts that may be retries; 100: no cap"
    )
    bulk_retries_per_minute: int = Field(
        600, ge=0, description="rate of bulk retries of more than 1,000 without one of their own; 0: no limit"
    )
    max_pending: int = Field(
        0, ge=0, description="executions that may wait in one queue before it refuses more; 0: no cap"
    )
    rollback_seconds: float = Field(
        60,
        ge=1,
        le=86_400,
        description="seconds without a live worker that states newer limits until older ones come back",
    )
    unknown_step_seconds: float = Field(
        86_400,
        ge=1,
        description="seconds that work of a flow or step which no live worker has waits until it fails",
    )
    breaker_seconds: float = Field(
        15, ge=0.1, description="seconds a breaker is open when its service cannot be reached; doubles"
    )
    lease_seconds: float = Field(
        90, ge=1, le=86_400, description="seconds until a lease expires without renewal"
    )
    heartbeat_seconds: float = Field(30, ge=0.1, description="seconds between renewals of a lease")
    stale_interval: float = Field(120, ge=1, description="seconds between backfills and clean-ups")
    seed_limit: int = Field(500, ge=1, le=100_000, description="registered items enqueued by one backfill")
    poll_interval: float = Field(5, ge=0.1, le=3600, description="seconds between housekeeping ticks")
    slot_handover_seconds: float = Field(
        30, ge=0, description="seconds a Celery message keeps its slot by taking the next step directly"
    )
    shutdown_grace: float = Field(30, ge=0, description="seconds running steps get at shutdown")
    store_seconds: float = Field(
        600,
        ge=30,
        le=86_400,
        description="seconds a step's store may go without a statement before it is rolled back",
    )
    callback_seconds: float = Field(
        60,
        ge=1,
        le=86_400,
        description="seconds a flow's callback may run until its worker or web server ends itself",
    )
    attempt_log_lines: int = Field(
        50, ge=0, le=100, description="last log lines of a step that are stored if it fails; 0: none"
    )
    keep_done_days: float = Field(0, ge=0, description="days that done executions are kept; 0: for ever")
    keep_skipped_days: float = Field(
        0, ge=0, description="days that skipped executions are kept; 0: for ever"
    )
    keep_cancelled_days: float = Field(
        0, ge=0, description="days that cancelled executions are kept; 0: for ever"
    )
    keep_failed_days: float = Field(0, ge=0, description="days that failed executions are kept; 0: for ever")
    keep_attempts_days: float = Field(
        0, ge=0, description="days that finished attempts are kept; 0: indefinitely"
    )
    keep_minutes_days: float = Field(
        31, ge=1, le=3660, description="days that statistics by the minute are kept"
    )
    stalled_seconds: float = Field(
        600, gt=0, description="seconds without a start after which /health/progress says 503"
    )
    task_routes: bool = Field(
        False, description="serve GET /task, which enqueues a probe on GET and needs no token"
    )

    @model_validator(mode="after")
    def _lease_outlives_heartbeats(self) -> Self:
        if self.heartbeat_seconds * 2 > self.lease_seconds:
            raise ValueError(
                f"SLUICE_HEARTBEAT_SECONDS={self.heartbeat_seconds:g} must be at most half of "
                f"SLUICE_LEASE_SECONDS={self.lease_seconds:g}, or one late renewal loses the lease"
            )
        return self

    @model_validator(mode="after")
    def _reserve_leaves_room(self) -> Self:
        if self.high_priority_reserved >= self.max_workers > 1:
            raise ValueError(
                f"SLUICE_HIGH_PRIORITY_RESERVED={self.high_priority_reserved} must be below "
                f"SLUICE_MAX_WORKERS={self.max_workers}, or normal and low work never starts"
            )
        return self

    @field_validator("limits", mode="before")
    @classmethod
    def _limits_are_an_object(cls, given: Any) -> Any:
        limits = json_stated(given) if isinstance(given, str) else given
        if not isinstance(limits, Mapping):
            raise ValueError('it names no limits: write {"host:*": 2}')
        return limits

    @field_validator("budget_zone")
    @classmethod
    def _zone_is_known(cls, name: str) -> str:
        try:
            zone(name)
        except BadInput as error:
            raise ValueError(str(error)) from None
        return name

    @property
    def start_seconds(self) -> float:
        """Seconds a lease may wait for a worker to begin it before it expires."""
        return min(self.lease_seconds, max(5.0, self.heartbeat_seconds))

    @property
    def worker_heartbeat_seconds(self) -> float:
        """Seconds between a worker's heartbeats; it counts as dead after three missed ones."""
        return min(self.heartbeat_seconds, 10.0)


class LaneSettings(SettingsGroup):
    """The settings of what one worker process runs at once (`worker --explain` shows the values in use)."""

    slots: int = Field(8, ge=1, le=10_000, description="steps a worker runs at once")
    async_slots: int = Field(
        0,
        ge=0,
        le=10_000,
        description="asynchronous steps a worker runs at once beside those; 0: they take slots",
    )
    threads: int = Field(
        0, ge=0, le=10_000, description="default of file and import concurrency; 0: the processors available"
    )
    io_threads: int = Field(
        0,
        ge=0,
        le=10_000,
        description="I/O threads; at most 4 times as many io tasks; 0: processors + 4, at most 32",
    )
    io_concurrency: int = Field(0, ge=0, description="io work at once; 0: its upper bound")
    file_concurrency: int = Field(0, ge=0, description="threads that write files; 0: SLUICE_THREADS")
    import_concurrency: int = Field(
        0, ge=0, description="local files copied into storage at once; 0: SLUICE_THREADS"
    )
    io_oversubscribe: bool = Field(
        False, description="allow io, files and imports beyond 4 x io threads and the bound for this memory"
    )
    cpu_concurrency: int = Field(
        0, ge=0, le=1024, description="CPU-bound work at once; 0: the processors available"
    )
    embedding_concurrency: int = Field(
        0, ge=0, le=1024, description="model runs at once; 0: processors / SLUICE_MODEL_THREADS"
    )
    model_threads: int = Field(
        1, ge=1, le=1024, description="CPU threads of one model run (OMP_NUM_THREADS and its kin)"
    )
    proc_concurrency: int = Field(0, ge=0, description="child programs at once; 0: the processors, at most 4")


class ObservabilitySettings(SettingsGroup):
    """The settings of what others may see: metrics, traces and logs."""

    metrics: bool = Field(True, description="serve metrics for Prometheus at /metrics")
    metrics_token: SecretStr = Field(
        SecretStr(""), description="bearer token /metrics asks for; empty: it answers nobody"
    )
    metrics_without_token: bool = Field(
        False,
        description="answer /metrics to this machine without a token; not where a proxy on it forwards to us",
    )
    otlp_endpoint: str = Field(
        "",
        validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT",
        description="where traces are sent (OTLP over HTTP); empty: none are made",
    )
    otlp_headers: SecretStr = Field(
        SecretStr(""),
        validation_alias="OTEL_EXPORTER_OTLP_HEADERS",
        description="headers sent with what is exported, such as api-key=…; separated by commas",
    )
    otlp_traces_headers: SecretStr = Field(
        SecretStr(""),
        validation_alias="OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        description="headers sent with traces instead of those",
    )
    otlp_timeout: float = Field(
        3,
        gt=0,
        le=300,
        validation_alias="OTEL_EXPORTER_OTLP_TIMEOUT",
        description="seconds that exporting a batch of traces may take, with retries",
    )
    trace_url: str = Field(
        "",
        description="address of a trace, with {trace} in it, which pages of executions link to; empty: none",
    )
    log_url: str = Field(
        "",
        description="address of an execution's log lines: {execution} is its number, {flow}, {key}, {trace}; "
        "empty: none",
    )
    log_format: Literal["line", "json"] = Field(
        "line", description="a line of text or a JSON object for each log record"
    )

    @field_validator("trace_url", "log_url")
    @classmethod
    def _is_address(cls, stated: str) -> str:
        if stated and not stated.startswith(("https://", "http://")):
            raise ValueError("write an address that begins with https:// or http://")
        return stated

    @field_validator("metrics_token")
    @classmethod
    def _token_is_long(cls, token: SecretStr) -> SecretStr:
        if 0 < len(token.get_secret_value()) < 16:
            raise ValueError("a token needs at least 16 characters; `openssl rand -hex 24` makes one")
        return token


class WebhookSettings(SettingsGroup):
    """The settings of outgoing webhooks (docs/webhooks.md)."""

    webhook_secrets: SecretStr = Field(
        SecretStr(""),
        description="secrets of webhooks as `name=whsec_…`, separated by commas; of a name twice both sign",
    )
    webhook_phase: str = Field(
        "", description="phase whose workers send webhooks; empty: the last that is declared"
    )
    webhook_allow_private: bool = Field(
        False, description="webhooks that say so may be sent to private and local addresses, and by http"
    )
    webhook_seconds: float = Field(10, gt=0, le=60, description="seconds a receiver of webhooks may take")
    webhook_failures: int = Field(
        10, ge=0, description="deliveries in a row that fail for good until a webhook is paused; 0: never"
    )

    @field_validator("webhook_secrets")
    @classmethod
    def _secrets_are_whole(cls, stated: SecretStr) -> SecretStr:
        webhook_signature.keys_by_name(stated.get_secret_value())
        return stated


class AlertSettings(SettingsGroup):
    """The settings of outgoing alerts (docs/alerts.md)."""

    alert_destinations: SecretStr = Field(
        SecretStr(""),
        description="where alarms are sent, as `ops=mailto:ops@example.org,pager=https://…,chat=chat+https://…`",
    )
    alert_level: Literal["bad", "warn", "note"] = Field(
        "warn", description="the lowest level of an alarm that is sent: bad, warn or note"
    )
    alert_after: float = Field(
        60, ge=0, le=86_400, description="seconds an alarm stands, or is gone, before that is sent"
    )

    @field_validator("alert_destinations")
    @classmethod
    def _destinations_are_whole(cls, stated: SecretStr) -> SecretStr:
        for each in alert_destinations.destinations_in(stated.get_secret_value()):
            register_secret(each.address)
        return stated


@read_once
def alert_settings() -> AlertSettings:
    return AlertSettings.load(DJANGO_SETTINGS)


@read_once
def webhook_settings() -> WebhookSettings:
    return WebhookSettings.load(DJANGO_SETTINGS)


@read_once
def queue_settings() -> QueueSettings:
    return QueueSettings.load(DJANGO_SETTINGS)


@read_once
def lane_settings() -> LaneSettings:
    return LaneSettings.load(DJANGO_SETTINGS)


@read_once
def observability_settings() -> ObservabilitySettings:
    return ObservabilitySettings.load(DJANGO_SETTINGS)
