/* libev: an `ev_io` for each descriptor, and `ev_timer`s, which are armed again by `ev_timer_again`.
 *
 * The loop's time stands still while a script runs, as it does between two turns, so a delay is a
 * deadline.
 */
#include "peer.h"

#include <ev.h>

struct loop {
    struct ev_loop *ev;
    struct ring *ring;
    size_t timed, fired;
    /* Where virtual time begins, in seconds of the loop's time. */
    ev_tstamp start;
    ev_timer *timers;
    ev_io ios[];
};

static void fire(struct ev_loop *ev, ev_timer *timer, int events) {
    struct loop *loop = ev_userdata(ev);
    loop->fired++;
}

static inline void arm_one(void *arg, size_t id, uint64_t deadline) {
    struct loop *loop = arg;
    ev_timer *timer = &loop->timers[id];
    ev_tstamp delay = loop->start + (double)deadline / 1000.;
    if (ev_is_active(timer)) {
        timer->repeat = delay;
        ev_timer_again(loop->ev, timer);
        timer->repeat = 0.;
    } else {
        ev_timer_set(timer, delay, 0.);
        ev_timer_start(loop->ev, timer);
    }
}

static inline void disarm_one(void *arg, size_t id) {
    struct loop *loop = arg;
    ev_timer_stop(loop->ev, &loop->timers[id]);
}

static void ready(struct ev_loop *ev, ev_io *io, int events) {
    struct loop *loop = ev_userdata(ev);
    size_t index = (uintptr_t)io->data;
    serve(loop->ring, index);
    if (loop->timed)
        arm_one(loop, index, delay_ms(loop->ring));
    if (loop->ring->left == 0)
        ev_break(ev, EVBREAK_ONE);
}

static void *create(const int *watched, size_t n, size_t timers, int due) {
    struct loop *loop = zeroed(1, sizeof *loop + n * sizeof loop->ios[0]);
    loop->timers = zeroed(timers, sizeof loop->timers[0]);
    loop->ev = ev_loop_new(EVBACKEND_EPOLL);
    if (!loop->ev)
        abort();
    ev_set_userdata(loop->ev, loop);
    loop->timed = timers;
    loop->start = due ? -(END_MS / 1000.0) : 0.;
    for (size_t id = 0; id < timers; id++)
        ev_timer_init(&loop->timers[id], fire, 0., 0.);
    for (size_t i = 0; i < n; i++) {
        ev_io_init(&loop->ios[i], ready, watched[i], EV_READ);
        loop->ios[i].data = (void *)i;
        ev_io_start(loop->ev, &loop->ios[i]);
        if (timers)
            arm_one(loop, i, 10000);
    }
    /* What was started is told to the kernel by the next turn. */
    if (n)
        ev_run(loop->ev, EVRUN_NOWAIT);
    return loop;
}

static void destroy(void *arg) {
    struct loop *loop = arg;
    ev_loop_destroy(loop->ev);
    free(loop->timers);
    free(loop);
}

static size_t expire(void *arg) {
    struct loop *loop = arg;
    loop->fired = 0;
    ev_run(loop->ev, EVRUN_NOWAIT);
    return loop->fired;
}

static void run(void *arg, struct ring *ring) {
    struct loop *loop = arg;
    loop->ring = ring;
    ev_run(loop->ev, 0);
}

static void toggle(void *arg, size_t times) {
    struct loop *loop = arg;
    while (times-- > 0) {
        ev_io_stop(loop->ev, loop->ios);
        ev_io_start(loop->ev, loop->ios);
    }
}

const struct peer libev = { create, destroy, arm, expire, run, toggle, NULL };
