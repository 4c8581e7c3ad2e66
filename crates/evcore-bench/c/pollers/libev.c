/* libev: an `ev_io` for each descriptor and, where there are timers, an `ev_timer`. */
#include "peer.h"

#include <ev.h>
#include <stdio.h>

struct watch {
    ev_io io;
    ev_timer timer;
    size_t index;
};

struct poller {
    struct ev_loop *loop;
    struct ring *ring;
    int timers;
    size_t n;
    struct watch watches[];
};

static const char *version(void)
{
    static char text[32];
    snprintf(text, sizeof text, "%d.%d", ev_version_major(), ev_version_minor());
    return text;
}

static void fire(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)timer;
    (void)events;
}

static void ready(struct ev_loop *loop, ev_io *io, int events)
{
    struct poller *poller = ev_userdata(loop);
    struct watch *watch = io->data;
    (void)events;
    serve(poller->ring, watch->index);
    if (poller->timers) {
        watch->timer.repeat = delay_ms(poller->ring) / 1000.;
        ev_timer_again(loop, &watch->timer);
    }
    if (poller->ring->left == 0)
        ev_break(loop, EVBREAK_ONE);
}

static void *create(const int *watched, size_t n, int timers)
{
    struct poller *poller = calloc(1, sizeof *poller + n * sizeof poller->watches[0]);
    if (!poller)
        abort();
    poller->loop = ev_loop_new(EVBACKEND_EPOLL);
    if (!poller->loop)
        abort();
    poller->timers = timers;
    poller->n = n;
    ev_set_userdata(poller->loop, poller);
    for (size_t i = 0; i < n; i++) {
        struct watch *watch = &poller->watches[i];
        watch->index = i;
        ev_io_init(&watch->io, ready, watched[i], EV_READ);
        watch->io.data = watch;
        ev_io_start(poller->loop, &watch->io);
        ev_timer_init(&watch->timer, fire, 0., 10.);
        if (timers)
            ev_timer_again(poller->loop, &watch->timer);
    }
    /* What was started is told to the kernel by the next turn. */
    ev_run(poller->loop, EVRUN_NOWAIT);
    return poller;
}

static void run(void *arg, struct ring *ring)
{
    struct poller *poller = arg;
    poller->ring = ring;
    ev_run(poller->loop, 0);
}

static void toggle(void *arg, size_t times)
{
    struct poller *poller = arg;
    while (times-- > 0) {
        ev_io_stop(poller->loop, &poller->watches[0].io);
        ev_io_start(poller->loop, &poller->watches[0].io);
    }
}

static void destroy(void *arg)
{
    struct poller *poller = arg;
    for (size_t i = 0; i < poller->n; i++) {
        ev_io_stop(poller->loop, &poller->watches[i].io);
        ev_timer_stop(poller->loop, &poller->watches[i].timer);
    }
    ev_loop_destroy(poller->loop);
    free(poller);
}

const struct peer libev_poller = { version, create, run, toggle, destroy };
