"""Progress on stderr, a bar on a terminal and occasional lines elsewhere, and measuring under it, with Ctrl-C."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from rich.progress import TextColumn, TimeRemainingColumn

from robench.cli.main import INTERRUPTED, TERMINATED, Terminated
from robench.cli.terminal import bar_console, is_interactive, say
from robench.core.inert import clipped
from robench.scheduling.display import Pause, ProgressLines, bar_on, duration, progress_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from robench.core.protocols import Executor
    from robench.runs.training_queue import QueueProgress
    from robench.scheduling import Progress
    from robench.training.base import EpochReport, StepReport
    from robench.training.history import Epoch

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_LOSSES = 1.0


@contextmanager
def progress_shown(num_shards: int) -> Iterator[Callable[[Progress], None]]:
    """Yield a callback for the progress of ``measure``: shards done, examples per second, time left."""
    if is_interactive():
        # rich prints other output to stderr above its bar.
        with progress_on(bar_console(), num_shards, say) as on_progress:
            yield on_progress
    else:
        yield ProgressLines(say, SECONDS_BETWEEN_LINES)


class TrainingLines:
    """Callbacks for the steps and epochs of a training that show a line now and then."""

    def __init__(self, name: str) -> None:
        self._name, self._speed = name, _Speed()
        # Lines of steps are for epochs that take longer than the pause between lines of epochs.
        self._between_epochs, self._between_steps = Pause(SECONDS_BETWEEN_LINES), Pause(2 * SECONDS_BETWEEN_LINES)

    def on_step(self, report: StepReport) -> None:
        """Show where a training resumes, or how far it has come within an epoch."""
        if report.is_resumed:
            say(_resumed_text(self._name, report))
        if report.loss_nats is not None and self._between_steps.is_over(is_last=False):
            loss = f"loss {report.loss_nats():.3f} nats, {self._speed.text(report)}"
            say(f"training {self._name}: epoch {report.epoch} of {report.num_epochs}, {_examples_text(report)}, {loss}")

    def on_epoch(self, report: EpochReport) -> None:
        """Show the loss and the scores of an epoch."""
        if self._between_epochs.is_over(is_last=report.epoch == report.num_epochs):
            self._between_steps.is_over(is_last=True)
            say(f"training {self._name}: epoch {report.epoch} of {report.num_epochs}, {_epoch_text(report)}")


class _TrainingBar:
    def __init__(self, name: str, bar: Bar) -> None:
        self._name, self._bar = name, bar
        self._task = bar.add_task(f"training {clipped(name)}", total=None, note="")
        self._speed, self._pause, self._scores = _Speed(), Pause(SECONDS_BETWEEN_LOSSES), ""

    def on_step(self, report: StepReport) -> None:
        if report.is_resumed:
            say(_resumed_text(self._name, report))
        # Reading a loss may wait for the device.
        if self._pause.is_over(is_last=report.loss_nats is None):
            loss = "" if report.loss_nats is None else f"loss {report.loss_nats():.3f} nats, {self._speed.text(report)}"
            self._bar.update(
                self._task,
                description=f"training {clipped(self._name)}, epoch {report.epoch} of {report.num_epochs}",
                total=report.num_examples,
                completed=report.num_done,
                note=f"examples {loss}{self._scores}",
            )

    def on_epoch(self, report: EpochReport) -> None:
        self._scores = f"; epoch {report.epoch}: {_epoch_text(report)}"


class _Speed:
    def __init__(self) -> None:
        self._started: float | None = None
        self._num_done = 0

    def text(self, report: StepReport) -> str:
        """Return the examples per second since the first report, and the time left where it is known."""
        now = time.monotonic()
        place = (report.epoch - 1) * (report.num_examples or 0) + report.num_done
        if self._started is None:
            self._started, self._num_done = now, place
            return "the time left is not known yet"
        rate = (place - self._num_done) / max(now - self._started, 1e-9)
        if report.num_examples is None or rate <= 0:
            return "the time left is not known"
        left = (report.num_epochs * report.num_examples - place) / rate
        return f"{rate:.0f} examples/s, about {duration(left)} left"


def _examples_text(report: StepReport) -> str:
    of_all = "" if report.num_examples is None else f" of {report.num_examples:,}"
    return f"{report.num_done:,}{of_all} examples"


def _resumed_text(name: str, report: StepReport) -> str:
    within = f", after {_examples_text(report)}" if report.num_done else ""
    return f"training {name} resumes at epoch {report.epoch} of {report.num_epochs}{within}"


@contextmanager
def training_shown(name: str) -> Iterator[TrainingLines | _TrainingBar]:
    """Yield the callbacks of a training: a bar of the epoch in progress on a terminal, occasional lines elsewhere."""
    if not is_interactive():
        yield TrainingLines(name)
        return
    with bar_on(bar_console(), TextColumn("{task.fields[note]}", markup=False)) as bar:
        yield _TrainingBar(name, bar)


@contextmanager
def queue_shown() -> Iterator[Callable[[QueueProgress], None]]:
    """Yield a callback for a queue of trainings: a bar of each in progress on a terminal, lines elsewhere."""
    if not is_interactive():
        yield lambda progress: say(*_queue_lines(progress))
        return
    with bar_on(bar_console(), TextColumn("{task.fields[note]}")) as bar:
        everything = bar.add_task("trainings", total=None, note="")
        tasks: dict[str, TaskID] = {}

        def on_progress(progress: QueueProgress) -> None:
            left = _queue_left(progress)
            bar.update(everything, total=progress.num_jobs, completed=progress.num_ended, note=left)
            for name in tasks.keys() - progress.running.keys():
                bar.remove_task(tasks.pop(name))
            for name, (num_epochs, epochs) in progress.running.items():
                if name not in tasks:
                    tasks[name] = bar.add_task(f"training {clipped(name)}", total=num_epochs, note="")
                note = _scores_text(epochs[-1]).lstrip(", ") if epochs else ""
                bar.update(tasks[name], completed=len(epochs), note=note)

        yield on_progress


def _queue_lines(progress: QueueProgress) -> Iterator[str]:
    for name, (num_epochs, epochs) in progress.running.items():
        last = f", loss {epochs[-1].loss_nats:.3f} nats{_scores_text(epochs[-1])}" if epochs else ""
        yield f"training {name}: {len(epochs)} of {num_epochs} epochs{last}"
    yield f"{progress.num_ended} of {progress.num_jobs} trainings ended{_queue_left(progress, ', ')}"


def _queue_left(progress: QueueProgress, separator: str = "") -> str:
    seconds = progress.seconds_left
    return "" if seconds is None else f"{separator}about {duration(seconds)} left"


def _epoch_text(report: EpochReport) -> str:
    return f"loss {report.loss_nats:.3f} nats{_scores_text(report)}, {report.examples_per_second:.0f} examples/s"


def _scores_text(report: EpochReport | Epoch) -> str:
    scores = report.validation
    if scores is None:
        return ""
    if scores.top1_accuracy is None:
        return f", validation loss {scores.loss_nats:.3f}"
    return f", {100 * scores.top1_accuracy:.1f} % right"


@contextmanager
def steps_shown(description: str, noun: str, *, are_alike: bool = True) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a callback for steps done and all, if known: a bar on a terminal, occasional lines elsewhere.

    The bar has the time left where the steps are alike.
    """
    if not is_interactive():
        pause = Pause(SECONDS_BETWEEN_LINES)

        def on_progress(done: int, total: int | None) -> None:
            if pause.is_over(is_last=done == total):
                say(f"{description}: {done}{'' if total is None else f' of {total}'} {noun}")

        yield on_progress
        return
    with bar_on(bar_console(), TextColumn(noun, markup=False), *([TimeRemainingColumn()] if are_alike else [])) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, total=total, completed=done)


