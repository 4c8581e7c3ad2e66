/* libevent: an event for each descriptor and, where there are timers, a second one. */
#include "peer.h"

#include <event2/event.h>
#include <event2/event_struct.h>

struct poller;

struct watch {
    struct event io;
    struct event timer;
    struct poller *poller;
    size_t index;
};

struct poller {
    struct event_base *base;
    struct ring *ring;
    int timers;
    size_t n;
    struct watch watches[];
};

static void fire(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}

static void arm(struct watch *watch, unsigned ms)
{
    struct timeval delay = { ms / 1000, ms % 1000 * 1000 };
    event_add(&watch->timer, &delay);
}

static void ready(evutil_socket_t fd, short what, void *arg)
{
    struct watch *watch = arg;
    struct poller *poller = watch->poller;
    (void)fd;
    (void)what;
    serve(poller->ring, watch->index);
    if (poller->timers)
        arm(watch, delay_ms(poller->ring));
    if (poller->ring->left == 0)
        event_base_loopbreak(poller->base);
}

static void *create_with(const int *watched, size_t n, int timers, int flags)
{
    struct poller *poller = calloc(1, sizeof *poller + n * sizeof poller->watches[0]);
    if (!poller)
        abort();
    struct event_config *config = event_config_new();
    if (!config || event_config_set_flag(config, flags) != 0)
        abort();
    poller->base = event_base_new_with_config(config);
    event_config_free(config);
    if (!poller->base)
        abort();
    poller->timers = timers;
    poller->n = n;
    for (size_t i = 0; i < n; i++) {
        struct watch *watch = &poller->watches[i];
        watch->poller = poller;
        watch->index = i;
        event_assign(&watch->io, poller->base, watched[i], EV_READ | EV_PERSIST, ready, watch);
        event_add(&watch->io, NULL);
        event_assign(&watch->timer, poller->base, -1, 0, fire, watch);
        if (timers)
            arm(watch, 10000);
    }
    return poller;
}

static void *create(const int *watched, size_t n, int timers)
{
    return create_with(watched, n, timers, 0);
}

/* Changes are collected, and made together before the next wait. */
static void *create_with_changelist(const int *watched, size_t n, int timers)
{
    return create_with(watched, n, timers, EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST);
}

static void run(void *arg, struct ring *ring)
{
    struct poller *poller = arg;
    poller->ring = ring;
    event_base_dispatch(poller->base);
}

static void toggle(void *arg, size_t times)
{
    struct poller *poller = arg;
    while (times-- > 0) {
        event_del(&poller->watches[0].io);
        event_add(&poller->watches[0].io, NULL);
    }
}

static void destroy(void *arg)
{
    struct poller *poller = arg;
    for (size_t i = 0; i < poller->n; i++) {
        event_del(&poller->watches[i].io);
        event_del(&poller->watches[i].timer);
    }
    event_base_free(poller->base);
    free(poller);
}

const struct peer libevent_poller = { event_get_version, create, run, toggle, destroy };

const struct peer libevent_changelist_poller = {
    event_get_version, create_with_changelist, run, toggle, destroy
};
