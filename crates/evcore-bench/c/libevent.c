/* libevent: an event for each descriptor, and one for each timer.
 *
 * A script of timers runs inside a callback of the loop, as a server's handlers do: only there is the
 * loop's time cached, and elsewhere each `event_add` would ask for it.
 */
#include "peer.h"

#include <event2/event.h>
#include <event2/event_struct.h>

struct loop {
    struct event_base *base;
    struct ring *ring;
    size_t timed, fired;
    /* Where virtual time begins, in seconds of the loop's time. */
    long start;
    /* The script, and the turn that does it. */
    struct event turn;
    const struct step *steps;
    size_t n;
    int disarms;
    struct event *timers;
    struct watch {
        struct event io;
        struct loop *loop;
        size_t index;
    } watches[];
};

static void fire(evutil_socket_t fd, short what, void *arg) {
    struct loop *loop = arg;
    loop->fired++;
}

static inline void arm_one(void *arg, size_t id, uint64_t deadline) {
    struct loop *loop = arg;
    struct timeval delay = { loop->start + (long)(deadline / 1000), deadline % 1000 * 1000 };
    event_add(&loop->timers[id], &delay);
}

static inline void disarm_one(void *arg, size_t id) {
    struct loop *loop = arg;
    event_del(&loop->timers[id]);
}

static void ready(evutil_socket_t fd, short what, void *arg) {
    struct watch *watch = arg;
    struct loop *loop = watch->loop;
    serve(loop->ring, watch->index);
    if (loop->timed)
        arm_one(loop, watch->index, delay_ms(loop->ring));
    if (loop->ring->left == 0)
        event_base_loopbreak(loop->base);
}

static void turn(evutil_socket_t fd, short what, void *arg) {
    struct loop *loop = arg;
    arm(loop, loop->steps, loop->n, loop->disarms);
    /* Or the loop would look again, and expire what is due. */
    event_base_loopbreak(loop->base);
}

static void *create_with(const int *watched, size_t n, size_t timers, int due, int flags) {
    struct loop *loop = zeroed(1, sizeof *loop + n * sizeof loop->watches[0]);
    loop->timers = zeroed(timers, sizeof loop->timers[0]);
    struct event_config *config = event_config_new();
    if (!config || event_config_set_flag(config, flags) != 0)
        abort();
    loop->base = event_base_new_with_config(config);
    event_config_free(config);
    if (!loop->base)
        abort();
    loop->timed = timers;
    loop->start = due ? -(END_MS / 1000) : 0;
    event_assign(&loop->turn, loop->base, -1, 0, turn, loop);
    for (size_t id = 0; id < timers; id++)
        event_assign(&loop->timers[id], loop->base, -1, 0, fire, loop);
    for (size_t i = 0; i < n; i++) {
        struct watch *watch = &loop->watches[i];
        watch->loop = loop;
        watch->index = i;
        event_assign(&watch->io, loop->base, watched[i], EV_READ | EV_PERSIST, ready, watch);
        event_add(&watch->io, NULL);
        if (timers)
            arm_one(loop, i, 10000);
    }
    return loop;
}

static void *create(const int *watched, size_t n, size_t timers, int due) {
    return create_with(watched, n, timers, due, 0);
}

/* Changes are collected, and made together before the next wait. */
static void *create_with_changelist(const int *watched, size_t n, size_t timers, int due) {
    return create_with(watched, n, timers, due, EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST);
}

static void destroy(void *arg) {
    struct loop *loop = arg;
    event_base_free(loop->base);
    free(loop->timers);
    free(loop);
}

static void arm_in_turn(void *arg, const struct step *steps, size_t n, int disarms) {
    struct loop *loop = arg;
    loop->steps = steps;
    loop->n = n;
    loop->disarms = disarms;
    event_active(&loop->turn, EV_TIMEOUT, 1);
    event_base_loop(loop->base, EVLOOP_NONBLOCK);
}

static size_t expire(void *arg) {
    struct loop *loop = arg;
    loop->fired = 0;
    event_base_loop(loop->base, EVLOOP_NONBLOCK);
    return loop->fired;
}

static void run(void *arg, struct ring *ring) {
    struct loop *loop = arg;
    loop->ring = ring;
    event_base_dispatch(loop->base);
}

static void toggle(void *arg, size_t times) {
    struct loop *loop = arg;
    while (times-- > 0) {
        event_del(&loop->watches[0].io);
        event_add(&loop->watches[0].io, NULL);
    }
}

const struct peer libevent = {
    create, destroy, arm_in_turn, expire, run, toggle, NULL
};

const struct peer libevent_changelist = {
    create_with_changelist, destroy, arm_in_turn, expire, run, toggle, NULL
};
