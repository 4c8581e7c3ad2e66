/* libev: an `ev_io` for each descriptor, and `ev_timer`s, which are armed again by
 * `ev_timer_again`.
 *
 * The loop's time stands still while a script runs, as it does between two turns, so a delay from
 * now is a deadline in virtual time.
 */
#include <ev.h>

typedef struct ev_loop *library;
typedef ev_io watcher;
typedef ev_timer timer;

#include "loop.h"

static void fire(struct ev_loop *ev, ev_timer *timer, int events) {
    struct self *self = ev_userdata(ev);
    self->fired++;
}

static void ready(struct ev_loop *ev, ev_io *io, int events) {
    if (on_ready(ev_userdata(ev), (uintptr_t)io->data))
        ev_break(ev, EVBREAK_ONE);
}

static inline void arm_one(struct self *self, size_t id, uint64_t deadline) {
    ev_timer *timer = &self->timers[id];
    ev_tstamp delay = self->start + (double)deadline / 1000.;
    if (ev_is_active(timer)) {
        timer->repeat = delay;
        ev_timer_again(self->library, timer);
        timer->repeat = 0.;
    } else {
        ev_timer_set(timer, delay, 0.);
        ev_timer_start(self->library, timer);
    }
}

static inline void disarm_one(struct self *self, size_t id) {
    ev_timer_stop(self->library, &self->timers[id]);
}

static void open_library(struct self *self, long option) {
    self->library = ev_loop_new(EVBACKEND_EPOLL);
    if (!self->library)
        abort();
    ev_set_userdata(self->library, self);
}

static void close_library(struct self *self) {
    ev_loop_destroy(self->library);
}

static void init_timer(struct self *self, ev_timer *timer) {
    ev_timer_init(timer, fire, 0., 0.);
}

static void init_watcher(struct self *self, ev_io *io, size_t index) {
    ev_io_init(io, ready, self->watched[index], EV_READ);
    io->data = (void *)index;
}

static inline void start(struct self *self, ev_io *io) {
    ev_io_start(self->library, io);
}

static inline void stop(struct self *self, ev_io *io) {
    ev_io_stop(self->library, io);
}

static void turn(struct self *self, int waits) {
    ev_run(self->library, waits ? 0 : EVRUN_NOWAIT);
}

const struct peer libev = { create, destroy, arm, expire, run, toggle, NULL, 0 };
