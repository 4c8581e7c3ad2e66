/* libevent: an event for each descriptor, and one for each timer.
 *
 * A script of timers runs inside a callback of the loop, as a server's handlers do, because the
 * loop caches its time only there. Elsewhere each `event_add` would read the clock.
 */
#include <event2/event.h>
#include <event2/event_struct.h>

typedef struct event_base *library;

typedef struct {
    struct event io;
    struct self *self;
    size_t index;
} watcher;

typedef struct event timer;

#include "loop.h"

static void fire(evutil_socket_t fd, short what, void *arg) {
    struct self *self = arg;
    self->fired++;
}

static void ready(evutil_socket_t fd, short what, void *arg) {
    watcher *watcher = arg;
    if (on_ready(watcher->self, watcher->index))
        event_base_loopbreak(watcher->self->library);
}

static inline void arm_one(struct self *self, size_t id, uint64_t deadline) {
    struct timeval delay = { (long)self->start + (long)(deadline / 1000), deadline % 1000 * 1000 };
    event_add(&self->timers[id], &delay);
}

static inline void disarm_one(struct self *self, size_t id) {
    event_del(&self->timers[id]);
}

static void open_library(struct self *self, long option) {
    struct event_config *config = event_config_new();
    if (!config || event_config_set_flag(config, option) != 0)
        abort();
    self->library = event_base_new_with_config(config);
    event_config_free(config);
    if (!self->library)
        abort();
}

static void close_library(struct self *self) {
    event_base_free(self->library);
}

static void init_timer(struct self *self, struct event *timer) {
    event_assign(timer, self->library, -1, 0, fire, self);
}

static void init_watcher(struct self *self, watcher *watcher, size_t index) {
    int fd = self->watched[index];
    watcher->self = self;
    watcher->index = index;
    event_assign(&watcher->io, self->library, fd, EV_READ | EV_PERSIST, ready, watcher);
}

static inline void start(struct self *self, watcher *watcher) {
    event_add(&watcher->io, NULL);
}

static inline void stop(struct self *self, watcher *watcher) {
    event_del(&watcher->io);
}

static void turn(struct self *self, int waits) {
    event_base_loop(self->library, waits ? 0 : EVLOOP_NONBLOCK);
}

struct script {
    struct self *self;
    const struct step *steps;
    size_t n;
    int disarms;
};

static void arm_here(evutil_socket_t fd, short what, void *arg) {
    struct script *script = arg;
    arm(script->self, script->steps, script->n, script->disarms);
    /* Otherwise the loop would look at its timers again, and expire those that are due. */
    event_base_loopbreak(script->self->library);
}

static void arm_in_turn(struct self *self, const struct step *steps, size_t n, int disarms) {
    struct script script = { self, steps, n, disarms };
    event_base_once(self->library, -1, EV_TIMEOUT, arm_here, &script, NULL);
    turn(self, 0);
}

const struct peer libevent = {
    create, destroy, arm_in_turn, expire, run, toggle, NULL, 0
};

/* libevent with an option by which changes are collected, and made together before the
 * next wait. */
const struct peer libevent_changelist = {
    create, destroy, arm_in_turn, expire, run, toggle, NULL, EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST
};
