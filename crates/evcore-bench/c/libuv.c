/* libuv: a `uv_poll_t` for each descriptor, and `uv_timer_t`s.
 *
 * The loop's time stands still while a script runs, as it does between two turns, so a timeout from
 * now is a deadline in virtual time. A timeout cannot be negative. So that all timers are due, the
 * loop's time is set back instead, as though a handler had run for that long.
 */
#include <uv.h>

typedef uv_loop_t library;
typedef uv_poll_t watcher;
typedef uv_timer_t timer;

#include "loop.h"

static void fire(uv_timer_t *timer) {
    struct self *self = timer->loop->data;
    self->fired++;
}

static void ready(uv_poll_t *io, int status, int events) {
    if (on_ready(io->loop->data, (uintptr_t)io->data))
        uv_stop(io->loop);
}

static inline void arm_one(struct self *self, size_t id, uint64_t deadline) {
    uv_timer_start(&self->timers[id], fire, deadline, 0);
}

static inline void disarm_one(struct self *self, size_t id) {
    uv_timer_stop(&self->timers[id]);
}

static void open_library(struct self *self, long option) {
    if (uv_loop_init(&self->library) != 0)
        abort();
    self->library.data = self;
    if (self->start < 0)
        self->library.time -= END_MS;
}

static void close_library(struct self *self) {
    for (size_t i = 0; i < self->n; i++)
        uv_close((uv_handle_t *)&self->watchers[i], NULL);
    for (size_t id = 0; id < self->timed; id++)
        uv_close((uv_handle_t *)&self->timers[id], NULL);
    turn(self, 0);
    uv_loop_close(&self->library);
}

static void init_timer(struct self *self, uv_timer_t *timer) {
    uv_timer_init(&self->library, timer);
}

static void init_watcher(struct self *self, uv_poll_t *io, size_t index) {
    if (uv_poll_init(&self->library, io, self->watched[index]) != 0)
        abort();
    io->data = (void *)index;
}

static inline void start(struct self *self, uv_poll_t *io) {
    uv_poll_start(io, UV_READABLE, ready);
}

static inline void stop(struct self *self, uv_poll_t *io) {
    uv_poll_stop(io);
}

static void turn(struct self *self, int waits) {
    uv_run(&self->library, waits ? UV_RUN_DEFAULT : UV_RUN_NOWAIT);
}

const struct peer libuv = { create, destroy, arm, expire, run, toggle, NULL, 0 };