def kept_text(*filled: Progress, smoke: bool = False) -> str:
    """Return whether an interrupted run has stored results, as a sentence; ``filled`` is how far it has come."""
    if smoke:
        return "Nothing of a smoke run is kept; the same command begins again."
    if any(has_kept(each) for each in filled):
        return "What was measured is kept; the same command goes on from there."
    return "Nothing was measured; the same command begins again."


def say_failures(*filled: Progress) -> None:
    """Print how many shards failed, if any, and what the same command does with them."""
    num_refused = sum(each.num_refused for each in filled)
    if num_failed := sum(each.num_failed for each in filled) - num_refused:
        say(f"{num_failed} shards failed; the same command tries them again.")
    if num_refused:
        say(f"{num_refused} shards were refused, as the same command will be; mend what the messages name.")


def has_kept(progress: Progress) -> bool:
    """Return whether the store has results of a run."""
    return progress.num_kept_before + progress.num_done + progress.num_elsewhere > progress.num_failed


class WatchedRun:
    """Watch over a run (``scheduling.Watch``) that shows its progress.

    The first Ctrl-C or SIGTERM drains, the second raises KeyboardInterrupt. SIGUSR1 raises ``GivenUp`` at once, so that
    shards under way are given up. Either has a note on stored results.

    Attributes:
        exit_code: that of the first interruption, 0 before it.
    """

    def __init__(self, *, smoke: bool = False) -> None:
        self.exit_code = 0
        self.filled: dict[str, Progress] = {}
        self._smoke = smoke

    @property
    def is_stopped(self) -> bool:
        """Return whether the run was interrupted."""
        return bool(self.exit_code)

    @contextmanager
    def watching(
        self, executor: Executor, num_todo: int, num_shards: int, title: str
    ) -> Iterator[Callable[[Progress], None]]:
        """Yield a callback for the progress of an executor, which the signals drain meanwhile."""
        # Workers that are elsewhere are counted only for work, since this may start them.
        count = min(executor.num_workers, num_todo) if num_todo else 0
        say(*filter(None, [title, f"starting {count} worker{'s' * (count != 1)}" if count else ""]))
        interrupt = partial(self._interrupt, executor)
        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with progress_shown(num_shards) as on_progress:

                def seen(progress: Progress) -> None:
                    self.filled[title] = progress
                    on_progress(progress)

                yield seen
        except KeyboardInterrupt as error:
            error.add_note(kept_text(*self.filled.values(), smoke=self._smoke))
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _interrupt(self, executor: Executor, number: int, frame: FrameType | None) -> None:
        if self.exit_code:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        is_terminated = number == signal.SIGTERM
        self.exit_code = TERMINATED if is_terminated else INTERRUPTED
        executor.drain()
        again = "another SIGTERM stops" if is_terminated else "press Ctrl-C again to stop"
        say(f"Finishing the shards under way; {again} at once.")
