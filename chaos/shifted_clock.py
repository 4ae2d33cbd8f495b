"""Start processes whose wall clock is wrong, by a library that stands between a program and its libc."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from pipeweave.settings import environment

COMPILER = shutil.which("cc")
_SHIFT = "SHIFTED_CLOCK_S"

# What reads the wall clock is shifted; what waits until a time of the wall clock is shifted back.
_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift;

__attribute__((constructor)) static void read_shift(void) {
    const char *text = getenv("SHIFTED_CLOCK_S");
    shift = text ? atol(text) : 0;
}

static int real_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    return real(clock, at);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int result = real_gettime(clock, at);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += shift;
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec found;
    real_gettime(CLOCK_REALTIME, &found);
    at->tv_sec = found.tv_sec + shift;
    at->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec found;
    real_gettime(CLOCK_REALTIME, &found);
    if (at) *at = found.tv_sec + shift;
    return found.tv_sec + shift;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    static int (*real)(sem_t *, const struct timespec *);
    struct timespec moved = {until->tv_sec - shift, until->tv_nsec};
    if (!real) real = dlsym(RTLD_NEXT, "sem_timedwait");
    return real(semaphore, &moved);
}
"""


def shifted(folder: Path, seconds: int) -> dict[str, str]:
    """The environment of a process whose clock is wrong by so many seconds.

    Args:
        folder: where the library is kept.
        seconds: positive for a clock that is ahead.

    Raises:
        RuntimeError: this machine has no C compiler.
    """
    return {"LD_PRELOAD": str(_library(folder)), _SHIFT: str(seconds)}


def right_time() -> float:
    """The time (s since the epoch) by a right clock, in a process whose clock may be wrong."""
    return time.time() - int(environment().get(_SHIFT, 0))


def _library(folder: Path) -> Path:
    made = folder / "shifted_clock.so"
    if not made.exists():
        if COMPILER is None:
            raise RuntimeError("there is no C compiler")
        source = folder / "shifted_clock.c"
        source.write_text(_SOURCE)
        subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], check=True)
    return made
