"""The HTML of background work: how far it is, how long it will take, and how it ended."""

from __future__ import annotations

from html import escape

from app.background.jobs import Job, Stage
from app.web.view import safe_text
from indexer.base.text import byte_size, duration

_STATES = {
    "waiting": "waiting for its turn",
    "running": "running",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}


def job_html(job: Job, now: float, link: tuple[str, str] | None = None) -> str:
    """One job. link: where its result is, and what the link says; shown when it is done."""
    state = f'<span class="ls-state ls-{job.state}">{_STATES[job.state]}</span>'
    title = f"<h3><bdi>{safe_text(job.title)}</bdi></h3>"
    body = "".join(_stage_html(stage, now) for stage in job.stages) if job.live else ""
    if body:
        body = f'<ul class="ls-progress">{body}</ul>'
    if job.state == "waiting":
        body = '<p class="ls-quiet">It starts when one of those that run now has ended.</p>'
    elif job.state == "running" and not job.stages:
        body = '<p class="ls-quiet">Starting…</p>'
    elif job.state == "failed":
        message = job.message[:1].upper() + job.message[1:]
        hint = f"<p>{safe_text(job.hint)}</p>" if job.hint else ""
        body = f'<div class="ls-notice" role="alert"><p><b>{safe_text(message)}</b></p>{hint}</div>'
    elif job.state == "done" and link is not None:
        address, words = link
        body = f'<p><a href="{escape(address)}">{safe_text(words)}</a></p>'
    took = _took(job, now)
    time = f'<span class="ls-time">{took}</span>' if took else ""
    head = f"<header>{title}{state}{time}</header>"
    return f'<section class="ls-job" aria-label="{safe_text(job.title)}">{head}{body}</section>'


def _stage_html(stage: Stage, now: float) -> str:
    label = f"<span><bdi>{safe_text(stage.label)}</bdi></span>"
    if stage.ended is not None:
        took = f"{max(stage.ended - stage.began, 0):.1f} s"
        took = f'<span class="ls-time"><span aria-hidden="true">✓ </span>{took}</span>'
        return f'<li class="ls-ended">{label}{took}</li>'
    share = stage.share
    value = f' value="{share:.4f}"' if share is not None else ""
    bar = f'<progress max="1"{value} aria-label="{safe_text(stage.label)}"></progress>'
    return f'<li>{label}<span class="ls-time">{_far(stage, now)}</span>{bar}</li>'


def _far(stage: Stage, now: float) -> str:
    """How far a stage is, and how long it will still take."""
    parts = []
    if stage.total:
        if stage.unit == "bytes":
            parts.append(f"{byte_size(stage.done)} of {byte_size(stage.total)}")
        else:
            parts.append(f"{stage.done:,.0f} of {stage.total:,.0f} {safe_text(stage.unit)}")
    left = stage.seconds_left(now)
    if left is not None:
        parts.append(f"{duration(left)} left")
    return ", ".join(parts)


def _took(job: Job, now: float) -> str:
    if job.began is None:
        return ""
    return duration((job.ended if job.ended is not None else now) - job.began)
